"""From typed text to the vectors that enter the encoder: pieces, ids, rows of the embedding, positions added.

Letters: S source pieces, D d_model, V vocabulary. Paper, Sections 3.4 and 3.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from transformer.capture.capture import capture
from transformer.capture.record import Check, FloatArray
from transformer.capture.sink import to_numpy
from transformer.config import SOS_ID
from transformer.engine import Translator
from transformer.errors import InputError, problem

if TYPE_CHECKING:
    from transformer.text.tokenizer import Piece

LIMIT = 1e-5
"""Largest deviation that passes: float32 rounding of numbers of about sqrt(D)."""


@dataclass(frozen=True, eq=False)
class Lookup:
    """How one sentence becomes what the first encoder layer reads."""

    text: str
    pieces: tuple[Piece, ...]
    """S pieces, ``<SOS>`` and ``<EOS>`` included."""
    typed: tuple[str, ...]
    """What each piece stands for in ``text``, without space around it; empty for a piece that nobody typed."""
    rows: FloatArray
    """[S, D] the rows of the embedding matrix that the ids name."""
    scale: float
    """sqrt(D)"""
    scaled: FloatArray
    """[S, D] what the model computed: rows times scale."""
    positions: FloatArray
    """[S, D] what it added."""
    entering: FloatArray
    """[S, D] the sum, which enters the first layer."""
    vocabulary: int
    """V, the rows of the whole matrix."""
    share: float
    """The numbers of the embedding matrix as a share of all parameters of the model."""
    checks: tuple[Check, ...]


def look_up(translator: Translator, text: str) -> Lookup:
    """Follow a sentence from its letters to the encoder's input, and check each step against the model's own pass.

    Raises:
        InputError: the text is empty or too long.
    """
    pieces = source_pieces(translator, text)
    ids = [piece.id for piece in pieces]
    names = ("embedding", "positions", "sum")
    seen = capture(translator.model, ids, [SOS_ID], [f"source_input.{name}" for name in names])
    scaled, positions, entering = (cast(FloatArray, seen[f"source_input.{name}"]) for name in names)
    matrix = embedding(translator)
    rows, scale = matrix[ids], math.sqrt(translator.config.d_model)
    checks = (
        _check("rows times sqrt(D) are what the model computed", rows * scale, scaled, len(ids)),
        _check("what enters is that and the position, added", scaled + positions, entering, len(ids)),
    )
    typed = tuple(text[piece.start : piece.end].strip() for piece in pieces)
    share = matrix.size / translator.parameter_count
    return Lookup(text, pieces, typed, rows, scale, scaled, positions, entering, len(matrix), share, checks)


def source_pieces(translator: Translator, text: str) -> tuple[Piece, ...]:
    """The pieces of a sentence, ``<SOS>`` and ``<EOS>`` included.

    Raises:
        InputError: the text is empty or too long.
    """
    pieces = translator.tokenizer.pieces(text)
    longest = translator.max_source_pieces
    if len(pieces) <= 2:
        raise InputError(problem("sentence", "must hold at least one word or sign", text, "type something"))
    if len(pieces) > longest:
        rule = f"must have at most {longest} pieces"
        raise InputError(problem("sentence", rule, f"{len(pieces)} pieces", "shorten it"))
    return pieces


def embedding(translator: Translator) -> FloatArray:
    """The embedding matrix of the source [V, D], one row a piece, as it is stored: not yet times sqrt(D)."""
    return cast(FloatArray, to_numpy(translator.model.source_input.lookup.weight))


def piece_of(translator: Translator, number: int) -> Piece:
    """The piece with an id.

    Raises:
        InputError: the id is not in the vocabulary.
    """
    return translator.tokenizer.target_pieces([number])[0]


def _check(name: str, expected: FloatArray, seen: FloatArray, count: int) -> Check:
    value = float(np.abs(expected - seen).max())
    limit = LIMIT * max(float(np.abs(seen).max()), 1.0)
    detail = f"Worked out anew from the stored numbers for all {count} pieces, and compared with what the probes saw."
    return Check(name, value <= limit, value, limit, detail)
