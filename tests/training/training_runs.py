"""Training runs so small that a test can afford many of them, started by their command line, and what they leave."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from transformer.text.synthetic import reverse_pairs
from transformer.training.state import exists

SETTINGS = {
    "model.d_model": 32,
    "model.feed_forward": 64,
    "model.heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    # All that is drawn at random must be drawn again as it was.
    "model.dropout": 0.1,
    "training.source_word_dropout": 0.1,
    "training.target_word_dropout": 0.1,
    "training.r_drop": 1.0,
    "data.subword_sampling": 0.1,
    "training.accumulate": 2,
    "training.batch_tokens": 64,
    "training.precision": "float32",
    "training.threads": 1,
    "training.device": "cpu",
    "training.epochs": 3,
    "training.average": 2,
    "training.warmup_steps": 10,
    "training.learning_rate": 0.01,
    "training.save_minutes": 0.0,  # after every update
    "training.log_every": 1,
    "training.stop_at": 0,
    "training.dev_sentences": 8,
    "checkpoint.dtype": "float32",
    "checkpoint.snapshots": [3, 8],
}
REVERSE = {"data.generated_pairs": 400, "data.generated_length": 5, "training.epochs": 5}
FILES = {"source": "train.source", "target": "train.target", "dev_source": "dev.source", "dev_target": "dev.target"}
TIMED = ("seconds", "tokens_per_second", "mfu", "memory_mb")
"""Fields of the history that depend on the machine."""


def own_recipe(folder: Path) -> str:
    """A recipe that names text files: twelve dozen pairs, six of dev, and none to be scored at the end."""
    pairs = reverse_pairs(150, seed=1, max_length=5)
    for name, part in (("train", pairs[:144]), ("dev", pairs[144:])):
        for side in ("source", "target"):
            text = "".join(getattr(pair, side) + "\n" for pair in part)
            (folder / f"{name}.{side}").write_text(text, encoding="utf-8")
    lines = ["[data]", *(f"{key} = '{folder / file}'" for key, file in FILES.items()), "[tokenizer]", "vocab_size = 45"]
    (folder / "own.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / "own.toml")


def arguments(out: Path, recipe: str = "reverse", resume: bool | None = None, **changes: object) -> list[str]:
    """Of a run that begins, or goes on from the saved state if there is one; changes are ``training__epochs=3``."""
    values = {**SETTINGS, **(REVERSE if recipe == "reverse" else {})}
    values.update({key.replace("__", "."): value for key, value in changes.items()})
    if resume is None:
        resume = exists(out / "training")
    words = [f"{key}={json.dumps(value)}" for key, value in values.items()]
    return ["train", recipe, "--out", str(out), *(["--resume"] if resume else []), "--set", *words]


def history(out: Path) -> list[dict[str, Any]]:
    """The lines of the history that are whole."""
    path = out / "history.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    return [json.loads(line) for line in lines if line.endswith(b"}")]


def untimed(out: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key not in TIMED} for line in history(out)]


def assert_same_result(one: Path, other: Path) -> None:
    """Losses and everything else in the history that is not time, and every bit of the weights."""
    for line, another in itertools.zip_longest(untimed(one), untimed(other)):
        assert line == another, f"the histories differ: {line} and {another}"
    last = max((one / "training").glob("epoch-*.safetensors")).relative_to(one)
    snapshots = [path.relative_to(one) for path in (one / "snapshots").iterdir()]
    for name in ("tokenizer.model", last, "model.safetensors", *snapshots):
        assert (one / name).read_bytes() == (other / name).read_bytes(), f"{name} differs"
    scores, others = (json.loads((out / "config.json").read_text(encoding="utf-8"))["scores"] for out in (one, other))
    assert scores == others, f"the scores differ: {scores} and {others}"
