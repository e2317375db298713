"""Draw a translation from the model's distribution instead of searching for the best one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from transformer.config import EOS_ID, SOS_ID
from transformer.decoding.options import Hypothesis, SamplingOptions
from transformer.decoding.rules import check_forced, check_numbers, forbid, repeats
from transformer.decoding.step import AnyState, StepFunction


def filtered(log_probs: Tensor, options: SamplingOptions) -> Tensor:
    """The distribution that is drawn from: temperature, then top-k, then top-p, then brought back to a sum of one.

    Pieces that are never written (``rules``) and those that are filtered out get -inf. Of equally probable pieces the
    lower ids are kept.

    Args:
        log_probs: [..., V] of the model.
        options: the filters.

    Returns:
        Log-probabilities [..., V] in float64; ``log_probs`` stays as it was.
    """
    kept = torch.log_softmax(forbid(log_probs.double()) / options.temperature, dim=-1)
    size = kept.size(-1)
    if 0 < options.top_k < size or options.top_p < 1.0:
        order = kept.sort(dim=-1, descending=True, stable=True)
        out = torch.zeros_like(order.values, dtype=torch.bool)
        if 0 < options.top_k < size:
            out[..., options.top_k :] = True
        if options.top_p < 1.0:
            held = torch.softmax(order.values.masked_fill(out, float("-inf")), dim=-1)
            out |= held.cumsum(dim=-1) - held >= options.top_p  # what stands before it holds enough already
        kept = kept.masked_fill(torch.zeros_like(out).scatter(-1, order.indices, out), float("-inf"))
    return torch.log_softmax(kept, dim=-1)


def sample(
    step: StepFunction[AnyState],
    state: AnyState,
    max_length: int,
    options: SamplingOptions,
    device: torch.device | str = "cpu",
    forced: Sequence[int] = (),
) -> Hypothesis:
    """Draw one translation, a piece at a time.

    The draw at a position depends on the seed, the position and the distribution there, so a translation that is
    forced to begin as a drawn one did goes on as that one did.

    Args:
        step: the step function.
        state: the state of one row, before anything was written.
        max_length: most pieces, <EOS> included; at least 1.
        options: temperature, filters, seed.
        device: the model's.
        forced: what it begins with; counted in ``max_length``.

    Returns:
        The translation with the model's own log-probabilities, unfiltered; its score is their sum.

    Raises:
        InputError: <EOS> inside of ``forced``.
        TransformerError: the step function answered with NaN.
    """
    check_forced(forced)
    generator = random.Random(options.seed)
    draws = [generator.random() for _ in range(max_length)]
    tokens: list[int] = []
    log_probs: list[float] = []
    total = torch.zeros((), dtype=torch.float32)
    with torch.inference_mode():
        while len(tokens) < max_length and EOS_ID not in tokens[-1:]:
            last = torch.tensor(tokens[-1:] or [SOS_ID], dtype=torch.int64, device=device)
            rows, state = step(last, state)
            row = rows[0].cpu()
            check_numbers(float(row.max()))
            position = len(tokens)
            if position < len(forced):
                token: int | None = forced[position]
            else:
                allowed = row
                barred = repeats(tokens, options.no_repeat_ngram) if options.no_repeat_ngram else set()
                if barred:
                    allowed = row.clone()
                    allowed[sorted(barred)] = float("-inf")
                token = _drawn(filtered(allowed, options), draws[position])
            if token is None:  # nothing can be written
                break
            tokens.append(token)
            log_probs.append(float(row[token]))
            total = total + row[token]
    return Hypothesis(tuple(tokens), tuple(log_probs), float(total), float(total), EOS_ID in tokens[-1:])


def _drawn(log_probs: Tensor, draw: float) -> int | None:
    """The piece at which the cumulated probability, in the order of the ids, passes ``draw`` (0 <= draw < 1)."""
    cumulated = log_probs.exp().cumsum(dim=-1)
    if not cumulated[-1] > 0.0:
        return None
    last = int(torch.searchsorted(cumulated, cumulated[-1]))  # the first at which all of it is reached
    return min(int(torch.searchsorted(cumulated, cumulated[-1] * draw, right=True)), last)
