"""The story of one node of a beam search: how it came about, and if it was lost, when and to whom.

Letters: M beam size, T target pieces, S source pieces.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transformer.decoding.trace import FINISHED, KEPT, BeamTrace
from transformer.errors import InputError, problem

WON, RETURNED, OUTSCORED, OPEN, LOST = "won", "returned", "outscored", "open", "lost"


@dataclass(frozen=True)
class NodeStory:
    """What became of one node, and of what was written behind it."""

    node: int
    """Index into ``trace.nodes``."""
    pieces: tuple[str, ...]
    """Labels from the first written piece to this one; empty for <SOS>."""
    step: int
    log_prob: float
    """Of this piece behind its parent, in nats."""
    total: float
    """Sum of the log-probabilities of ``pieces``."""
    score: float
    """``total`` over the length penalty, plus the coverage penalty."""
    rank: int
    """Place by total among the candidates of its step, from 0."""
    status: str
    """``kept``, ``pruned`` or ``finished`` in its own step."""
    outcome: str
    """``won``: the best hypothesis begins with it (or is it); ``returned``: another of the hypotheses does;
    ``outscored``: it came to an end, but others scored better; ``open``: still in the beam when the search stopped,
    but not returned; ``lost``: it, or the last that went on from it, fell out of the beam."""
    hypotheses: tuple[int, ...]
    """Places in ``trace.hypotheses``, from 0 and best first, of those that begin with it."""
    lost_at: int | None = None
    """The step at which it fell out of the beam, with everything that went on from it."""
    displaced: tuple[tuple[int, float], ...] = ()
    """(node, total) of the candidates of that step that were kept or finished and came before it, best first."""
    needed: float | None = None
    """The total with which it would have stayed at that step, that of the weakest candidate that did."""
    gap: float | None = None
    """``needed`` less the best total that it had at that step (0 or more)."""
    gap_is_bound: bool = False
    """True if not even its best continuation was among the 2M candidates that were looked at: the gap is then at least
    ``gap``, that of the last candidate looked at."""


def story(trace: BeamTrace, node: int) -> NodeStory:
    """What became of a node. A kept one none of whose continuations was kept is lost where the last of them fell out.

    Raises:
        InputError: there is no such node.
    """
    if not 0 <= node < len(trace.nodes):
        raise InputError(problem("node", f"must be from 0 to {len(trace.nodes) - 1}", node, "choose one of the tree"))
    one = trace.nodes[node]
    family = _descendants(trace, node)
    hypotheses = tuple(place for place, index in enumerate(trace.hypotheses) if index in family)
    kept_until = max((trace.nodes[index].step for index in family if trace.nodes[index].status == KEPT), default=0)
    lost_at: int | None = None
    if hypotheses:
        outcome = WON if hypotheses[0] == 0 else RETURNED
    elif any(trace.nodes[index].status == FINISHED for index in family):
        outcome = OUTSCORED
    elif kept_until == trace.steps:
        outcome = OPEN
    else:
        outcome = LOST
        lost_at = kept_until + 1 if one.status == KEPT else one.step
    told = NodeStory(
        node=node,
        pieces=tuple(trace.nodes[index].piece for index in trace.path(node)[1:]),
        step=one.step,
        log_prob=one.log_prob,
        total=one.total_log_prob,
        score=one.score,
        rank=one.rank,
        status=one.status,
        outcome=outcome,
        hypotheses=hypotheses,
    )
    return told if lost_at is None else _lost(trace, told, family, lost_at)


def parting(first_ids: Sequence[int], second_ids: Sequence[int]) -> int | None:
    """The first position, from 0, at which two translations differ; None if they are the same.

    >>> parting([5, 6, 3], [5, 7, 3]), parting([5], [5, 3]), parting([5, 3], [5, 3])
    (1, 1, None)
    """
    pairs = itertools.zip_longest(first_ids, second_ids)
    return next((position for position, (one, other) in enumerate(pairs) if one != other), None)


def coverage(cross: NDArray[np.float32]) -> NDArray[np.float32]:
    """How far each source piece was looked at: min(sum of the attention it received, 1) (Wu et al. 2016, Section 7).

    Args:
        cross: [T, S] attention that wrote the T pieces; the search uses the mean over the heads of the last decoder
            layer, ``record.cross[-1].mean(axis=0)``.

    Returns:
        [S] from 0 to 1.
    """
    covered: NDArray[np.float32] = np.minimum(cross.sum(axis=0), np.float32(1.0))
    return covered


def coverage_penalty(cross: NDArray[np.float32], counted: NDArray[np.bool_], beta: float = 1.0) -> float:
    """beta times the sum of log ``coverage`` (Wu et al. 2016, Equation 14): what the search adds to a score.

    Args:
        cross: as for ``coverage``.
        counted: [S] True at the source pieces that shall be covered; the search leaves out <SOS> and <EOS>.
        beta: 0 or more.

    Returns:
        0 if everything was covered, less the less was looked at.
    """
    covered = np.maximum(coverage(cross)[counted], np.finfo(np.float32).tiny)
    return beta * float(np.log(covered.astype(np.float64)).sum())


def _descendants(trace: BeamTrace, node: int) -> set[int]:
    """The node and everything that was written behind it; parents stand before their children."""
    family = {node}
    for index in range(node + 1, len(trace.nodes)):
        if trace.nodes[index].parent in family:
            family.add(index)
    return family


def _lost(trace: BeamTrace, told: NodeStory, family: set[int], step: int) -> NodeStory:
    candidates = trace.at_step(step)
    own = [index for index in candidates if index in family]
    rank = trace.nodes[own[0]].rank if own else len(candidates)
    stayed = [index for index in candidates if trace.nodes[index].status in (KEPT, FINISHED)]
    before = [index for index in stayed if trace.nodes[index].rank < rank]
    kept = [index for index in before if trace.nodes[index].status == KEPT] or before
    needed = min((trace.nodes[index].total_log_prob for index in kept), default=None)
    best = trace.nodes[own[0] if own else candidates[-1]].total_log_prob
    return dataclasses.replace(
        told,
        lost_at=step,
        displaced=tuple((index, trace.nodes[index].total_log_prob) for index in before),
        needed=needed,
        gap=None if needed is None else needed - best,
        gap_is_bound=not own,
    )
