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

from transformer.decoding.rules import NEVER_WRITTEN, forbid

BLOCK = 64
"""Pieces in a block of ``best_of_rows``."""
SMALL = 1 << 15
"""Candidates below which plain sums and order are quicker."""


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
        if _has_equals(row):
            order = scores[place].sort(descending=True, stable=True)
            values[place] = order.values[:count].tolist()
            best.indices[place, :count] = order.indices[:count]
    return [row[:count] for row in values], best.indices[:, :count]


def best_of_rows(totals: Tensor, log_probs: Tensor, count: int) -> tuple[list[list[float]], Tensor]:
    """The best ``count`` candidates of B sentences with W rows each, best first; equals as in ``top``.

    A candidate's value is its row's total plus its log-probability; the pieces that are never written are left out.
    Sums and order over many candidates would take longer than the softmax that made them, so the rows are then cut
    into blocks of ``BLOCK`` pieces and only blocks with the highest peaks are gone through. They hold the best: at most
    n blocks have a peak above the (n + 1)-th best value, and adding a total in floating point keeps the order of what
    it is added to.

    Args:
        totals: [B, W], -inf for a row that counts for nothing.
        log_probs: [B * W, V].
        count: how many.

    Returns:
        Their values, and row * V + piece, int64 [B, count].
    """
    sentences, width = totals.shape
    vocabulary = log_probs.size(1)
    first = max(NEVER_WRITTEN) + 1
    blocks = (vocabulary - first) // BLOCK
    if log_probs.numel() < SMALL or width * blocks <= 2 * (count + 1):
        return top(forbid(totals.view(-1, 1) + log_probs).view(sentences, width * vocabulary), count)
    tail = first + blocks * BLOCK
    peaks = log_probs[:, first:tail].unfold(1, BLOCK, BLOCK).amax(dim=2) + totals.view(-1, 1)
    chosen = peaks.view(sentences, width * blocks).topk(count + 1, dim=1).indices
    row = chosen // blocks
    starts = row * vocabulary + (first + (chosen - row * blocks) * BLOCK)
    device = log_probs.device
    places = (starts[:, :, None] + torch.arange(BLOCK, device=device)).flatten(1)
    if tail < vocabulary:  # the pieces behind the last whole block
        last = torch.arange(width, device=device)[:, None] * vocabulary + torch.arange(tail, vocabulary, device=device)
        places = torch.cat((places, last.flatten().expand(sentences, -1)), dim=1)
    values = totals.gather(1, places // vocabulary) + log_probs.view(sentences, -1).gather(1, places)
    best = values.topk(count + 1, dim=1)
    found, flat = best.values.tolist(), places.gather(1, best.indices)[:, :count]
    for place, listed in enumerate(found):
        if _has_equals(listed):
            whole = forbid(totals[place, :, None] + log_probs.view(sentences, width, vocabulary)[place])
            (found[place],), (flat[place],) = top(whole.view(1, -1), count)
    return [listed[:count] for listed in found], flat


def _has_equals(values: list[float]) -> bool:
    """Whether two neighbours are equal; what cannot be written at all (-inf) does not count."""
    return any(one == other != -math.inf for one, other in itertools.pairwise(values))


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
