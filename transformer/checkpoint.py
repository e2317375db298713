"""A trained model on disk: safetensors weights, JSON, and the tokenizer; never pickle.

A checkpoint is a folder::

    model.safetensors   every parameter once (tied ones share one), float16, bfloat16 or float32
    config.json         schema_version, model shape, hash of the tokenizer, languages, training, data, scores, examples,
                        length_penalty of beam search
    tokenizer.model     the sentencepiece model
    history.jsonl       written by the trainer, one JSON object a line
    README.md           the model card
    snapshots/          weights on the way there, step-NNNNNN.safetensors

Only the first three, or a snapshot in the place of the first, are read here. ``config.json`` is written last, so a
folder that has one is whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from transformer.catalogue import CONFIG, TOKENIZER, WEIGHTS, snapshots
from transformer.config import LENGTH_PENALTY, ModelConfig
from transformer.errors import CheckpointError, ConfigError, problem
from transformer.files import remedy, write_atomically
from transformer.nn.model import Transformer
from transformer.text.tokenizer import Tokenizer

SCHEMA_VERSION = 1
PRECISIONS = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
LANGUAGE_KEYS = ("source", "target", "source_code", "target_code")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A loaded checkpoint."""

    name: str
    """The folder's own name, of a snapshot with "@" and its step behind it."""
    folder: Path
    model: Transformer
    """float32, in evaluation mode, without gradients."""
    tokenizer: Tokenizer
    config: ModelConfig
    languages: dict[str, str]
    """``source`` and ``target`` as words ("English"), ``source_code`` and ``target_code`` as codes ("en")."""
    meta: dict[str, Any]
    """Everything in ``config.json``."""
    sha256: str
    """Hash of the file of the weights."""
    fingerprint: str
    """Hash of all that decides what the model computes: weights, shape and tokenizer."""
    precision: str
    """How the weights are stored: float16, bfloat16 or float32."""
    length_penalty: float = LENGTH_PENALTY
    """alpha of a beam search for which no other is asked, as it was chosen on dev."""


def save_checkpoint(
    folder: Path | str,
    model: Transformer,
    tokenizer: Tokenizer,
    *,
    languages: Mapping[str, str],
    training: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    scores: Sequence[Any] | None = None,
    examples: Sequence[str] | None = None,
    dtype: str = "float16",
    default: bool = False,
    length_penalty: float = LENGTH_PENALTY,
) -> None:
    """Write a checkpoint. A crash on the way leaves the old one, or none; never half of one file.

    Args:
        folder: made if need be; files of the same names are replaced, others are left.
        model: the raw module, neither compiled nor wrapped.
        tokenizer: the one the model was trained with.
        languages: ``source``, ``target``, ``source_code``, ``target_code``.
        training: how it was trained; free, JSON.
        data: what it was trained on, with the terms; free, JSON.
        scores: what it reached, each with its signature; free, JSON.
        examples: sentences that the app offers.
        dtype: precision of the stored weights, float16, bfloat16 or float32.
        default: whether the app opens this model first.
        length_penalty: alpha of a beam search for which no other is asked.

    Raises:
        CheckpointError: weights that are not finite in ``dtype``, values that are not JSON, or a folder that cannot be
            written.
    """
    folder = Path(folder)
    if dtype not in PRECISIONS:
        raise CheckpointError(problem("dtype", f"must be one of {', '.join(PRECISIONS)}", dtype, "choose one of them"))
    missing = [key for key in LANGUAGE_KEYS if not isinstance(languages.get(key), str)]
    if missing:
        raise CheckpointError(
            problem("languages", f"must name {', '.join(LANGUAGE_KEYS)}", dict(languages), "complete it")
        )
    if tokenizer.vocab_size != model.config.vocab_size:
        rule = f"must have as many pieces as the model, {model.config.vocab_size}"
        raise CheckpointError(problem("tokenizer", rule, tokenizer.vocab_size, "save the tokenizer of the training"))
    tensors = {
        name: parameter.detach().to("cpu", PRECISIONS[dtype]).contiguous()
        for name, parameter in model.named_parameters()  # a tied parameter comes once, under its first name
    }
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(
                problem("weights", f"must be finite in {dtype}", name, "lower the learning rate, or save as float32")
            )
    config = {
        "schema_version": SCHEMA_VERSION,
        "default": default,
        "model": model.config.to_dict(),
        "tokenizer_sha256": tokenizer.fingerprint,
        "languages": dict(languages),
        "length_penalty": length_penalty,
        "training": dict(training or {}),
        "data": dict(data or {}),
        "scores": list(scores or []),
        "examples": list(examples or []),
    }
    try:
        text = json.dumps(config, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"training, data, scores and examples must be plain JSON values: {error}.") from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / TOKENIZER, tokenizer.to_bytes())
        write_atomically(folder / WEIGHTS, safetensors.torch.save(tensors, metadata={"format": "pt"}))
        write_atomically(folder / CONFIG, text.encode())
    except OSError as error:
        cure = f"{remedy(error, 'choose another')}, then save again ({error.strerror})"
        raise CheckpointError(problem("checkpoint folder", "must be writable", str(folder), cure)) from error


