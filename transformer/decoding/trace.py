"""The record of one beam search: every candidate that was weighed, and what became of it. Plain values, no torch."""

from __future__ import annotations

from dataclasses import dataclass

KEPT, PRUNED, FINISHED = "kept", "pruned", "finished"


@dataclass(frozen=True)
class BeamNode:
    """One candidate: a piece written behind another node."""

    step: int
    """How many pieces have been written with this one; 0 for <SOS>."""
    token_id: int
    piece: str
    parent: int | None
    """Index into ``BeamTrace.nodes``, always smaller than this node's own; None for <SOS>."""
    log_prob: float
    """The model's log-probability (nats) of this piece behind its parent; 0 for <SOS>."""
    total_log_prob: float
    """Sum of ``log_prob`` from the first piece to this one, in float32 as the search accumulated it."""
    score: float
    """``total_log_prob`` over the length penalty of ``step`` pieces, plus ``coverage``."""
    rank: int
    """Place by total log-probability among the candidates of the same step, from 0."""
    status: str
    """``kept`` in the beam, ``pruned`` out of it, or ``finished`` with <EOS>."""
    coverage: float = 0.0
    """The coverage penalty's share of ``score``, never above 0; 0 if the penalty is off."""


@dataclass(frozen=True)
class BeamTrace:
    """The tree of one search.

    ``nodes`` come step by step and in rank order within a step, <SOS> first. A step's nodes are the 2M candidates that
    the search looked at (fewer where there are fewer), not the whole vocabulary; a forced step has one node.
    ``hypotheses`` are the indices of the nodes that ``beam_search`` returns for the same options, best first: finished
    ones by score, then, only if there are fewer than ``nbest``, those that the longest allowed length cut off (status
    ``kept``).
    """

    nodes: tuple[BeamNode, ...]
    hypotheses: tuple[int, ...]
    forced: int = 0
    """How many steps at the beginning were a prefix that was given. Their nodes are ``kept`` (``finished`` if the
    prefix ends with <EOS>); ``rank`` is the piece's place among all that could have been written there."""

    @property
    def steps(self) -> int:
        """How many steps the search took."""
        return self.nodes[-1].step

    def path(self, node: int) -> list[int]:
        """Node indices from <SOS> to ``node``, both included."""
        indices: list[int] = []
        current: int | None = node
        while current is not None:
            indices.append(current)
            current = self.nodes[current].parent
        return indices[::-1]

    def tokens(self, node: int) -> tuple[int, ...]:
        """The pieces written on the way to ``node``, without <SOS>: what ``Hypothesis.tokens`` holds."""
        return tuple(self.nodes[index].token_id for index in self.path(node)[1:])

    def log_probs(self, node: int) -> tuple[float, ...]:
        """The log-probability of each of ``tokens(node)``."""
        return tuple(self.nodes[index].log_prob for index in self.path(node)[1:])

    def children(self, node: int) -> list[int]:
        """Indices of the candidates that extend ``node``, best first; empty for a node that was not kept."""
        return [index for index, other in enumerate(self.nodes) if other.parent == node]

    def at_step(self, step: int) -> list[int]:
        """Indices of all candidates of one step, best first."""
        return [index for index, node in enumerate(self.nodes) if node.step == step]
