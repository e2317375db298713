"""The maps of one kind of attention together with what their rows and columns mean.

Letters: L layers, H heads, T rows (queries), S columns (keys).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from transformer.capture.record import KINDS, AttentionRecord
from transformer.config import SPECIAL_PIECES, UNK_ID
from transformer.errors import InputError, problem

if TYPE_CHECKING:
    from transformer.text.tokenizer import Piece

__all__ = [
    "KINDS",
    "QUANTITIES",
    "Axis",
    "KindView",
    "Rest",
    "StrongCell",
    "axis_pieces",
    "evenness",
    "kind_view",
    "resting_place",
    "strongest_cells",
]

QUANTITIES = ("weights", "norms")
"""What a cell may show, see ``KindView.quantity``."""


@dataclass(frozen=True)
class Axis:
    """One axis of a map: its title in words and the pieces, or words, along it."""

    title: str
    labels: tuple[str, ...]
    unknown: tuple[bool, ...]
    """True where the piece stands for letters that the tokenizer does not know."""
    right_to_left: bool = False
    """Most letters of the text along it are of a right-to-left script."""
    pieces: tuple[tuple[int, ...], ...] = ()
    """For each label the indices of the record's pieces it stands for; empty means one piece each, in order."""


@dataclass(frozen=True, eq=False)
class KindView:
    """Every map of one kind, ready to be drawn."""

    kind: str
    weights: NDArray[np.float32]
    """[L, H, T, S], each row a distribution over the keys, of the quantity shown. A row with nothing in it is all zeros
    (every key hidden, or every norm zero); only a maximum over heads (``words.combine``) does not sum to one."""
    rows: Axis
    """Queries. For decoder and cross attention a row is named by the piece being written there."""
    columns: Axis
    """Keys."""
    phrases: tuple[str, ...]
    """For each row the beginning of the sentence that a cell says: "writing 'Mann', having just read 'Ein'"."""
    allowed: NDArray[np.bool_] | None = None
    """[T, S] True where the mask lets a query look; None where it may look everywhere."""
    removed: NDArray[np.float32] | None = None
    """[L, H, T] the share of each row that lay on hidden keys before the row was brought back to a sum of one; None
    before ``words.without``."""
    quantity: str = "weights"
    """``weights``: where a head looks. ``norms``: how much it takes from each key, its weight times the length of the
    vector that it weighs (Kobayashi et al. 2020, Section 3), as a share of the row."""

    @property
    def layers(self) -> int:
        """L."""
        return int(self.weights.shape[0])

    @property
    def heads(self) -> int:
        """H."""
        return int(self.weights.shape[1])

    @property
    def measure(self) -> str:
        """Name of the number in a cell, for a legend."""
        return "weight" if self.quantity == "weights" else "weight × norm, share of the row"

    def sentence(self, row: int, column: int) -> str:
        """What one cell says, without its weight."""
        verb = "looks at" if self.quantity == "weights" else "takes from"
        return f"{self.phrases[row]} → {verb} '{self.columns.labels[column]}'"


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


def kind_view(record: AttentionRecord, kind: str, languages: Mapping[str, str], quantity: str = "weights") -> KindView:
    """Name the axes of one kind of attention of a record.

    Row t of decoder and cross attention is the query from which the model writes ``target_output[t]``, having just
    read ``target_input[t]``; the row is named by the piece being written. The keys of the decoder's own attention
    are the pieces it has read, ``<SOS>`` first.

    Args:
        record: the captured pass.
        kind: ``encoder``, ``decoder`` or ``cross``.
        languages: the names under ``source`` and ``target``.
        quantity: ``weights`` as the softmax gave them, or ``norms``: each weight times ``record.value_norms`` of its
            key, divided by the sum of its row. The title of the columns says which.

    Raises:
        InputError: another kind or quantity, or norms of a record that has none.
    """
    if kind not in KINDS:
        raise InputError(problem("kind", f"must be one of {', '.join(KINDS)}", kind, "choose one of them"))
    if quantity not in QUANTITIES:
        raise InputError(problem("quantity", f"must be one of {', '.join(QUANTITIES)}", quantity, "choose one of them"))
    source, target = (languages.get(side, side) for side in ("source", "target"))
    queries, keys = axis_pieces(record, kind)
    # Both axes of the target hold one text, though what was read may lack its last piece.
    directions = {"source": _right_to_left(record.source), "target": _right_to_left(record.target_output)}
    if kind == "encoder":
        rows = _axis(f"query: {source} input", queries, directions["source"])
        phrases = tuple(f"'{piece.label}'" for piece in queries)
    else:
        rows = _axis(f"query: {target} output, the piece being written", queries, directions["target"])
        phrases = tuple(
            f"writing '{written.label}', having just read '{read.label}'"
            for written, read in zip(record.target_output, record.target_input, strict=True)
        )
    begin = "key" if quantity == "weights" else "key, by weight × norm of its value"
    if kind == "decoder":
        columns = _axis(f"{begin}: {target} output read so far", keys, directions["target"])
    else:
        columns = _axis(f"{begin}: {source} input", keys, directions["source"])
    weights = record.attention(kind) if quantity == "weights" else _by_norms(record, kind)
    allowed = record.causal_mask if kind == "decoder" else None
    return KindView(kind, weights, rows, columns, phrases, allowed, quantity=quantity)


def axis_pieces(record: AttentionRecord, kind: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """The pieces that name the rows of a ``kind_view`` and those that name its columns.

    Rows of the decoder are named by what they write (``record.axes`` gives what they read).
    """
    rows = record.source if kind == "encoder" else record.target_output
    columns = record.target_input if kind == "decoder" else record.source
    return rows, columns


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


def _axis(title: str, pieces: tuple[Piece, ...], right_to_left: bool) -> Axis:
    labels, unknown = tuple(piece.label for piece in pieces), tuple(piece.unknown for piece in pieces)
    return Axis(title, labels, unknown, right_to_left)


def _by_norms(record: AttentionRecord, kind: str) -> NDArray[np.float32]:
    """Weights times the norm of each key's value, [L, H, T, S], each row divided by its sum."""
    if kind not in record.value_norms:
        raise InputError(
            problem("quantity", "must be one that the record holds", "norms", "inspect the sentence again")
        )
    taken = record.attention(kind).astype(np.float64) * record.value_norms[kind][:, :, None, :]
    total = taken.sum(axis=3, keepdims=True)
    shares = np.zeros_like(taken)
    np.divide(taken, total, out=shares, where=total > 0.0)
    return shares.astype(np.float32)


def _right_to_left(pieces: Iterable[Piece]) -> bool:
    balance = 0
    for piece in pieces:
        if piece.special or piece.raw == SPECIAL_PIECES[UNK_ID]:
            continue  # its letters are a name, not the text's
        # The raw spelling: the label of an invisible letter is a Latin "U+00AD".
        directions = [unicodedata.bidirectional(letter) for letter in piece.raw]
        balance += sum(one in ("R", "AL") for one in directions) - directions.count("L")
    return balance > 0
