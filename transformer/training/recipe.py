"""A training run as a value: read from TOML, changed by ``--set``, refused where it cannot work."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import tomllib
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformer.config import PRESETS, ModelConfig
from transformer.decoding.options import WIDEST_BEAM
from transformer.errors import ConfigError, problem
from transformer.files import write_atomically
from transformer.training.sections import CheckpointSection, DataSection, TokenizerSection, TrainingSection
from transformer.training.writing import writing

_LARGEST = 2**63 - 1
"""TOML's and PyTorch's largest whole number; so it bounds the seed too."""
_UPPER = {"training.threads": 1024, "training.warmup_steps": 10**7}
_WIDEST = {
    "d_model": 65536,
    "feed_forward": 65536,
    "encoder_layers": 1000,
    "decoder_layers": 1000,
    "max_length": 65536,
}
"""Sizes of a model above which a recipe holds a slip of the pen: no machine could hold it."""

FOLDER = Path(__file__).resolve().parent.parent / "recipes"


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run."""

    data: DataSection = field(default_factory=DataSection)
    tokenizer: TokenizerSection = field(default_factory=TokenizerSection)
    model: Mapping[str, Any] = field(default_factory=dict)
    """``preset`` and any fields of ModelConfig but ``vocab_size``."""
    training: TrainingSection = field(default_factory=TrainingSection)
    checkpoint: CheckpointSection = field(default_factory=CheckpointSection)
    name: str = "recipe"

    def model_config(self, vocab_size: int) -> ModelConfig:
        """The shape of the model for a vocabulary of this size."""
        values = dict(self.model)
        return ModelConfig.preset(str(values.pop("preset", "tiny")), vocab_size, **values)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))  # type: ignore[no-any-return]


SECTIONS: dict[str, type] = {
    "data": DataSection,
    "tokenizer": TokenizerSection,
    "training": TrainingSection,
    "checkpoint": CheckpointSection,
}
_KINDS: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple[str, ...]: "a list of texts, each in quotes",
    tuple[int, ...]: "a list of whole numbers",
    tuple[float, ...]: "a list of numbers",
}
_MODEL_KEYS = {f.name for f in dataclasses.fields(ModelConfig)} - {"vocab_size"} | {"preset"}


def names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_recipe(name_or_path: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe, by name or path, and apply ``section.key=value`` overrides.

    Raises:
        ConfigError: no such recipe, one that cannot be read, broken TOML, an unknown key (the nearest known one is
            named), or a wrong value.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = FOLDER / f"{name_or_path}.toml"
    try:
        values = tomllib.loads(_text_of(path, name_or_path))
    except RecursionError as error:
        raise ConfigError(
            problem(f"recipe {path.name}", "must be valid TOML", "nested too deeply", "take out brackets")
        ) from error
    except ValueError as error:  # TOMLDecodeError is one; a number of thousands of digits is a plain one
        raise ConfigError(
            problem(f"recipe {path.name}", "must be valid TOML", str(error), "correct that line")
        ) from error
    for override in overrides:
        _apply(values, override)
    return recipe_from(values, path.stem)


def recipe_from(values: Mapping[str, Any], name: str = "recipe") -> Recipe:
    """Build a recipe from plain values, refusing unknown sections and keys."""
    parts: dict[str, Any] = {"name": str(values.get("name", name))}
    _refuse_odd("name", parts["name"])
    for section, content in values.items():
        if section == "name":
            continue
        if section != "model" and section not in SECTIONS:
            raise ConfigError(_unknown("section", section, [*SECTIONS, "model"]))
        if not isinstance(content, Mapping):
            raise ConfigError(
                problem(f"[{section}]", "must be a table of values", content, "write key = value below it")
            )
        known = _MODEL_KEYS if section == "model" else {f.name for f in dataclasses.fields(SECTIONS[section])}
        for key in content:
            if key not in known:
                raise ConfigError(_unknown(f"key of [{section}]", key, sorted(known)))
            _refuse_odd(f"{section}.{key}", content[key])
        parts[section] = dict(content) if section == "model" else _section(section, content)
    recipe = Recipe(**parts)
    _check(recipe)
    return recipe


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write the recipe with all its values as JSON, for resuming and for the model card.

    Raises:
        TrainingError: it cannot be written.
    """
    text = json.dumps(recipe.to_dict(), indent=2, ensure_ascii=False) + "\n"
    with writing("recipe of the run", path):
        write_atomically(path, text.encode())


def _text_of(path: Path, named: str) -> str:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ValueError: a NUL in the name
        raise ConfigError(
            problem("recipe", "must be a .toml file or a known name", named, f"known are {', '.join(names())}")
        ) from error
    except OSError as error:
        raise ConfigError(
            problem("recipe", "must be a readable file", str(path), f"check it ({error.strerror})")
        ) from error
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        bad = data[error.start : error.start + 8]
        raise ConfigError(
            problem(f"recipe {path.name}, line {line},", "must be UTF-8 text", bad, "convert the file to UTF-8")
        ) from error


def _refuse_odd(name: str, value: Any) -> None:
    """Refuse what TOML or ``--set`` can say, but no file name, JSON file or PyTorch call can take."""
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(item, int) and abs(item) > _LARGEST:
            bits = f"a number of {item.bit_length()} bits"  # too many digits cannot even be shown
            raise ConfigError(problem(name, f"must be at most {_LARGEST}", bits, "lower it"))
        if isinstance(item, str) and ("\0" in item or item.encode("utf-8", "ignore").decode() != item):
            raise ConfigError(problem(name, "must be UTF-8 text without NUL", item, "take those characters out"))


def _section(name: str, content: Mapping[str, Any]) -> Any:
    kind = SECTIONS[name]
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in content.items():
        wanted = hints[key]
        if wanted is float:
            value = _as_float(value)
        elif typing.get_origin(wanted) is tuple and isinstance(value, list):
            value = tuple(map(_as_float, value) if wanted == tuple[float, ...] else value)
        if not _fits(value, wanted):
            shown = list(value) if isinstance(value, tuple) else value
            raise ConfigError(problem(f"{name}.{key}", f"must be {_KINDS[wanted]}", shown, "correct it"))
        values[key] = value
    return kind(**values)


def _as_float(value: Any) -> Any:
    """TOML's 1 as 1.0; anything else as it is."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _fits(value: Any, wanted: Any) -> bool:
    if typing.get_origin(wanted) is tuple:
        return isinstance(value, tuple) and all(_fits(item, typing.get_args(wanted)[0]) for item in value)
    return isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))


