"""The maps of one kind of attention together with what their rows and columns mean.

Letters: L layers, H heads, T rows (queries), S columns (keys).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from transformer.capture.record import KINDS, AttentionRecord
from transformer.errors import InputError, problem

if TYPE_CHECKING:
    from transformer.text.tokenizer import Piece

__all__ = [
    "KINDS",
    "Axis",
    "KindView",
    "Rest",
    "StrongCell",
    "evenness",
    "kind_view",
    "resting_place",
    "strongest_cells",
]


@dataclass(frozen=True)
class Axis:
    """One axis of a map: its title in words and the pieces along it."""

    title: str
    labels: tuple[str, ...]
    unknown: tuple[bool, ...]
    """True where the piece stands for letters that the tokenizer does not know."""


@dataclass(frozen=True, eq=False)
class KindView:
    """Every map of one kind, ready to be drawn."""

    kind: str
    weights: NDArray[np.float32]
    """[L, H, T, S], each row a distribution over the keys."""
    rows: Axis
    """Queries. For decoder and cross attention a row is named by the piece being written there."""
    columns: Axis
    """Keys."""
    phrases: tuple[str, ...]
    """For each row the beginning of the sentence that a cell says: "writing 'Mann', having just read 'Ein'"."""
    allowed: NDArray[np.bool_] | None = None
    """[T, S] True where the mask lets a query look; None where it may look everywhere."""

    @property
    def layers(self) -> int:
        """L."""
        return int(self.weights.shape[0])

    @property
    def heads(self) -> int:
        """H."""
        return int(self.weights.shape[1])

    def sentence(self, row: int, column: int) -> str:
        """What one cell says, without its weight."""
        return f"{self.phrases[row]} → looks at '{self.columns.labels[column]}'"


@dataclass(frozen=True)
class StrongCell:
    """One cell of one map."""

    row: int
    column: int
    weight: float


@dataclass(frozen=True)
class Rest:
    """A single key that takes most of a head's attention."""

    column: int
    share: float
    """Mean weight of that key over the rows that have a choice, between 0 and 1."""


def kind_view(record: AttentionRecord, kind: str, languages: Mapping[str, str]) -> KindView:
    """Name the axes of one kind of attention of a record.

    Row t of decoder and cross attention is the query from which the model writes ``target_output[t]``, having just
    read ``target_input[t]``; the row is named by the piece being written. The keys of the decoder's own attention
    are the pieces it has read, ``<SOS>`` first.

    Args:
        record: the captured pass.
        kind: ``encoder``, ``decoder`` or ``cross``.
        languages: the names under ``source`` and ``target``.

    Raises:
        InputError: another kind.
    """
    if kind not in KINDS:
        raise InputError(problem("kind", f"must be one of {', '.join(KINDS)}", kind, "choose one of them"))
    source, target = languages.get("source", "source"), languages.get("target", "target")
    writing = _axis(f"query: {target} output, the piece being written", record.target_output)
    reading = tuple(
        f"writing '{written.label}', having just read '{read.label}'"
        for written, read in zip(record.target_output, record.target_input, strict=True)
    )
    if kind == "encoder":
        queries = _axis(f"query: {source} input", record.source)
        phrases = tuple(f"'{piece.label}'" for piece in record.source)
        return KindView(kind, record.encoder, queries, _axis(f"key: {source} input", record.source), phrases)
    if kind == "decoder":
        keys = _axis(f"key: {target} output read so far", record.target_input)
        return KindView(kind, record.decoder, writing, keys, reading, record.causal_mask)
    return KindView(kind, record.cross, writing, _axis(f"key: {source} input", record.source), reading)


def strongest_cells(weights: NDArray[np.float32], count: int) -> list[StrongCell]:
    """The ``count`` largest cells of one map [T, S], largest first; zeros are left out."""
    flat = weights.ravel()
    order = np.argsort(-flat, kind="stable")[:count]
    columns = weights.shape[1]
    return [StrongCell(int(i) // columns, int(i) % columns, float(flat[i])) for i in order if flat[i] > 0.0]


def resting_place(
    weights: NDArray[np.float32], allowed: NDArray[np.bool_] | None = None, share: float = 0.6
) -> Rest | None:
    """The key that takes at least ``share`` of a head's attention on average, if there is one.

    Rows that may look at one key only have no choice and are left out; with fewer than three rows left nothing is said.
    """
    columns = weights.shape[1]
    choices = np.full(len(weights), columns) if allowed is None else allowed.sum(axis=1)
    free = weights[choices > 1]
    if columns < 3 or len(free) < 3:
        return None
    mean = free.mean(axis=0)
    best = int(mean.argmax())
    return Rest(best, float(mean[best])) if mean[best] >= share else None


def evenness(weights: NDArray[np.float32], allowed: NDArray[np.bool_] | None = None) -> float | None:
    """How evenly a head spreads its attention: mean entropy of the rows [T, S] as a share of the largest possible.

    1 means that every key gets the same, 0 that each row looks at one key only. Rows that may look at fewer than three
    keys are left out; None if no row is left.
    """
    choices = np.full(len(weights), weights.shape[1]) if allowed is None else allowed.sum(axis=1)
    rows = choices > 2
    if not rows.any():
        return None
    free = weights[rows].astype(np.float64)
    entropy = -(free * np.log(np.where(free > 0.0, free, 1.0))).sum(axis=1)
    return float((entropy / np.log(choices[rows])).mean())


def _axis(title: str, pieces: tuple[Piece, ...]) -> Axis:
    return Axis(title, tuple(piece.label for piece in pieces), tuple(piece.unknown for piece in pieces))
