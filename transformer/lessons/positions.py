"""How the model knows what stands where: the table of positions, its clocks, and what is left without it.

Letters: n positions, S source pieces, D d_model. Paper, Section 3.5.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.capture.capture import capture
from transformer.capture.record import Check, FloatArray
from transformer.capture.sink import to_numpy
from transformer.config import SOS_ID
from transformer.engine import Translator
from transformer.errors import InputError, problem
from transformer.lessons.tokens import source_pieces
from transformer.nn.probe import watching

if TYPE_CHECKING:
    from transformer.text.tokenizer import Piece

BASE = 10000.0
"""The number in the paper's formula."""
ROUNDING = 5e-7
"""float32 keeps numbers of up to 1 to within 6e-8; a rotation adds up two of them."""


@dataclass(frozen=True, eq=False)
class PositionTable:
    """The vectors that tell positions, as the model holds them."""

    kind: str
    """"sinusoidal", "learned" or "none"."""
    table: FloatArray
    """[n, D] one row a position."""
    wavelengths: NDArray[np.float64]
    """[D / 2] after how many positions each pair of dimensions begins anew; empty unless it is sinusoidal."""
    longest: int
    """How many rows the model's whole table has."""


@dataclass(frozen=True, eq=False)
class Products:
    """Dot products of the vectors of positions."""

    matrix: FloatArray
    """[n, n]"""
    by_distance: FloatArray
    """[n] mean over all pairs of positions that are k apart, k = 0 … n - 1."""
    spread: float
    """The largest difference between a pair's product and the mean of its distance."""


@dataclass(frozen=True, eq=False)
class Shift:
    """PE(pos + k) = R PE(pos): one matrix R carries every position k places on."""

    offset: int
    """k"""
    rotation: NDArray[np.float64]
    """[D, D], two by two blocks along the diagonal, each a rotation."""
    angles: NDArray[np.float64]
    """[D / 2] in radians, by how much each pair of dimensions is turned, not brought back below a whole turn."""
    error: float
    """The largest difference between R PE(pos) and PE(pos + k) in the model's own table."""
    compared: int
    """How many positions were compared."""


@dataclass(frozen=True, eq=False)
class Sliced:
    """What the model takes of its table for a sentence."""

    length: int
    """S"""
    rows: int
    """Rows of the whole table."""
    bytes: int
    """Size of the whole table."""
    checks: tuple[Check, ...]


@dataclass(frozen=True, eq=False)
class OrderEffect:
    """Two sentences of the same pieces in different order, read with the encoder's positions on and off.

    ``first`` and ``second`` have S pieces each; those of ``first`` name the S numbers of the arrays.
    """

    first: tuple[Piece, ...]
    second: tuple[Piece, ...]
    partners: tuple[int, ...]
    """[S] where each piece of ``first`` stands in ``second``; equal pieces in their order."""
    moved_on: FloatArray
    """[S] how far the encoder's output for a piece is from that for its partner, as a share of its length."""
    moved_off: FloatArray
    """[S] the same without positions."""
    typical: float
    """The same measure between different pieces of ``first``, on average, with positions: what "far" means here."""
    translations_on: tuple[str, str]
    translations_off: tuple[str, str]


class WithoutPositions:
    """A sink that puts zeros in the place of the encoder's positions."""

    def wants(self, name: str) -> bool:
        """Whether it is the probe of those positions."""
        return name == "source_input.positions"

    def receive(self, name: str, value: Tensor) -> Tensor:
        """Zeros of the shape of ``value``."""
        return torch.zeros_like(value)


def position_table(translator: Translator, length: int) -> PositionTable:
    """The first rows of the encoder's table, at most as many as it has.

    Raises:
        InputError: a length below 1.
    """
    if length < 1:
        raise InputError(problem("length", "must be at least 1", length, "64 shows the pattern"))
    config = translator.config
    waves = wavelengths(config.d_model) if config.positions == "sinusoidal" else np.zeros(0)
    table = cast(FloatArray, to_numpy(translator.model.source_input.position_table.table[:length]))
    return PositionTable(config.positions, table, waves, config.max_length)


def wavelengths(d_model: int) -> NDArray[np.float64]:
    """[D / 2] positions after which sine and cosine of a pair of dimensions begin anew: 2 pi 10000^(2i / D)."""
    return np.asarray(2 * math.pi * BASE ** (np.arange(0, d_model, 2) / d_model), dtype=np.float64)


def hands(table: FloatArray, pairs: Sequence[int]) -> FloatArray:
    """[n, pairs, 2] the tips of hands that start upright and turn as those of a clock: the sine that a table holds for
    a pair of dimensions to the right, its cosine upwards."""
    chosen = list(pairs)
    return np.stack([table[:, 0::2][:, chosen], table[:, 1::2][:, chosen]], axis=-1)


