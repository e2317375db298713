"""The arithmetic of one query of one head, step by step (Vaswani et al. 2017, Section 3.2).

Letters: S keys, K = d_k width of a head, D d_model.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer.capture.record import Check

Floats = NDArray[np.float64]

ARITHMETIC_LIMIT = 1e-4
"""The model adds in float32, which errs by about 1e-6 of the largest number; a wrong head, scale or mask differs by
more than 1e-2."""


@dataclass(frozen=True, eq=False)
class HeadArithmetic:
    """Every number between a query and what its head adds to the output, as read-only arrays in float64."""

    query: Floats
    """[K] q, the query of this head."""
    keys: Floats
    """[S, K] the key k of each position."""
    raw_scores: Floats
    """[S] q · k."""
    scores: Floats
    """[S] q · k / sqrt(d_k), before the mask."""
    mask: NDArray[np.bool_]
    """[S] True where the query may look."""
    weights: Floats
    """[S] softmax of ``scores`` over the allowed keys: the row of the attention map."""
    unscaled_weights: Floats
    """[S] what the row would be without the division by sqrt(d_k): softmax of ``raw_scores``."""
    values: Floats
    """[S, K] the value v of each position."""
    weighted_sum: Floats
    """[K] the sum of weights times values: the output of the head."""
    share: Floats
    """[D] ``weighted_sum`` through this head's rows of W^O: what the head adds to the output of the attention."""
    whole: Floats
    """[D] the output of the whole attention for this query: the shares of all heads and the bias of W^O."""
    checks: tuple[Check, ...] = ()
    """Whether scores, weights and weighted sum are those that the model computed."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def width(self) -> int:
        """K, the d_k of the paper."""
        return len(self.query)

    @property
    def query_norm(self) -> float:
        """Euclidean length of the query."""
        return float(np.linalg.norm(self.query))

    @property
    def key_norms(self) -> Floats:
        """[S] Euclidean length of each key."""
        norms: Floats = np.linalg.norm(self.keys, axis=-1)
        return norms

    @property
    def share_norm(self) -> float:
        """Euclidean length of ``share``."""
        return float(np.linalg.norm(self.share))

    @property
    def whole_norm(self) -> float:
        """Euclidean length of ``whole``."""
        return float(np.linalg.norm(self.whole))

    @property
    def cosine(self) -> float | None:
        """Cosine of the angle between ``share`` and ``whole``, -1 to 1: whether the head pulls the way that the output
        goes. None if one of them is zero."""
        lengths = self.share_norm * self.whole_norm
        return float(np.clip(self.share @ self.whole / lengths, -1.0, 1.0)) if lengths > 0.0 else None

    @property
    def ok(self) -> bool:
        """Whether every check holds."""
        return all(check.ok for check in self.checks)


def head_arithmetic(
    query: NDArray[Any],
    keys: NDArray[Any],
    values: NDArray[Any],
    mask: NDArray[np.bool_],
    outward: NDArray[Any],
    whole: NDArray[Any],
) -> HeadArithmetic:
    """Compute one query of one head from its vectors, in float64.

    Args:
        query: [K]
        keys: [S, K]
        values: [S, K]
        mask: [S] True where the query may look.
        outward: [K, D] the rows of W^O that this head's output meets.
        whole: [D] the output of the attention, all heads and the bias.
    """
    query, keys, values, outward, whole = (
        np.array(array, dtype=np.float64) for array in (query, keys, values, outward, whole)
    )
    raw_scores = keys @ query
    scores = raw_scores / math.sqrt(len(query))
    weights = masked_softmax(scores, mask)
    weighted_sum = weights @ values
    return HeadArithmetic(
        query=query,
        keys=keys,
        raw_scores=raw_scores,
        scores=scores,
        mask=np.array(mask, dtype=np.bool_),
        weights=weights,
        unscaled_weights=masked_softmax(raw_scores, mask),
        values=values,
        weighted_sum=weighted_sum,
        share=weighted_sum @ outward,
        whole=whole,
    )


def masked_softmax(scores: Floats, mask: NDArray[np.bool_]) -> Floats:
    """Softmax of [S] over the keys that the mask allows; all zeros if it allows none, as in the model."""
    if not mask.any():
        return np.zeros_like(scores)
    powers: Floats = np.exp(np.where(mask, scores - scores[mask].max(), -np.inf))
    weights: Floats = powers / powers.sum()
    return weights


def compared(
    found: HeadArithmetic, scores: NDArray[Any], pattern: NDArray[Any], head_output: NDArray[Any]
) -> HeadArithmetic:
    """The same with its checks: ``found`` against what the model computed, [S], [S] and [K], each as a share of the
    largest number (at least one)."""
    checks = (
        _equal("scores", found.scores, scores),
        _equal("weights", found.weights, pattern),
        _equal("weighted sum", found.weighted_sum, head_output),
    )
    return dataclasses.replace(found, checks=checks)


def _equal(name: str, ours: Floats, models: NDArray[Any]) -> Check:
    difference = float(np.max(np.abs(ours - models))) if ours.shape == models.shape else math.inf
    value = difference / max(1.0, float(np.max(np.abs(ours))))
    detail = f"The {name} computed here from q, k and v and those of the model differ by at most {difference:.1e}."
    return Check(f"{name} as the model has them", value <= ARITHMETIC_LIMIT, value, ARITHMETIC_LIMIT, detail)
