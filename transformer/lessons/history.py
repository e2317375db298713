"""The history of a checkpoint's training, read from its ``history.jsonl``, as curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer.training.history import HISTORY, History


@dataclass(frozen=True, eq=False)
class Curve:
    """One figure over the updates of a training; may be empty."""

    steps: NDArray[np.int64]
    """[N]"""
    values: NDArray[np.float64]
    """[N], finite."""

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def last(self) -> float:
        """The latest value; NaN if there is none."""
        return float(self.values[-1]) if len(self) else math.nan


@dataclass(frozen=True)
class Sample:
    """What the model made of a dev sentence at some point of its training."""

    step: int
    source: str
    reference: str
    output: str


@dataclass(frozen=True, eq=False)
class Course:
    """How a training went. Losses are in nats per target piece."""

    train_loss: Curve
    """With label smoothing and dropout, means since the line before."""
    train_likelihood: Curve
    """The same without the smoothing's share: plain cross-entropy."""
    dev_loss: Curve
    """Plain cross-entropy on sentences that were not trained on, without dropout."""
    dev_bleu: Curve
    dev_exact: Curve
    """Per cent of the dev sentences that equal their reference."""
    rate: Curve
    """The learning rate."""
    gradient_norm: Curve
    """Length of the gradient of the whole model, before clipping."""
    signature: str
    """How the dev BLEU was computed."""
    best_step: int | None
    """Of the latest dev evaluation that was the best so far."""
    samples: tuple[tuple[Sample, ...], ...]
    """For each sample sentence what became of it, in the order of the steps."""
    unread: int = 0
    """Lines of the file that are not what a training writes, and are left out."""


def course(folder: Path) -> Course | None:
    """The history that lies in the folder of a checkpoint; None if there is none, or nothing in it can be read.

    Lines and values that are not what the trainer writes are left out. ``unreadable`` says which of the two it is.
    """
    try:
        lines = [line for line in History(folder / HISTORY).lines() if _is_step(line.get("step"))]
        written = _written(folder)
    except OSError:
        return None
    train = [line for line in lines if line.get("kind") == "train"]
    dev = [line for line in lines if line.get("kind") == "dev"]
    if not train and not dev:
        return None
    best = [int(line["step"]) for line in dev if line.get("best") is True]
    return Course(
        train_loss=_curve(train, "loss"),
        train_likelihood=_curve(train, "nll"),
        dev_loss=_curve(dev, "dev_loss"),
        dev_bleu=_curve(dev, "dev_bleu"),
        dev_exact=_curve(dev, "dev_exact"),
        rate=_curve(train, "lr"),
        gradient_norm=_curve(train, "gradient_norm"),
        signature=next((str(line["signature"]) for line in reversed(dev) if line.get("signature")), ""),
        best_step=best[-1] if best else None,
        samples=_samples(dev),
        unread=max(written - len(train) - len(dev), 0),
    )


def unreadable(folder: Path) -> str:
    """Why ``course`` finds nothing in a folder that has a history; empty if there is none, or it can be read."""
    path = folder / HISTORY
    if not path.exists() or course(folder) is not None:
        return ""
    if not path.is_file():
        return "it is no file"
    try:
        written = _written(folder)
    except OSError as error:
        return error.strerror or str(error)
    if not written:
        return "it is empty"
    lines = "its only line is not" if written == 1 else f"none of its {written:,} lines is"
    return f"{lines} one that a training writes"


def spread(samples: Sequence[Sample], count: int) -> tuple[Sample, ...]:
    """At most ``count`` of them, the first and the last among them, closer together at the beginning.

    Much changes early in a training and little later, so their places grow like powers.
    """
    if len(samples) <= count:
        return tuple(samples)
    places = np.unique(np.geomspace(1, len(samples), count).round().astype(int) - 1)
    return tuple(samples[place] for place in places)


def _written(folder: Path) -> int:
    """Lines of the file that are not blank."""
    path = folder / HISTORY
    return sum(bool(line.strip()) for line in path.read_bytes().split(b"\n")) if path.is_file() else 0


def _curve(lines: Iterable[Mapping[str, Any]], key: str) -> Curve:
    found = [(int(line["step"]), float(line[key])) for line in lines if _is_number(line.get(key))]
    steps, values = zip(*found, strict=True) if found else ((), ())
    return Curve(np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64))


def _samples(dev: Iterable[Mapping[str, Any]]) -> tuple[tuple[Sample, ...], ...]:
    found: dict[str, list[Sample]] = {}
    for line in dev:
        listed = line.get("samples")
        for one in listed if isinstance(listed, list) else []:
            if isinstance(one, dict) and all(
                isinstance(one.get(key), str) for key in ("source", "reference", "output")
            ):
                sample = Sample(int(line["step"]), one["source"], one["reference"], one["output"])
                found.setdefault(sample.source, []).append(sample)
    return tuple(tuple(several) for several in found.values())


def _is_step(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