def spaced_pairs(d_model: int, count: int = 6) -> tuple[int, ...]:
    """Up to ``count`` of the D / 2 pairs of dimensions, evenly from the fastest to the slowest."""
    return tuple(int(i) for i in np.unique(np.linspace(0, d_model // 2 - 1, count).round()))


def products(table: FloatArray) -> Products:
    """Dot products of every two rows of a table, and how they fall with the distance of the rows."""
    matrix = table.astype(np.float64) @ table.T.astype(np.float64)
    diagonals = [np.diagonal(matrix, k) for k in range(len(table))]
    means = np.array([diagonal.mean() for diagonal in diagonals])
    spread = max(float(np.abs(diagonal - mean).max()) for diagonal, mean in zip(diagonals, means, strict=True))
    return Products(matrix.astype(np.float32), means.astype(np.float32), spread)


def shift(translator: Translator, offset: int, length: int = 512) -> Shift:
    """The matrix that carries the vector of every position ``offset`` places on, and how exactly it does.

    It is made from the formula alone: the pair (sin a, cos a) becomes (sin(a + b), cos(a + b)), where b is the offset
    times the pair's rate. Then it is tried on the model's own table.

    Args:
        translator: a model with sinusoidal positions.
        offset: k, from 0.
        length: how many positions of the table to compare, at most.

    Raises:
        InputError: positions of another kind, or an offset that the compared part of the table does not have.
    """
    config = translator.config
    if config.positions != "sinusoidal":
        rule = "must be sinusoidal for a rotation"
        raise InputError(problem("positions", rule, config.positions, "choose a model with the paper's positions"))
    table = position_table(translator, length).table.astype(np.float64)
    if not 0 <= offset < len(table):
        raise InputError(problem("offset", f"must be from 0 to {len(table) - 1}", offset, "choose a smaller one"))
    angles = offset * 2 * math.pi / wavelengths(config.d_model)
    rotation = np.zeros((config.d_model, config.d_model))
    even, odd = np.arange(0, config.d_model, 2), np.arange(1, config.d_model, 2)
    rotation[even, even] = rotation[odd, odd] = np.cos(angles)
    rotation[even, odd], rotation[odd, even] = np.sin(angles), -np.sin(angles)
    compared = len(table) - offset
    error = np.abs(table[:compared] @ rotation.T - table[offset:]).max()
    return Shift(offset, rotation, angles, float(error), compared)


def sliced(translator: Translator, text: str) -> Sliced:
    """Check that the positions of a sentence are the first rows of one table that is there already.

    Raises:
        InputError: the text is empty or too long.
    """
    ids = [piece.id for piece in source_pieces(translator, text)]
    name = "source_input.positions"
    seen = cast(FloatArray, capture(translator.model, ids, [SOS_ID], [name])[name])
    positions = translator.model.source_input.position_table
    table = positions.table
    twice = [positions(0, length) for length in (len(ids), 1)]
    elsewhere = sum(part.data_ptr() != table.data_ptr() for part in twice)
    difference = float(np.abs(seen - cast(FloatArray, to_numpy(table[: len(ids)]))).max())
    checks = (
        Check(
            "the sentence gets the first rows of the table",
            difference == 0.0,
            difference,
            0.0,
            f"What the probe saw for {len(ids)} pieces, compared number by number.",
        ),
        Check(
            "nothing is copied or computed anew",
            elsewhere == 0,
            float(elsewhere),
            0.0,
            "Slices for this sentence and for one of one piece lie where the table lies in memory.",
        ),
    )
    return Sliced(len(ids), len(table), table.numel() * table.element_size(), checks)


def order_effect(
    translator: Translator, first: str, second: str, options: Mapping[str, Any] | None = None
) -> OrderEffect:
    """Read two sentences of the same pieces with the encoder's positions on and off.

    Off means that zeros are added in the place of the positions of the encoder; the decoder keeps its own, or it could
    not write in order. The model was not trained so: what it writes then is not what a model without positions would.

    Args:
        translator: the model.
        first: a sentence.
        second: the same pieces in another order.
        options: arguments of ``Translator.translate``.

    Raises:
        InputError: a sentence is empty or too long, or the two do not have the same pieces.
    """
    one, two = source_pieces(translator, first), source_pieces(translator, second)
    partners = _partners([piece.id for piece in one], [piece.id for piece in two])
    sides, written = (one, two), dict(options or {})
    with torch.inference_mode():
        on = [_memory(translator, side) for side in sides]
    translations_on = [translator.translate(text, **written).text for text in (first, second)]
    with torch.inference_mode(), watching(WithoutPositions()):
        off = [_memory(translator, side) for side in sides]
        translations_off = [translator.translate(text, **written).text for text in (first, second)]
    return OrderEffect(
        first=one,
        second=two,
        partners=partners,
        moved_on=_moved(on[0], on[1][list(partners)]),
        moved_off=_moved(off[0], off[1][list(partners)]),
        typical=_typical(on[0], [piece.id for piece in one]),
        translations_on=(translations_on[0], translations_on[1]),
        translations_off=(translations_off[0], translations_off[1]),
    )


def turned_round(text: str) -> str:
    """The words of a text from the last to the first."""
    return " ".join(reversed(text.split()))


def _memory(translator: Translator, pieces: Sequence[Piece]) -> FloatArray:
    """The encoder's output [S, D]."""
    model = translator.model
    device = next(model.parameters()).device
    source = torch.tensor([[piece.id for piece in pieces]], dtype=torch.int64, device=device)
    return cast(FloatArray, to_numpy(model.encode(source)[0]))


def _partners(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    if sorted(first) != sorted(second):
        rule = "must have the same pieces as the first sentence, in another order"
        raise InputError(problem("second sentence", rule, f"{len(second)} pieces", "use the same words"))
    places: dict[int, deque[int]] = defaultdict(deque)
    for place, number in enumerate(second):
        places[number].append(place)
    return tuple(places[number].popleft() for number in first)


def _moved(first: FloatArray, second: FloatArray) -> FloatArray:
    """[S] lengths of the differences as shares of the lengths of ``first``."""
    return cast(FloatArray, np.linalg.norm(first - second, axis=1) / np.linalg.norm(first, axis=1))


def _typical(memory: FloatArray, ids: Sequence[int]) -> float:
    """Mean distance between the outputs of different pieces, each as a share of the length of the first."""
    squares = (memory.astype(np.float64) ** 2).sum(axis=1)
    dots = memory.astype(np.float64) @ memory.T.astype(np.float64)
    apart = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * dots, 0.0) / squares[:, None])
    numbers = np.array(ids)
    different = numbers[:, None] != numbers[None]
    return float(apart[different].mean()) if different.any() else 0.0