def _apply(values: dict[str, Any], override: str) -> None:
    key, sign, text = override.partition("=")
    section, dot, name = key.strip().partition(".")
    if not sign or not dot:
        raise ConfigError(problem("--set", "must be section.key=value", override, "for example training.epochs=10"))
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except RecursionError as error:
        raise ConfigError(problem("--set", "must be valid TOML", override, "take out brackets")) from error
    except ValueError:
        value = text.strip()  # a bare word is meant as text
    target = values.setdefault(section, {})
    if not isinstance(target, dict) or section == "name":
        raise ConfigError(_unknown("section", section, [*SECTIONS, "model"]))
    target[name] = value


def _unknown(kind: str, found: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(found, known, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
    return f"There is no {kind} called {found!r} in a recipe: {remedy}".rstrip("?") + ("?" if close else ".")


def _check(recipe: Recipe) -> None:
    training, data = recipe.training, recipe.data
    for name, low in (
        ("training.seed", 0),
        ("training.epochs", 1),
        ("training.batch_tokens", 1),
        ("training.accumulate", 1),
        ("training.dev_beam", 1),
        ("training.warmup_steps", 1),
        ("training.average", 1),
        ("training.evaluate_every", 1),
        ("training.log_every", 1),
        ("training.patience", 0),
        ("training.dev_sentences", 0),
        ("training.threads", 0),
        ("training.r_drop_after", 0),
        ("training.save_minutes", 0),
        ("training.clip_norm", 0),
        ("data.max_pieces", 3),
        ("data.max_ratio", 1),
        ("data.generated_pairs", 1),
        ("data.generated_length", 1),
    ):
        section, _, key = name.partition(".")
        value = getattr(getattr(recipe, section), key)
        if not value >= low:  # so written, it refuses nan too
            raise ConfigError(problem(name, f"must be at least {low}", value, "correct it"))
    for name, lowest, highest in (
        ("learning_rate", 0.0, 1.0),
        ("label_smoothing", 0.0, 0.99),
        ("beta1", 0.0, 0.9999),
        ("beta2", 0.0, 0.99999),
        ("epsilon", 0.0, 1.0),
        ("stop_at", 0.0, 100.0),
    ):
        value = getattr(training, name)
        if not lowest <= value <= highest:
            raise ConfigError(problem(f"training.{name}", f"must be from {lowest} to {highest}", value, "correct it"))
    for name, rate in (
        ("training.source_word_dropout", training.source_word_dropout),
        ("training.target_word_dropout", training.target_word_dropout),
        ("data.subword_sampling", data.subword_sampling),
    ):
        if not 0.0 <= rate < 1.0:
            raise ConfigError(problem(name, "must be at least 0 and below 1", rate, "0.1 is usual"))
    if not 0.0 <= training.r_drop <= 100.0:
        raise ConfigError(problem("training.r_drop", "must be from 0 to 100", training.r_drop, "the paper's is 5"))
    if training.dev_beam > WIDEST_BEAM:
        rule = f"must be at most {WIDEST_BEAM}"
        raise ConfigError(problem("training.dev_beam", rule, training.dev_beam, "5 is plenty"))
    vocab_size = recipe.tokenizer.vocab_size
    if vocab_size and vocab_size < 5:
        raise ConfigError(problem("tokenizer.vocab_size", "must be at least 5, or 0", vocab_size, "raise it"))
    if any(step < 1 for step in recipe.checkpoint.snapshots):
        rule = "must be steps, which count from 1"
        raise ConfigError(problem("checkpoint.snapshots", rule, list(recipe.checkpoint.snapshots), "correct them"))
    alphas = recipe.checkpoint.length_penalties
    if not alphas or not all(0.0 <= alpha <= 10.0 for alpha in alphas):
        rule = "must be one number or several, from 0 to 10"
        raise ConfigError(problem("checkpoint.length_penalties", rule, list(alphas), "[0.6] is usual"))
    _check_size(recipe)
    for name, value, allowed in (
        ("training.precision", training.precision, ("auto", "float32", "bfloat16")),
        ("training.device", training.device, ("auto", "cpu", "cuda")),
        ("training.select", training.select, ("bleu", "exact", "loss")),
        ("training.average_of", training.average_of, ("last", "best")),
        ("checkpoint.dtype", recipe.checkpoint.dtype, ("float16", "bfloat16", "float32")),
        ("model.preset", recipe.model.get("preset", "tiny"), tuple(PRESETS)),
    ):
        if value not in allowed:
            raise ConfigError(problem(name, f"must be one of {', '.join(allowed)}", value, "choose one of them"))
    _check_data(data)
    if training.stop_at and training.select == "loss":
        raise ConfigError(
            problem("training.stop_at", "must be 0 with select = loss", training.stop_at, "use training.patience")
        )
    config = recipe.model_config(vocab_size or 8000)  # any size will do for this
    if data.max_pieces > config.max_length:
        rule = f"must be at most model.max_length = {config.max_length}"
        raise ConfigError(problem("data.max_pieces", rule, data.max_pieces, "lower it, or raise model.max_length"))


def _check_size(recipe: Recipe) -> None:
    for section in SECTIONS:
        for key, value in vars(getattr(recipe, section)).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(problem(f"{section}.{key}", "must be a finite number", value, "correct it"))
    sizes = {name: getattr(getattr(recipe, name.partition(".")[0]), name.partition(".")[2]) for name in _UPPER}
    sizes |= {f"model.{key}": recipe.model.get(key) for key in _WIDEST}
    for name, most in (_UPPER | {f"model.{key}": most for key, most in _WIDEST.items()}).items():
        size = sizes[name]
        if isinstance(size, int) and size > most:
            raise ConfigError(problem(name, f"must be at most {most}", size, "lower it"))


def _check_data(data: DataSection) -> None:
    given = {key: getattr(data, key) for key in ("dataset", "source", "target", "tsv") if getattr(data, key)}
    if [bool(data.dataset), bool(data.source or data.target), bool(data.tsv)].count(True) != 1:
        rule = "must name either dataset, or source and target, or tsv"
        raise ConfigError(problem("[data]", rule, given, "give exactly one of them"))
    for one, other in (("source", "target"), ("dev_source", "dev_target")):
        if bool(getattr(data, one)) != bool(getattr(data, other)):
            named = getattr(data, one) or getattr(data, other)
            raise ConfigError(problem("[data]", f"must name both {one} and {other}", named, "add the other"))
    if data.dev_source and data.dataset:
        rule = "must be left out with dataset, which has a dev set"
        raise ConfigError(problem("data.dev_source", rule, data.dev_source, "remove it"))
