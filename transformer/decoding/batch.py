"""Translate many sentences: sorted by length, cut into batches that fit a budget, searched, put back in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from transformer.decoding.beam import beam_search
from transformer.decoding.options import Hypothesis, SearchOptions
from transformer.decoding.step import start
from transformer.errors import InputError, problem

if TYPE_CHECKING:
    from transformer.nn.model import Transformer

TOKEN_BUDGET = 4096


def translate_ids(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    options: SearchOptions | None = None,
    token_budget: int = TOKEN_BUDGET,
    progress: Callable[[int], object] | None = None,
    forced: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Search the translations of many sentences on the model's device, without dropout.

    Args:
        model: the model; one in training mode is put in evaluation mode meanwhile (not safe beside other threads).
        sources: each with its <SOS> and <EOS>.
        options: how to search; the defaults if None.
        token_budget: upper limit of (sentences * beam size) * longest source in a batch, which is what memory and time
            of a step grow with; a sentence too large for it makes a batch of its own.
        progress: called after each batch with the number of sentences in it (``tqdm``'s ``update`` fits).
        forced: pieces that every translation begins with; see ``search``.

    Returns:
        For each source, in the given order, up to ``options.nbest`` hypotheses, best first. Batching changes nothing
        but the last bits of a sum, so it can change a choice only between near-equals.

    Raises:
        InputError: a source that is empty or longer than the model's positions, a budget below 1, or <EOS> inside of
            ``forced``.
    """
    options = SearchOptions() if options is None else options
    positions = model.config.max_length
    for number, source in enumerate(sources, start=1):
        if not 1 <= len(source) <= positions:
            raise InputError(
                problem(
                    f"sentence {number}",
                    f"must have from 1 to {positions} pieces with <SOS> and <EOS>",
                    len(source),
                    "leave it out" if not source else "shorten or split it",
                )
            )
    device = next(model.parameters()).device
    results: list[list[Hypothesis]] = [[] for _ in sources]
    was_training = model.training
    if was_training:
        model.eval()
    try:
        for batch in batches_by_length([len(source) for source in sources], options.beam_size, token_budget):
            step, state = start(model, [sources[index] for index in batch], options.coverage_penalty > 0.0)
            limits = [options.max_length(len(sources[index]), positions) for index in batch]
            together = beam_search(step, state, limits, options, device, forced)
            for index, found in zip(batch, together, strict=True):
                results[index] = found
            if progress is not None:
                progress(len(batch))
    finally:
        if was_training:
            model.train()
    return results


def batches_by_length(lengths: Sequence[int], beam_size: int, token_budget: int) -> list[list[int]]:
    """Indices of sentences in batches of similar length, longest first, so that a budget too large fails at once.

    Each batch holds (sentences * ``beam_size``) * (its longest length) <= ``token_budget``, or a single sentence.
    Equal lengths keep their order.

    Raises:
        InputError: a budget below 1.
    """
    if token_budget < 1:
        raise InputError(problem("token_budget", "must be at least 1", token_budget, "4096 suits most machines"))
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    for index in order:
        if batches and (len(batches[-1]) + 1) * beam_size * lengths[batches[-1][0]] <= token_budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
