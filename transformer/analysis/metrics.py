"""Figures of one head's map: how spread out it is, how far it looks, and where it rests.

Letters: L layers, H heads, T rows (queries), S columns (keys), ``...`` any axes before them.

Three rules hold for every figure. A row that may look at one key only has no choice and is left out, and so is a row
of zeros (a head that was switched off). A figure is the mean over the rows that are left, each row counting the same.
Where no row is left, or the question makes no sense, the figure is NaN in arrays and None in ``HeadFigures``;
``why_undefined`` says why. Row t of the decoder has just read ``target_input[t]`` and may look at pieces 0 to t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer.analysis.maps import evenness
from transformer.analysis.words import hidden_keys
from transformer.capture.record import KINDS, AttentionRecord

Weights = NDArray[np.floating[Any]]
Figure = NDArray[np.float64]


@dataclass(frozen=True)
class HeadFigures:
    """The figures of one head for one pair of sentences; None where a figure is undefined (``why_undefined``)."""

    kind: str
    layer: int
    """Counted from 1, as is ``head``."""
    head: int
    entropy: float | None
    """Nats, see ``entropy``."""
    evenness: float | None
    """0 to 1, see ``analysis.maps.evenness``: entropy as a share of the largest that the row's keys allow."""
    distance: float | None
    """Pieces, see ``distance``; undefined for cross-attention."""
    previous: float | None
    """0 to 1, see ``share_at`` with offset -1; undefined for cross-attention."""
    same: float | None
    """0 to 1, see ``share_at`` with offset 0; undefined for cross-attention."""
    next: float | None
    """0 to 1, see ``share_at`` with offset 1; undefined for the decoder, whose mask hides it, and cross-attention."""
    confidence: float | None
    """0 to 1, see ``confidence``."""
    sink: float | None
    """0 to 1, see ``sink_share``."""
    diagonality: float | None
    """0 to 1, see ``diagonality``."""


def head_figures(record: AttentionRecord) -> list[HeadFigures]:
    """The figures of every head of a record: encoder, decoder, cross, each by layer and then by head."""
    return [figures for kind in KINDS for figures in _of_kind(record, kind)]


def why_undefined(kind: str, figure: str) -> str:
    """Why a figure (a field of ``HeadFigures``) is None for a head of this kind, as a clause to show to a person."""
    if kind == "cross" and figure in ("distance", "previous", "same", "next"):
        return "rows and columns are pieces of two different sentences, so no position is the same or the next one"
    if kind == "decoder" and figure == "next":
        return "the causal mask hides the piece that follows"
    if figure == "evenness":
        return "no row has more than two pieces to look at"
    return "no row has a choice where to look"


def entropy(weights: Weights, allowed: NDArray[np.bool_] | None = None) -> Figure:
    """Mean entropy of the rows, -sum a ln a, in nats: 0 when each looks at one key, ln S when all keys get the same.

    Ghader and Monz 2017 (arXiv 1710.03348), who measure how concentrated attention is. It grows with the number of
    keys; compare heads of different sentences by ``analysis.maps.evenness``.

    Args:
        weights: [..., T, S], each row a distribution over the keys.
        allowed: [T, S] True where a query may look; None where it may look everywhere.

    Returns:
        [...]; NaN where no row counts.
    """
    wide = weights.astype(np.float64)
    rows = -(wide * np.log(np.where(wide > 0.0, wide, 1.0))).sum(axis=-1)
    return _mean(np.maximum(rows, 0.0), _counted(weights, allowed))  # a weight of 1 + 1e-7 would give less than nothing


def confidence(weights: Weights, allowed: NDArray[np.bool_] | None = None) -> Figure:
    """Mean over the rows of the row's largest weight.

    Voita et al. 2019 (arXiv 1905.09418), Section 4, with one difference: they leave out ``<EOS>``, here every key may
    be the largest, so read it beside ``sink_share``. Arguments and result as for ``entropy``.
    """
    return _mean(weights.max(axis=-1), _counted(weights, allowed))


def distance(weights: Weights, allowed: NDArray[np.bool_] | None = None) -> Figure:
    """Mean over the rows t of the expected distance to the key looked at, sum over s of a[t, s] |t - s|, in pieces.

    For self-attention, where both axes are the same positions. Vig and Belinkov 2019 (arXiv 1906.04284) pool all
    weights of a corpus; here each row counts the same, which is equal where rows sum to one. Arguments and result as
    for ``entropy``.
    """
    rows, columns = np.indices(weights.shape[-2:])
    return _mean(_expected(weights, np.abs(rows - columns)), _counted(weights, allowed))


def share_at(weights: Weights, offset: int, allowed: NDArray[np.bool_] | None = None) -> Figure:
    """Mean weight that row t gives to key t + offset: -1 the previous piece, 0 the piece itself, 1 the next.

    For self-attention. Only rows count where that key exists and may be looked at, so a head that always looks at the
    previous piece has 1. This is a mean weight. Voita et al. 2019, Section 5.1, ask something else: in what share of
    the rows is the largest weight there ("positional" heads: at least 90 per cent). In the decoder, key t is the
    piece just read, not the one being written. Other arguments and result as for ``entropy``.
    """
    rows = np.arange(weights.shape[-2])
    rows = rows[(rows + offset >= 0) & (rows + offset < weights.shape[-1])]
    counted = _counted(weights, allowed)[..., rows]
    if allowed is not None:
        counted &= allowed[rows, rows + offset]
    return _mean(weights[..., rows, rows + offset], counted)