def load_checkpoint(folder: Path | str, device: str = "cpu", snapshot: int | None = None) -> Checkpoint:
    """Read a checkpoint folder.

    Args:
        folder: the folder.
        device: where the model goes.
        snapshot: take the weights that were kept after so many updates of the training, not the final ones.

    Raises:
        CheckpointError: it is missing, damaged, of another schema version, or its parts do not belong together. The
            message names the file.
    """
    folder = Path(folder)
    meta = _read_config(folder)
    try:
        config = ModelConfig.from_dict(meta["model"])
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from error
    tokenizer = Tokenizer.from_bytes(_read(folder, TOKENIZER))
    if tokenizer.fingerprint != meta["tokenizer_sha256"]:
        rule = f"must be the one the model was trained with (sha256 {str(meta['tokenizer_sha256'])[:12]}…)"
        raise CheckpointError(
            problem(str(folder / TOKENIZER), rule, tokenizer.fingerprint[:12] + "…", "restore the whole checkpoint")
        )
    if tokenizer.vocab_size != config.vocab_size:
        rule = f"must have as many pieces as the model, {config.vocab_size}"
        raise CheckpointError(
            problem(str(folder / TOKENIZER), rule, tokenizer.vocab_size, "restore the whole checkpoint")
        )
    weights = _weights(folder, snapshot)
    data = _read(folder, weights)
    tensors = _read_tensors(folder / weights, data)
    model = _build(config, tensors, folder / weights)
    stored = {str(tensor.dtype).removeprefix("torch.") for tensor in tensors.values()}
    return Checkpoint(
        name=folder.resolve().name + ("" if snapshot is None else f"@{snapshot}"),
        folder=folder,
        model=_to(model, device),
        tokenizer=tokenizer,
        config=config,
        languages={key: str(value) for key, value in meta["languages"].items()},
        meta=meta,
        sha256=hashlib.sha256(data).hexdigest(),
        fingerprint=_fingerprint(data, config, tokenizer),
        precision="+".join(sorted(stored)),
        length_penalty=float(meta["length_penalty"]),
    )


def _weights(folder: Path, snapshot: int | None) -> str:
    if snapshot is None:
        return WEIGHTS
    kept = snapshots(folder)
    if snapshot not in kept:
        there = f"one of {', '.join(map(str, kept))}" if kept else "left out, for this checkpoint has none"
        raise CheckpointError(problem("snapshot", f"must be {there}", snapshot, "correct it"))
    return str(kept[snapshot].relative_to(folder))


