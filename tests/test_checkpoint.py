"""A checkpoint comes back as it was saved, or is refused in one sentence."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from transformer import files
from transformer.catalogue import available, resolve, snapshot_of, snapshots
from transformer.checkpoint import load_checkpoint, save_checkpoint
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.nn.model import Transformer
from transformer.text.tokenizer import Tokenizer, train_tokenizer

LANGUAGES = {"source": "English", "target": "German", "source_code": "en", "target_code": "de"}


@pytest.fixture
def copy(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A checkpoint that a test may damage."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_comes_back_as_the_stored_precision_rounds_it(
    dtype: str, tiny_model: Transformer, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    save_checkpoint(tmp_path / "new" / "tiny", tiny_model, tiny_tokenizer, languages=LANGUAGES, dtype=dtype)
    loaded = load_checkpoint(tmp_path / "new" / "tiny")
    assert loaded.config == tiny_model.config
    assert loaded.tokenizer.fingerprint == tiny_tokenizer.fingerprint
    assert loaded.languages == LANGUAGES
    assert (loaded.name, loaded.precision) == ("tiny", dtype)
    assert not loaded.model.training
    for (name, parameter), (other, original) in zip(
        loaded.model.named_parameters(), tiny_model.named_parameters(), strict=True
    ):
        assert name == other
        assert parameter.dtype == torch.float32
        assert not parameter.requires_grad
        assert torch.equal(parameter, original.to(getattr(torch, dtype)).float()), name


def test_holds_no_pickle_and_tied_weights_once(tiny_checkpoint: Path, tiny_model: Transformer) -> None:
    assert sorted(path.name for path in tiny_checkpoint.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.model",
    ]
    tensors = safetensors.torch.load_file(tiny_checkpoint / "model.safetensors")
    vocabulary, width = tiny_model.config.vocab_size, tiny_model.config.d_model
    assert sum(list(tensor.shape) == [vocabulary, width] for tensor in tensors.values()) == 1
    assert sum(tensor.numel() for tensor in tensors.values()) == sum(p.numel() for p in tiny_model.parameters())


def test_tied_parameters_are_one_after_loading(tiny_checkpoint: Path) -> None:
    model = load_checkpoint(tiny_checkpoint).model
    assert model.projection.weight is model.source_input.lookup.weight
    assert model.projection.weight is model.target_input.lookup.weight


@pytest.mark.parametrize("tying", ["all", "target", "none"])
def test_every_tying_computes_the_same_after_loading(tying: str, tiny_tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = ModelConfig(
        tiny_tokenizer.vocab_size,
        d_model=16,
        heads=2,
        encoder_layers=1,
        decoder_layers=2,
        feed_forward=16,
        tie_embeddings=tying,
        positions="learned",
        norm_first=True,
        max_length=8,
    )
    model = Transformer(config).eval()
    save_checkpoint(tmp_path, model, tiny_tokenizer, languages=LANGUAGES, dtype="float32")
    source, target = torch.tensor([[2, 9, 8, 3]]), torch.tensor([[2, 7]])
    assert torch.equal(load_checkpoint(tmp_path).model(source, target), model(source, target))


def test_free_values_come_back(tiny_checkpoint: Path) -> None:
    meta = load_checkpoint(tiny_checkpoint).meta
    assert meta["schema_version"] == 1
    assert meta["training"] == {"recipe": "none", "steps": 0}
    assert meta["scores"][0]["metric"] == "BLEU"
    assert meta["examples"] == ["A man is standing on a ladder.", "Two dogs run."]


def test_the_length_penalty_comes_back_and_is_the_papers_if_there_is_none(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    save_checkpoint(tmp_path, tiny_model, tiny_tokenizer, languages=LANGUAGES, length_penalty=1.4)
    assert load_checkpoint(tmp_path).length_penalty == 1.4
    _set("length_penalty", None)(tmp_path)  # written before there was one
    assert load_checkpoint(tmp_path).length_penalty == 0.6


def test_loading_leaves_the_random_state_alone(tiny_checkpoint: Path) -> None:
    before = torch.get_rng_state()
    load_checkpoint(tiny_checkpoint)
    assert torch.equal(before, torch.get_rng_state())


def test_hash_is_of_the_weights_file(copy: Path) -> None:
    first = load_checkpoint(copy).sha256
    tensors = safetensors.torch.load_file(copy / "model.safetensors")
    next(iter(tensors.values())).add_(1.0)
    safetensors.torch.save_file(tensors, copy / "model.safetensors")
    assert load_checkpoint(copy).sha256 != first


# ---------------------------------------------------------------------------------------------------- refused


def _set(key: str, value: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        config = json.loads(path.read_text())
        if value is None:
            del config[key]
        else:
            config[key] = value
        path.write_text(json.dumps(config))

    return change


def _model(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        _set("model", config["model"] | values)(folder)

    return change


def _tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        change(tensors)
        safetensors.torch.save_file(tensors, folder / "model.safetensors")

    return apply


def _write(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def _cut(name: str, share: float) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * share)])

    return change


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.model").unlink(), "tokenizer.model is missing"),
    "weights a folder": (
        lambda folder: ((folder / "model.safetensors").unlink(), (folder / "model.safetensors").mkdir()),
        "model.safetensors",
    ),
    "weights cut in half": (_cut("model.safetensors", 0.5), "whole safetensors file"),
    "weights cut at the end": (_cut("model.safetensors", 0.9999), "whole safetensors file"),
    "weights empty": (_write("model.safetensors", b""), "whole safetensors file"),
    "weights pickled": (_write("model.safetensors", pickle.dumps({"a": 1})), "whole safetensors file"),
    "weights a pointer": (_write("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n"), "whole"),
    "tokenizer cut": (_cut("tokenizer.model", 0.5), "tokenizer"),
    "tokenizer empty": (_write("tokenizer.model", b""), "tokenizer"),
    "config empty": (_write("config.json", b""), "must be JSON"),
    "config cut": (_cut("config.json", 0.5), "must be JSON"),
    "config not text": (_write("config.json", b"\xff\xfe\x00"), "must be JSON"),
    "config a list": (_write("config.json", b"[1]"), "JSON object"),
    "config a number": (_write("config.json", b"1"), "JSON object"),
    "later schema": (_set("schema_version", 2), "schema_version 1"),
    "no schema": (_set("schema_version", None), "schema_version 1"),
    "no model": (_set("model", None), "model"),
    "model not an object": (_set("model", "big"), "model"),
    "languages not an object": (_set("languages", ["en", "de"]), "languages"),
    "a language missing": (_set("languages", {"source": "English"}), "languages"),
    "no hash": (_set("tokenizer_sha256", None), "tokenizer_sha256"),
    "another hash": (_set("tokenizer_sha256", "0" * 64), "the one the model was trained with"),
    "scores not a list": (_set("scores", "good"), "scores"),
    "length penalty a word": (_set("length_penalty", "long"), "length_penalty must be a number from 0 to 10"),
    "length penalty below 0": (_set("length_penalty", -0.1), "length_penalty must be a number from 0 to 10"),
    "length penalty no number": (_set("length_penalty", math.nan), "length_penalty must be a number from 0 to 10"),
    "length penalty true": (_set("length_penalty", True), "length_penalty must be a number from 0 to 10"),
    "unknown field": (_model(colour="red"), "known fields"),
    "heads that do not divide": (_model(heads=5), "divide"),
    "absurd width": (_model(d_model=10**6, heads=1), "matrix of"),
    "absurd depth": (_model(encoder_layers=10**9), "layers"),
    "absurd length": (_model(max_length=10**15), "max_length must be at most 65536"),
    "another width": (_model(d_model=64), "matrix of"),
    "more layers": (_model(encoder_layers=4), "parameters that config.json describes"),
    "fewer layers": (_model(decoder_layers=1), "parameters that config.json describes"),
    "another vocabulary": (_model(vocab_size=300), "as many pieces"),
    "another shape": (
        _tensors(lambda t: t.update({"encoder.0.self_attn.query.bias": torch.zeros(3)})),
        "must have shape",
    ),
    "a parameter missing": (_tensors(lambda t: t.pop(next(iter(t)))), "parameters that config.json describes"),
    "a parameter too many": (
        _tensors(lambda t: t.update(extra=torch.zeros(1))),
        "parameters that config.json describes",
    ),
    "whole numbers": (_tensors(lambda t: t.update({n: v.to(torch.int32) for n, v in t.items()})), "must be stored as"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_refused_in_one_sentence(damage: str, copy: Path) -> None:
    change, said = DAMAGE[damage]
    change(copy)
    with pytest.raises(CheckpointError) as error:
        load_checkpoint(copy)
    message = str(error.value)
    assert said in message
    assert message.endswith(".")
    assert "\n" not in message


def test_a_snapshot_takes_the_place_of_the_final_weights(copy: Path, tiny_model: Transformer) -> None:
    with pytest.raises(CheckpointError, match="snapshot must be left out, for this checkpoint has none, but it was 7"):
        load_checkpoint(copy, snapshot=7)
    early = {name: torch.zeros_like(value) for name, value in tiny_model.named_parameters()}
    path = snapshot_of(copy, 7)
    path.parent.mkdir()
    path.write_bytes(safetensors.torch.save(early))
    for other in ("step-7.safetensors", "step-000009.safetensors.tmp", "step-late.safetensors"):
        (path.parent / other).write_bytes(b"")
    (path.parent / "step-123456789.safetensors").write_bytes(b"cut off")
    assert list(snapshots(copy)) == [7, 123456789]
    then, now = load_checkpoint(copy, snapshot=7), load_checkpoint(copy)
    assert (then.name, now.name) == ("copy@7", "copy")
    assert not any(value.any() for value in then.model.parameters())
    assert now.model.projection.weight.any()
    assert then.fingerprint != now.fingerprint
    assert then.tokenizer.fingerprint == now.tokenizer.fingerprint
    with pytest.raises(CheckpointError, match=r"snapshot must be one of 7, 123456789, but it was 8"):
        load_checkpoint(copy, snapshot=8)
    with pytest.raises(CheckpointError, match=r"step-123456789\.safetensors must be a whole safetensors file"):
        load_checkpoint(copy, snapshot=123456789)


def test_another_tokenizer_is_refused(copy: Path, sentences: list[tuple[str, str]]) -> None:
    other = train_tokenizer([target for _, target in sentences], vocab_size=150)
    (copy / "tokenizer.model").write_bytes(other.to_bytes())
    with pytest.raises(CheckpointError, match="the one the model was trained with"):
        load_checkpoint(copy)


def test_a_file_or_nothing_is_refused(tmp_path: Path, tiny_checkpoint: Path) -> None:
    for path in (tmp_path / "none", tiny_checkpoint / "config.json"):
        with pytest.raises(CheckpointError, match="must be a folder"):
            load_checkpoint(path)


def test_a_device_that_is_not_there_is_refused(tiny_checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match="device"):
        load_checkpoint(tiny_checkpoint, device="toaster")


# ---------------------------------------------------------------------------------------------------- saving


def test_weights_that_are_no_numbers_are_not_saved(tiny_tokenizer: Tokenizer, tmp_path: Path) -> None:
    model = Transformer(ModelConfig.preset("tiny", tiny_tokenizer.vocab_size))
    with torch.no_grad():
        model.projection.weight[5, 3] = 1e6  # infinite in float16
    with pytest.raises(CheckpointError, match="finite in float16"):
        save_checkpoint(tmp_path / "x", model, tiny_tokenizer, languages=LANGUAGES)
    assert not (tmp_path / "x").exists()
    save_checkpoint(tmp_path / "x", model, tiny_tokenizer, languages=LANGUAGES, dtype="float32")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dtype": "int8"}, "dtype"),
        ({"languages": {"source": "English"}}, "languages"),
        ({"training": {"when": object()}}, "JSON"),
        ({"scores": [float("nan")]}, "JSON"),
    ],
)
def test_values_that_cannot_be_saved(
    change: dict[str, Any], said: str, tiny_model: Transformer, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=said):
        save_checkpoint(tmp_path / "x", tiny_model, tiny_tokenizer, **({"languages": LANGUAGES} | change))
    assert not (tmp_path / "x").exists()


def test_a_crash_while_saving_leaves_the_old_checkpoint(
    copy: Path, tiny_model: Transformer, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / "README.md").write_text("a model card")
    before = {path.name: path.read_bytes() for path in copy.iterdir()}

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        save_checkpoint(copy, tiny_model, tiny_tokenizer, languages=LANGUAGES)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_saving_again_replaces_its_own_files_only(
    copy: Path, tiny_model: Transformer, tiny_tokenizer: Tokenizer
) -> None:
    (copy / "history.jsonl").write_text("{}\n")
    save_checkpoint(copy, tiny_model, tiny_tokenizer, languages=LANGUAGES, dtype="float16")
    assert (copy / "history.jsonl").read_text() == "{}\n"
    assert load_checkpoint(copy).precision == "float16"


def test_saving_the_same_twice_gives_the_same_bytes(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        save_checkpoint(tmp_path / name, tiny_model, tiny_tokenizer, languages=LANGUAGES)
    for name in ("model.safetensors", "config.json", "tokenizer.model"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


# ---------------------------------------------------------------------------------------------------- names


@pytest.fixture
def workplace(tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with checkpoints b, a and main, main being the default."""
    for name in ("b", "a", "main"):
        shutil.copytree(tiny_checkpoint, tmp_path / "checkpoints" / name)
    _set("default", True)(tmp_path / "checkpoints" / "main")
    (tmp_path / "checkpoints" / "not-one").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_names_come_default_first_and_then_by_alphabet(workplace: Path) -> None:
    names = available()
    here = [name for name in names if name in ("a", "b", "main")]
    assert here == ["main", "a", "b"]
    assert "not-one" not in names
    assert names == available()


def test_a_damaged_config_does_not_hide_the_others(workplace: Path) -> None:
    (workplace / "checkpoints" / "a" / "config.json").write_text("{")
    assert {"a", "b", "main"} <= set(available())


@pytest.mark.parametrize("given", ["a", "checkpoints/a", "./checkpoints/a/"])
def test_a_name_or_a_path_is_resolved(given: str, workplace: Path) -> None:
    assert resolve(given).resolve() == (workplace / "checkpoints" / "a").resolve()


def test_an_unrelated_folder_does_not_hide_a_name(workplace: Path) -> None:
    (workplace / "a").mkdir()
    assert resolve("a").resolve() == (workplace / "checkpoints" / "a").resolve()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nope", "main, a, b"),
        ("", "checkpoint must be"),
        ("..", "config.json"),
        ("../a", "must be"),
        ("checkpoints/not-one", "config.json"),
        ("checkpoints/a/config.json", "must be a folder"),
        ("a\0b", "must be"),
        ("x" * 5000, "must be"),
    ],
)
def test_what_is_no_checkpoint_is_refused(given: str, said: str, workplace: Path) -> None:
    with pytest.raises(CheckpointError) as error:
        resolve(given)
    assert said in str(error.value)
