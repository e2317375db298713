"""Why scores are divided by sqrt(d_k): their variance, and what the softmax makes of it (paper, Section 3.2.1).

Letters: H heads, T rows (queries), S columns (keys), K = d_k width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from transformer.analysis.metrics import entropy
from transformer.capture.capture import capture
from transformer.capture.names import attention_probe
from transformer.capture.record import KINDS, BoolArray, FloatArray
from transformer.config import SOS_ID
from transformer.lessons.changing import Changed, Changing, Written, compare

if TYPE_CHECKING:
    from transformer.engine import Translator

Floats = NDArray[np.float64]
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""d_k of each random experiment."""


@dataclass(frozen=True)
class Spread:
    """The scores of one head for one pair of sentences, with and without the division by sqrt(d_k).

    NaN where no row may look at two keys.
    """

    kind: str
    layer: int
    """Counted from 1, as is ``head``."""
    head: int
    variance: float
    """Of the scores among the keys of a row, mean over the rows that have a choice: with the division."""
    undivided_variance: float
    """The same without it: d_k times as much."""
    entropy: float
    """Nats, of the weights, mean over the same rows: with the division (``transformer.analysis.metrics.entropy``)."""
    undivided_entropy: float
    """The same without it."""


@dataclass(frozen=True, eq=False)
class RandomScores:
    """Scores of random queries and keys, all components independent with mean 0 and variance 1; arrays are [N], one a
    width. This is the paper's own argument (footnote 4)."""

    widths: NDArray[np.int64]
    """d_k"""
    keys: int
    variance: Floats
    """Of q k / sqrt(d_k)."""
    undivided_variance: Floats
    """Of q k."""
    entropy: Floats
    """Mean entropy of the softmax of q k / sqrt(d_k), nats."""
    undivided_entropy: Floats
    slope: Floats
    """Mean of 1 - sum p^2, the trace of the softmax's derivative: how much the weights move when the scores do."""
    undivided_slope: Floats


def spreads(translator: Translator, text: str, target_ids: Sequence[int]) -> tuple[Spread, ...]:
    """Every head of the model over one pair: encoder, decoder, cross, each by layer and then by head.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: T pieces that the decoder writes, ``<EOS>`` last if complete.
    """
    config = translator.config
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers, "cross": config.decoder_layers}
    places = [(kind, layer) for kind in KINDS for layer in range(layers[kind])]
    names = [attention_probe(*place, quantity) for place in places for quantity in ("scores", "mask")]
    source = translator.tokenizer.encode(text)
    seen = capture(translator.model, source, [SOS_ID, *target_ids[:-1]], names)
    found = []
    for kind, layer in places:
        scores = cast(FloatArray, seen[attention_probe(kind, layer, "scores")]).astype(np.float64)
        mask = cast(BoolArray, seen[attention_probe(kind, layer, "mask")])
        allowed = np.broadcast_to(mask, scores.shape)[0]
        raw = scores * math.sqrt(config.head_width)
        columns = (
            row_variance(scores, allowed),
            row_variance(raw, allowed),
            entropy(softmax(scores, allowed), allowed),
            entropy(softmax(raw, allowed), allowed),
        )
        for head, values in enumerate(zip(*columns, strict=True)):
            found.append(Spread(kind, layer + 1, head + 1, *(float(value) for value in values)))
    return tuple(found)


def without_division(
    translator: Translator, text: str, target_ids: Sequence[int], plain: Written | None = None
) -> Changed:
    """The whole model with no division anywhere: every score of every layer is multiplied by sqrt(d_k) again.

    It was trained with the division; one trained without would have other queries and keys. ``plain`` is
    ``changing.greedy`` of the model as it is, if it is known.
    """
    factor = math.sqrt(translator.config.head_width)
    return compare(translator, text, target_ids, Changing("_attn.scores", lambda scores: scores * factor), plain)


def random_scores(keys: int, widths: Sequence[int] = WIDTHS, pairs: int = 4000, seed: int = 0) -> RandomScores:
    """Draw queries and keys at each width and measure their scores, which shows what only the width does.

    Args:
        keys: S, how many keys each query meets.
        widths: the d_k to try.
        pairs: how many scores to draw at each width, rounded to whole queries, each with keys of its own.
        seed: of the draw.
    """
    drawn = np.random.default_rng(seed)
    queries = max(1, pairs // keys)
    rows = []
    for width in widths:
        asked = drawn.standard_normal((queries, 1, width))
        raw = np.matmul(drawn.standard_normal((queries, keys, width)), asked.swapaxes(1, 2))[..., 0]
        divided = raw / math.sqrt(width)
        sides = [(scores.var(), *_softness(scores)) for scores in (divided, raw)]
        rows.append([number for pair in zip(*sides, strict=True) for number in pair])
    return RandomScores(np.array(widths, dtype=np.int64), keys, *np.array(rows).T)


def softmax(scores: Floats, allowed: BoolArray | None = None) -> Floats:
    """Of the last axis over the keys that [T, S] allows; a row that may look nowhere is all zeros."""
    shown = scores if allowed is None else np.where(allowed, scores, -np.inf)
    highest = shown.max(axis=-1, keepdims=True)
    powers = np.exp(shown - np.where(np.isfinite(highest), highest, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    result: Floats = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0.0)
    return result


def row_variance(scores: Floats, allowed: BoolArray) -> Floats:
    """[..., T, S] -> [...]: the variance among the allowed keys of a row, mean over the rows with at least two of them.

    A softmax does not see what is added to a whole row, so only differences within rows count.
    """
    count = allowed.sum(axis=-1)
    rows = count > 1
    if not rows.any():
        return np.full(scores.shape[:-2], np.nan)
    shown, number = np.where(allowed, scores, 0.0)[..., rows, :], count[rows]
    mean = shown.sum(axis=-1) / number
    apart = np.where(allowed[rows], shown - mean[..., None], 0.0)
    result: Floats = ((apart**2).sum(axis=-1) / number).mean(axis=-1)
    return result


def _softness(scores: Floats) -> tuple[float, float]:
    """Mean entropy of the rows' softmax, and mean of 1 - sum p^2."""
    weights = softmax(scores)
    return float(entropy(weights)), float(1.0 - (weights**2).sum(axis=-1).mean())
