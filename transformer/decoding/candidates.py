"""The order of candidates, and what a distribution over the next piece looks like to a person.

Letters: N rows, K entries of a row, T positions, V vocabulary.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.decoding.rules import forbid


@dataclass(frozen=True)
class Weighed:
    """One distribution over the next piece."""

    best: tuple[tuple[int, float], ...]
    """(piece, log-probability) of those that may be written, best first."""
    chosen: tuple[int, float, int] | None
    """(piece, log-probability, rank) of the one that was written."""
    entropy: float
    """Of the whole distribution, in nats."""
    rest: float
    """Probability outside ``best``."""


def top(scores: Tensor, count: int) -> tuple[list[list[float]], Tensor]:
    """The best ``count`` entries of each row of [N, K], best first; of equals the one further left comes first.

    ``topk`` promises no order among equals and may drop either of two equals at its edge, so one entry more is taken
    and a row with equals is sorted.

    Returns:
        Their values, and where they stand, int64 [N, count]; min(count, K) of them.
    """
    count = min(count, scores.size(1))
    best = scores.topk(min(count + 1, scores.size(1)), dim=1)
    values = best.values.tolist()
    for place, row in enumerate(values):
        if any(one == other != -math.inf for one, other in itertools.pairwise(row)):
            order = scores[place].sort(descending=True, stable=True)
            values[place] = order.values[:count].tolist()
            best.indices[place, :count] = order.indices[:count]
    return [row[:count] for row in values], best.indices[:, :count]


def rank_of(scores: Tensor, values: Tensor, pieces: Tensor) -> Tensor:
    """How many entries of each row of [N, V] come before ``pieces`` [N], whose scores are ``values`` [N]: int64 [N]."""
    places = torch.arange(scores.size(1), device=scores.device)
    before = (scores == values[:, None]) & (places < pieces[:, None])
    return ((scores > values[:, None]) | before).sum(dim=1)


def weigh(log_probs: Tensor, chosen: Sequence[int | None], count: int) -> list[Weighed]:
    """The best ``count`` pieces of every position, and the rank of what was written there.

    Args:
        log_probs: [T, V] of the model, float32.
        chosen: T pieces; None where nothing was written.
        count: how many to name; fewer where fewer are possible.
    """
    probabilities = log_probs.double().exp()
    entropies = torch.special.entr(probabilities).sum(dim=1).tolist()
    scores = forbid(log_probs.clone())
    values, indices = top(scores, count)
    written = torch.tensor([0 if piece is None else piece for piece in chosen], device=log_probs.device)
    own = log_probs.gather(1, written[:, None])[:, 0]
    ranks, owns = rank_of(scores, own, written).tolist(), own.tolist()
    found = []
    for position, (row, pieces) in enumerate(zip(values, indices.tolist(), strict=True)):
        best = tuple((piece, value) for piece, value in zip(pieces, row, strict=True) if value > -math.inf)
        piece = chosen[position]
        taken = None if piece is None else (int(piece), owns[position], ranks[position])
        shown = math.fsum(math.exp(value) for _, value in best)
        found.append(Weighed(best, taken, entropies[position], max(0.0, 1.0 - shown)))
    return found