def sink_share(weights: Weights, sinks: NDArray[np.bool_], allowed: NDArray[np.bool_] | None = None) -> Figure:
    """Mean share of a row that lies on keys where idle heads rest.

    Clark et al. 2019 (arXiv 1906.04341), Section 3.2, find that such keys serve as "no-op". A row has a choice here
    only if it may look at a sink and at another key too.

    Args:
        weights: [..., T, S], each row a distribution over the keys.
        sinks: [S] True for those keys, see ``analysis.words.hidden_keys``.
        allowed: [T, S] True where a query may look; None where it may look everywhere.

    Returns:
        [...], 0 to 1; NaN where no row counts.
    """
    free = _allowed(weights, allowed)
    choice = (free & sinks).any(axis=-1) & (free & ~sinks).any(axis=-1)
    return _mean(weights[..., sinks].sum(axis=-1), _counted(weights, allowed) & choice)


def diagonality(weights: Weights, allowed: NDArray[np.bool_] | None = None) -> Figure:
    """How close attention keeps to the map's diagonal, from corner to corner: 1 on it, 0 no closer than uniform.

    Row t stands at t / (T - 1), key s at s / (S - 1). With d the expected distance of a row's key from the row on this
    scale, u the same for uniform attention over the allowed keys, and b for the nearest allowed key, each averaged over
    the rows, the figure is 1 - (d - b) / (u - b), and 0 where that is negative (a head that looks further away than
    uniform attention). So any T and S can reach 1, and for T = S the perfect map is the identity.

    The project's own scale. Zhang et al. 2021 (arXiv 2011.04906), who measure the distance from the diagonal first,
    divide by the largest distance instead, which leaves uniform attention near the middle of the scale. Arguments and
    result as for ``entropy``; NaN also for a single row.
    """
    length, columns = weights.shape[-2:]
    if length < 2 or columns < 2:
        return np.full(weights.shape[:-2], np.nan)
    free = _allowed(weights, allowed)
    apart = np.abs(np.linspace(0.0, 1.0, length)[:, None] - np.linspace(0.0, 1.0, columns))
    uniform = np.where(free, apart, 0.0).sum(axis=-1) / np.maximum(free.sum(axis=-1), 1)
    nearest = np.where(free, apart, 1.0).min(axis=-1)
    counted = _counted(weights, allowed)
    found, even, best = (_mean(rows, counted) for rows in (_expected(weights, apart), uniform, nearest))
    room = np.where(even > best, even - best, np.nan)
    return np.clip(1.0 - (found - best) / room, 0.0, 1.0)


def _of_kind(record: AttentionRecord, kind: str) -> list[HeadFigures]:
    allowed = record.causal_mask if kind == "decoder" else None
    sinks = hidden_keys(record, kind, specials=True, punctuation=True)  # what the page can hide
    found = []
    for layer, maps in enumerate(record.attention(kind), start=1):  # a layer at a time keeps the copies small
        columns = {
            "entropy": entropy(maps, allowed),
            "confidence": confidence(maps, allowed),
            "sink": sink_share(maps, sinks, allowed),
            "diagonality": diagonality(maps, allowed),
        }
        nothing = np.full(len(maps), np.nan)
        for name, offset in (("previous", -1), ("same", 0), ("next", 1)):
            columns[name] = nothing if kind == "cross" else share_at(maps, offset, allowed)
        columns["distance"] = nothing if kind == "cross" else distance(maps, allowed)
        for head in range(len(maps)):
            values = {name: None if np.isnan(column[head]) else float(column[head]) for name, column in columns.items()}
            even = None if values["entropy"] is None else evenness(maps[head], allowed)
            found.append(HeadFigures(kind, layer, head + 1, evenness=even, **values))
    return found


def _allowed(weights: Weights, allowed: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """[T, S] where a query may look."""
    return np.ones(weights.shape[-2:], dtype=np.bool_) if allowed is None else allowed


def _counted(weights: Weights, allowed: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """[..., T] the rows that have a choice and look anywhere at all."""
    counted: NDArray[np.bool_] = (weights.max(axis=-1) > 0.0) & (_allowed(weights, allowed).sum(axis=-1) > 1)
    return counted


def _expected(weights: Weights, cost: NDArray[Any]) -> Figure:
    """[..., T] mean of ``cost`` [T, S] under each row."""
    expected: Figure = np.einsum("...ts,ts->...t", weights.astype(np.float64), cost.astype(np.float64))
    return expected


def _mean(rows: NDArray[np.floating[Any]], counted: NDArray[np.bool_]) -> Figure:
    """[...] mean of ``rows`` [..., T] where ``counted``; NaN where none is."""
    number = counted.sum(axis=-1)
    total = np.where(counted, rows, 0.0).sum(axis=-1, dtype=np.float64)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)
