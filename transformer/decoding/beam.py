"""Beam search's two doors: ``beam_search`` for hypotheses, ``trace_beam_search`` for the tree of the same search."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from transformer.config import SOS_ID
from transformer.decoding.options import Hypothesis, SearchOptions, length_penalty
from transformer.decoding.search import Prefix, search
from transformer.decoding.step import AnyState, StepFunction
from transformer.decoding.trace import KEPT, BeamNode, BeamTrace

__all__ = ["Hypothesis", "SearchOptions", "beam_search", "length_penalty", "trace_beam_search"]


def beam_search(
    step: StepFunction[AnyState],
    state: AnyState,
    max_lengths: Tensor | Sequence[int],
    options: SearchOptions,
    device: torch.device | str = "cpu",
    forced: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """The best translations of B sentences, found together. ``transformer.decoding.search`` defines the search.

    Args:
        step: last pieces [N] and state -> log-probabilities [N, V] and state.
        state: state of B rows, before anything was written.
        max_lengths: [B], most pieces of each translation, <EOS> included (``SearchOptions.max_length``).
        options: beam size, penalties, n-best; a coverage penalty needs a state that counts (``CoverageState``).
        device: the model's.
        forced: pieces that every hypothesis begins with.

    Returns:
        For each sentence up to ``options.nbest`` hypotheses, best first. Those that end with <EOS> stand before those
        that were cut off.

    Raises:
        InputError: a longest length below 1, or <EOS> inside of ``forced``.
        TransformerError: the step function answered with NaN.
    """
    found = search(step, state, max_lengths, options, device, forced=forced)
    return [[_hypothesis(prefix, options.length_penalty) for prefix in sentence] for sentence in found]


def trace_beam_search(
    step: StepFunction[AnyState],
    state: AnyState,
    max_length: int,
    options: SearchOptions,
    piece_of: Callable[[int], str],
    device: torch.device | str = "cpu",
    forced: Sequence[int] = (),
) -> BeamTrace:
    """``beam_search`` of one sentence with every candidate written down.

    Args:
        step, state, options, device, forced: as for ``beam_search``; the state has one row.
        max_length: most pieces of the translation, <EOS> included.
        piece_of: what a person reads for a piece id.

    Returns:
        The tree. ``trace.tokens(node)`` for ``node`` in ``trace.hypotheses`` are the tokens of ``beam_search``'s
        hypotheses for the same arguments.

    Raises:
        InputError, TransformerError: as for ``beam_search``.
    """
    nodes: list[BeamNode] = [BeamNode(0, SOS_ID, piece_of(SOS_ID), None, 0.0, 0.0, 0.0, 0, KEPT)]
    places: dict[Prefix, int] = {}

    def place(prefix: Prefix | None) -> int:
        return 0 if prefix is None or prefix.parent is None else places[prefix]

    def note(candidate: Prefix, rank: int, status: str) -> None:
        parent = place(candidate.parent)
        places[candidate] = len(nodes)
        nodes.append(
            BeamNode(
                step=candidate.length,
                token_id=candidate.token,
                piece=piece_of(candidate.token),
                parent=parent,
                log_prob=candidate.log_prob,
                total_log_prob=candidate.total,
                score=candidate.score(options.length_penalty),
                rank=rank,
                status=status,
                coverage=candidate.coverage,
            )
        )

    (found,) = search(step, state, [max_length], options, device, note, forced)
    return BeamTrace(tuple(nodes), tuple(place(prefix) for prefix in found), len(forced))


def _hypothesis(prefix: Prefix, alpha: float) -> Hypothesis:
    chain = prefix.chain()
    return Hypothesis(
        tokens=tuple(link.token for link in chain),
        log_probs=tuple(link.log_prob for link in chain),
        total_log_prob=prefix.total,
        score=prefix.score(alpha),
        finished=prefix.finished,
        coverage=prefix.coverage,
    )
