"""What the embedding has learned: which pieces lie near each other, a map of some of them, and how they came there.

Nearness is the cosine of the angle between two rows of the embedding matrix: 1 for the same direction, 0 for none in
common. Letters: N pieces, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from transformer.capture.record import FloatArray
from transformer.config import SPECIAL_PIECES
from transformer.engine import Translator
from transformer.errors import InputError, problem
from transformer.lessons.tokens import embedding, piece_of

if TYPE_CHECKING:
    from transformer.text.tokenizer import Piece


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The pieces whose vectors point most nearly where that of ``piece`` points, nearest first."""

    piece: Piece
    nearest: tuple[Piece, ...]
    cosines: FloatArray
    """[N] of ``nearest``."""
    mean: float
    """Mean cosine of ``piece`` and every other piece that is no special one."""
    spread: float
    """Their standard deviation."""
    compared: int
    """How many pieces that were."""


@dataclass(frozen=True, eq=False)
class PieceMap:
    """Pieces in the plane that shows most of how their directions differ (principal components)."""

    pieces: tuple[Piece, ...]
    """N pieces: those that were asked for, then the neighbours that came with them."""
    asked: int
    """How many of them were asked for."""
    neighbour_of: tuple[int, ...]
    """[N] for a neighbour the place in ``pieces`` of the piece that brought it, for the others -1."""
    points: FloatArray
    """[N, 2] along the first and the second component."""
    shares: tuple[float, float]
    """The shares of the variance that the two components show."""


@dataclass(frozen=True, eq=False)
class Organised:
    """The same pieces early and late in training."""

    pieces: tuple[Piece, ...]
    first: FloatArray
    """[N, N] cosines in the early model."""
    last: FloatArray
    """[N, N] cosines in the late one."""
    spreads: tuple[float, float]
    """Root mean square of the cosines of different pieces, early and late."""
    chance: float
    """1 / sqrt(D): what that is on average for vectors of random directions."""
    agreement: float | None
    """Correlation of the early cosines with the late ones; None where it has no meaning (fewer than three pieces)."""
    nearest: tuple[tuple[Piece, Piece], ...]
    """[N] the nearest piece of the whole vocabulary, early and late."""


def neighbours(translator: Translator, number: int, count: int = 10) -> Neighbours:
    """The pieces nearest to one, out of the whole vocabulary without the special pieces and without itself.

    A vector of zeros has no direction: its cosine with everything is counted as 0.

    Args:
        translator: the model.
        number: id of the piece.
        count: how many to list; fewer if there are no more.

    Raises:
        InputError: an id that is not in the vocabulary, or a count below 1.
    """
    if count < 1:
        raise InputError(problem("count", "must be at least 1", count, "10 is usual"))
    piece = piece_of(translator, number)
    directions = _directions(embedding(translator))
    order, found = _by_nearness(directions, number)
    nearest = tuple(piece_of(translator, int(i)) for i in order[:count])
    rest = found.astype(np.float64)
    return Neighbours(piece, nearest, found[:count], float(rest.mean()), float(rest.std()), len(order))


def cosines(translator: Translator, ids: Sequence[int]) -> FloatArray:
    """[N, N] the cosine of every two of some pieces."""
    directions = _directions(embedding(translator)[list(ids)])
    return directions @ directions.T


def piece_map(translator: Translator, ids: Iterable[int], companions: int = 2) -> PieceMap:
    """Lay pieces out in the plane in which their directions differ most.

    Rows are brought to length one, so that two points lie near each other for the same reason for which their cosine is
    high; then the two principal components are taken. A component has no sign of its own: the one is taken in which the
    largest of its D numbers is positive.

    Args:
        translator: the model.
        ids: the pieces; each counts once.
        companions: how many nearest neighbours each of them brings.

    Raises:
        InputError: no piece, one that is not in the vocabulary, or a negative number of companions.
    """
    asked = list(dict.fromkeys(ids))
    if not asked:
        raise InputError(problem("pieces", "must be at least one", tuple(asked), "name a piece"))
    if companions < 0:
        raise InputError(problem("companions", "must be at least 0", companions, "2 is usual"))
    for number in asked:
        piece_of(translator, number)  # refuses what is not in the vocabulary
    directions = _directions(embedding(translator))
    known, homes = list(asked), [-1] * len(asked)
    for home, number in enumerate(asked):
        for near in _by_nearness(directions, number)[0][:companions].tolist():
            if near not in known:
                known.append(near)
                homes.append(home)
    points, shares = principal_components(directions[known])
    return PieceMap(tuple(piece_of(translator, number) for number in known), len(asked), tuple(homes), points, shares)


def principal_components(vectors: FloatArray) -> tuple[FloatArray, tuple[float, float]]:
    """The first two principal components of vectors [N, D]: points [N, 2], and the share of the variance of each."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    points, shares = np.zeros((len(vectors), 2)), [0.0, 0.0]
    total = float((sizes**2).sum())
    for place in range(min(2, len(sizes)) if total > 1e-12 else 0):
        axis = axes[place]
        points[:, place] = centred @ (axis if axis[np.abs(axis).argmax()] > 0 else -axis)
        shares[place] = float(sizes[place] ** 2) / total
    return points.astype(np.float32), (shares[0], shares[1])


def organised(first: Translator, last: Translator, ids: Iterable[int]) -> Organised:
    """Compare how some pieces lie in two models of one training, an early and a late one.

    Raises:
        InputError: no piece, one that is not in the vocabulary, or models of different tokenizers.
    """
    chosen = list(dict.fromkeys(ids))
    if not chosen:
        raise InputError(problem("pieces", "must be at least one", tuple(chosen), "name a piece"))
    if first.tokenizer.fingerprint != last.tokenizer.fingerprint:
        rule = "must have the tokenizer of the other"
        raise InputError(problem("snapshot", rule, first.name, "take two snapshots of one training"))
    pieces = tuple(piece_of(last, number) for number in chosen)
    both = cosines(first, chosen), cosines(last, chosen)
    above = np.triu_indices(len(chosen), 1)
    early, late = (matrix[above].astype(np.float64) for matrix in both)
    nearest = tuple(zip(_nearest(first, chosen), _nearest(last, chosen), strict=True))
    spreads = _root_mean_square(early), _root_mean_square(late)
    chance = last.config.d_model**-0.5
    return Organised(pieces, *both, spreads, chance, _correlation(early, late), nearest)


def _by_nearness(directions: FloatArray, number: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Ids of all other pieces that are no special ones, nearest first, and their cosines with one piece."""
    cosines = directions @ directions[number]
    others = np.arange(len(SPECIAL_PIECES), len(directions))
    others = others[others != number]
    order = others[np.argsort(-cosines[others], kind="stable")]
    return order, cosines[order]


def _nearest(translator: Translator, ids: Sequence[int]) -> list[Piece]:
    """The nearest piece of each."""
    directions = _directions(embedding(translator))
    return [piece_of(translator, int(_by_nearness(directions, number)[0][0])) for number in ids]


def _directions(vectors: FloatArray) -> FloatArray:
    """Vectors [N, D] brought to length one; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return cast(FloatArray, vectors / np.where(lengths > 0.0, lengths, 1.0))


def _root_mean_square(values: NDArray[np.float64]) -> float:
    return float(np.sqrt((values**2).mean())) if len(values) else 0.0


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    if len(first) < 2 or first.std() < 1e-9 or second.std() < 1e-9:
        return None
    return float(np.corrcoef(first, second)[0, 1])