def _read(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(
            problem("checkpoint", f"must hold {WEIGHTS}, {CONFIG} and {TOKENIZER}", str(folder), f"{name} is missing")
        ) from error
    except OSError as error:
        raise CheckpointError(problem(str(path), "must be a readable file", error.strerror, "restore it")) from error


def _read_config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise CheckpointError(
            problem("checkpoint", "must be a folder", str(folder), "give the folder that holds config.json")
        )
    path = folder / CONFIG
    try:
        meta = json.loads(_read(folder, CONFIG).decode("utf-8"))
        json.dumps(meta, ensure_ascii=False).encode()  # half of a surrogate pair is no text that a page could show
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} must be JSON, but it could not be read ({error}): restore it.") from error
    if not isinstance(meta, dict):
        raise CheckpointError(problem(str(path), "must be a JSON object", meta, "restore it"))
    if meta.get("schema_version") != SCHEMA_VERSION:
        rule = f"must have schema_version {SCHEMA_VERSION}"
        raise CheckpointError(
            problem(str(path), rule, meta.get("schema_version"), "use the release of this program that wrote it")
        )
    for key, kind in (("model", dict), ("languages", dict), ("tokenizer_sha256", str)):
        if not isinstance(meta.get(key), kind):
            word = "an object" if kind is dict else "text"
            raise CheckpointError(problem(f"{path}: {key}", f"must be {word}", meta.get(key), "restore the file"))
    for key in LANGUAGE_KEYS:
        if not isinstance(meta["languages"].get(key), str):
            rule = f"must name {', '.join(LANGUAGE_KEYS)}"
            raise CheckpointError(problem(f"{path}: languages", rule, meta["languages"], "restore the file"))
    alpha = meta.setdefault("length_penalty", LENGTH_PENALTY)
    if not isinstance(alpha, (int, float)) or isinstance(alpha, bool) or not 0.0 <= alpha <= 10.0:
        raise CheckpointError(problem(f"{path}: length_penalty", "must be a number from 0 to 10", alpha, "correct it"))
    for key, empty in (("training", {}), ("data", {}), ("scores", []), ("examples", [])):
        if not isinstance(meta.setdefault(key, empty), type(empty)):
            word = "an object" if isinstance(empty, dict) else "a list"
            raise CheckpointError(problem(f"{path}: {key}", f"must be {word}", meta[key], "restore the file"))
    return meta


def _read_tensors(path: Path, data: bytes) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(
            problem(str(path), "must be a whole safetensors file", f"{len(data)} bytes", f"copy it anew ({error})")
        ) from error
    for name, tensor in tensors.items():
        if tensor.dtype not in PRECISIONS.values():
            rule = f"must be stored as {', '.join(PRECISIONS)}"
            raise CheckpointError(problem(f"{path}: {name}", rule, str(tensor.dtype), "convert the checkpoint"))
    return tensors


def _build(config: ModelConfig, tensors: dict[str, Tensor], path: Path) -> Transformer:
    _refuse_other_sizes(config, tensors, path)
    try:
        with torch.random.fork_rng(devices=[]):  # the initial values are thrown away; the caller's random state is kept
            model = Transformer(config)
    except (RuntimeError, TypeError, MemoryError) as error:
        raise CheckpointError(f"{path.parent / CONFIG} describes a model that cannot be built: {error}.") from error
    parameters = dict(model.named_parameters())
    missing, unknown = sorted(parameters.keys() - tensors.keys()), sorted(tensors.keys() - parameters.keys())
    if missing or unknown:
        rule = f"must hold the {len(parameters)} parameters that {CONFIG} describes"
        found = f"{len(missing)} missing, {len(unknown)} unknown"
        raise CheckpointError(problem(str(path), rule, found, f"compare {(missing + unknown)[0]} in both"))
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != tensors[name].shape:
                rule = f"must have shape {list(parameter.shape)}"
                raise CheckpointError(
                    problem(f"{path}: {name}", rule, list(tensors[name].shape), "restore the whole checkpoint")
                )
            parameter.copy_(tensors[name])
    return model.eval().requires_grad_(False)


def _fingerprint(weights: bytes, config: ModelConfig, tokenizer: Tokenizer) -> str:
    shape = json.dumps(config.to_dict(), sort_keys=True).encode()
    return hashlib.sha256(hashlib.sha256(weights).digest() + shape + tokenizer.fingerprint.encode()).hexdigest()


def _refuse_other_sizes(config: ModelConfig, tensors: dict[str, Tensor], path: Path) -> None:
    """Before a model is built, so that a wrong number in the config cannot allocate what it asks for."""
    shapes = {tuple(tensor.shape) for tensor in tensors.values()}
    for height in (config.vocab_size, config.feed_forward):
        if (height, config.d_model) not in shapes:
            rule = f"must hold a matrix of {height} × {config.d_model}, as {CONFIG} describes"
            raise CheckpointError(problem(str(path), rule, "without one", "restore the whole checkpoint"))
    if config.encoder_layers + config.decoder_layers > len(tensors):
        rule = f"must hold {config.encoder_layers} + {config.decoder_layers} layers, as {CONFIG} describes"
        raise CheckpointError(problem(str(path), rule, f"{len(tensors)} parameters", "restore the whole checkpoint"))


def _to(model: Transformer, device: str) -> Transformer:
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise CheckpointError(problem("device", "must be one that PyTorch has here", device, "use cpu")) from error
