"""Queries, keys, values: three projections of the same vector, and why they are three (paper, Section 3.2).

Letters: S source pieces, D d_model, K = D / H width of a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from transformer.analysis.arithmetic import masked_softmax
from transformer.capture.capture import capture
from transformer.capture.names import attention_module, attention_probe, stream_probe
from transformer.capture.record import Check
from transformer.capture.sink import to_numpy
from transformer.config import SOS_ID
from transformer.errors import InputError, problem

if TYPE_CHECKING:
    from transformer.engine import Translator

Floats = NDArray[np.float64]
LIMIT = 1e-4
"""As in ``transformer.analysis.arithmetic``: float32 errs by about 1e-6 of the largest number."""


@dataclass(frozen=True, eq=False)
class Projections:
    """What one head of one encoder layer makes of the vectors that enter it, computed here in float64."""

    entering: Floats
    """[S, D] x, what the attention reads: the residual stream (normalised first in a pre-norm model)."""
    weights: dict[str, Floats]
    """``query``, ``key``, ``value``: [D, K], the columns of W^Q, W^K, W^V that are this head's."""
    biases: dict[str, Floats]
    """[K] what is added to each."""
    queries: Floats
    """[S, K] x W^Q + b"""
    keys: Floats
    """[S, K]"""
    values: Floats
    """[S, K]"""
    checks: tuple[Check, ...]
    """Whether queries, keys and values are those that the model computed."""

    def __post_init__(self) -> None:
        for array in (self.entering, self.queries, self.keys, self.values):
            array.setflags(write=False)

    @property
    def width(self) -> int:
        """K, the d_k of the paper."""
        return int(self.queries.shape[1])


@dataclass(frozen=True, eq=False)
class Scores:
    """A table of scores between positions, and how it treats the two sides of a pair."""

    scores: Floats
    """[S, S] row: who asks, column: who is asked."""
    asymmetry: float
    """0 to 1, see ``asymmetry``."""
    own_largest: float
    """Share of the rows whose largest score is their own position."""
    own_weight: float
    """Mean weight of a row on its own position, after the softmax."""


def projections(translator: Translator, text: str, layer: int, head: int) -> Projections:
    """Project the sentence by one head of the encoder, from the stored matrices.

    Args:
        translator: the model.
        text: the sentence.
        layer: from 0.
        head: from 0.

    Raises:
        InputError: a layer or head that is not there.
    """
    model, config = translator.model, translator.config
    for name, value, count in (("layer", layer, config.encoder_layers), ("head", head, config.heads)):
        if not 0 <= value < count:
            raise InputError(problem(name, f"must be from 0 to {count - 1}", value, "choose one that is there"))
    names = [attention_probe("encoder", layer, f"{role}_heads") for role in ("query", "key", "value")]
    stream = stream_probe("encoder", layer)
    seen = capture(model, translator.tokenizer.encode(text), [SOS_ID], [stream, *names])
    entering = seen[stream].astype(np.float64)
    path = attention_module("encoder", layer)
    if config.norm_first:
        scale, shift = (stored(translator, f"{path}_norm.{part}") for part in ("weight", "bias"))
        entering = normalised(entering, scale, shift, config.layer_norm_eps)
    own = slice(head * config.head_width, (head + 1) * config.head_width)
    weights, biases, found, checks = {}, {}, {}, []
    for role, probe in zip(("query", "key", "value"), names, strict=True):
        weights[role] = stored(translator, f"{path}.{role}.weight")[own].T
        biases[role] = stored(translator, f"{path}.{role}.bias")[own]
        found[role] = entering @ weights[role] + biases[role]
        detail = f"The {role} of every position, computed here in double precision, against the model's."
        checks.append(equal(f"{role} vectors as the model has them", detail, found[role], seen[probe][head]))
    return Projections(entering, weights, biases, found["query"], found["key"], found["value"], tuple(checks))


def raw_scores(found: Projections) -> Scores:
    """What the scores would be if the vectors met as they are, without any matrix: x x^T / sqrt(D)."""
    return described(found.entering @ found.entering.T / np.sqrt(found.entering.shape[1]))


def learned_scores(found: Projections) -> Scores:
    """What the head makes of them: q k^T / sqrt(d_k)."""
    return described(found.queries @ found.keys.T / np.sqrt(found.width))


def described(scores: Floats) -> Scores:
    """A square table [S, S] with its figures."""
    rows = np.arange(len(scores))
    open_keys = np.ones(len(scores), dtype=np.bool_)
    own = [masked_softmax(row, open_keys)[place] for place, row in enumerate(scores)]
    largest = scores[rows, rows] >= scores.max(axis=1)
    return Scores(scores, asymmetry(scores), float(largest.mean()), float(np.mean(own)))


def asymmetry(matrix: Floats) -> float:
    """How much of a square matrix depends on who asks whom: the length of its antisymmetric part (A - A^T) / 2 as a
    share of the length of A. 0 if a pair scores the same both ways, 1 if it scores opposite; about 0.7 for large random
    matrices."""
    length = float(np.linalg.norm(matrix))
    return float(np.linalg.norm(matrix - matrix.T)) / 2.0 / length if length > 0.0 else 0.0


def normalised(rows: Floats, scale: Floats, shift: Floats, epsilon: float) -> Floats:
    """Layer normalisation of each row [..., D]."""
    centred = rows - rows.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(rows.var(axis=-1, keepdims=True) + epsilon)
    result: Floats = centred / deviation * scale + shift
    return result


def equal(name: str, detail: str, ours: NDArray[Any], models: NDArray[Any]) -> Check:
    """Whether two arrays agree, as a share of the largest number (at least one)."""
    difference = float(np.max(np.abs(ours - models))) / max(1.0, float(np.max(np.abs(ours))))
    return Check(name, difference <= LIMIT, difference, LIMIT, detail)


def stored(translator: Translator, name: str) -> Floats:
    """A parameter in float64."""
    return to_numpy(translator.model.get_parameter(name)).astype(np.float64)
