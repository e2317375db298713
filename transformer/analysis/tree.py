"""The tree of a search: what became of each candidate, which of them are drawn, and where each stands.

A column of the picture is a step. The rows are chosen so that no two branches cross (``tidy_rows``), or simply by rank
(``rank_rows``), where crossings show who overtook whom.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from transformer.decoding.trace import BeamTrace
from transformer.errors import InputError, problem

BEST, RETURNED, LOST, PRUNED = "best", "returned", "lost", "pruned"
"""Fates of a node: on the way to the best translation; on the way to another one that was returned; kept or finished
once, but nothing that was returned came of it; never kept."""
TREE, LANES = "tree", "lanes"
LAYOUTS = (TREE, LANES)


@dataclass(frozen=True)
class TreeLayout:
    """The nodes to be drawn, each with its row and fate. N nodes, in the order of the trace."""

    nodes: tuple[int, ...]
    """[N] indices into ``BeamTrace.nodes``; with a node its parents are always there."""
    rows: tuple[float, ...]
    """[N] from 0 at the top; nodes of one step are at least one row apart."""
    fates: tuple[str, ...]
    """[N] ``best``, ``returned``, ``lost`` or ``pruned``."""
    left_out: int
    """How many pruned candidates are not drawn."""

    @property
    def height(self) -> float:
        """Rows from the first to the last."""
        return max(self.rows)

    def place(self, node: int) -> int | None:
        """Where in ``nodes`` an index of the trace stands; None if it is not drawn."""
        found = bisect.bisect_left(self.nodes, node)
        return found if found < len(self.nodes) and self.nodes[found] == node else None


def tree_layout(trace: BeamTrace, pruned: int | None = 0, also: int | None = None, layout: str = TREE) -> TreeLayout:
    """Lay out a search: all that was kept or finished, and so many of the pruned.

    Args:
        trace: the search.
        pruned: most pruned candidates of a step to draw, best first; None draws them all.
        also: a node to draw in any case.
        layout: ``tree`` or ``lanes``.

    Raises:
        InputError: another layout, a negative number, or a node that the trace does not have.
    """
    if layout not in LAYOUTS:
        raise InputError(problem("layout", "must be tree or lanes", layout, "choose one of them"))
    if pruned is not None and pruned < 0:
        raise InputError(problem("pruned", "must be at least 0", pruned, "0 draws none of them"))
    if also is not None and not 0 <= also < len(trace.nodes):
        raise InputError(problem("also", f"must be from 0 to {len(trace.nodes) - 1}", also, "choose one of the trace"))
    nodes = drawn_nodes(trace, pruned, also)
    fate = fates(trace)
    rows = tidy_rows(trace, nodes, fate) if layout == TREE else rank_rows(trace, nodes)
    return TreeLayout(nodes, rows, tuple(fate[node] for node in nodes), len(trace.nodes) - len(nodes))


def fates(trace: BeamTrace) -> tuple[str, ...]:
    """What became of each node of a trace; see ``BEST``."""
    found = [PRUNED if node.status == "pruned" else LOST for node in trace.nodes]
    for hypothesis in reversed(trace.hypotheses):
        for node in trace.path(hypothesis):
            found[node] = RETURNED
    for node in trace.path(trace.hypotheses[0]) if trace.hypotheses else ():
        found[node] = BEST
    return tuple(found)


def drawn_nodes(trace: BeamTrace, pruned: int | None = 0, also: int | None = None) -> tuple[int, ...]:
    """Indices of the nodes that ``tree_layout`` draws, in the order of the trace."""
    chosen, counts = [], [0] * (trace.steps + 1)
    for index, node in enumerate(trace.nodes):
        if node.status == "pruned" and index != also:
            counts[node.step] += 1
            if pruned is not None and counts[node.step] > pruned:
                continue
        chosen.append(index)
    return tuple(chosen)


def rank_rows(trace: BeamTrace, nodes: Sequence[int]) -> tuple[float, ...]:
    """The rank of each node among the candidates of its step, from 0; that of a forced step's only node is 0."""
    ranks = ((trace.nodes[node].step > trace.forced) * trace.nodes[node].rank for node in nodes)
    return tuple(float(rank) for rank in ranks)


def tidy_rows(trace: BeamTrace, nodes: Sequence[int], fate: Sequence[str]) -> tuple[float, ...]:
    """Rows in which no two branches cross and the way to the best translation is straight.

    One child of each node, the *heir*, continues the node's own row: the one on the way to the best translation, else
    to another returned one, else the one with the longest life. The others stand below it, short-lived ones first,
    equal ones in order of rank; each is moved up until some step would bring two nodes closer than one row (Reingold
    and Tilford 1981, "Tidier Drawings of Trees", with the heir instead of the middle, so that long ways are straight).

    Args:
        trace: the search.
        nodes: indices of the nodes to place, ascending, each with its parents.
        fate: what became of every node of the trace.

    Returns:
        [len(nodes)] from 0 at the top.
    """
    children: dict[int, list[int]] = {node: [] for node in nodes}
    for node in nodes:  # a step's nodes come in order of rank, so each list does
        parent = trace.nodes[node].parent
        if parent is not None:
            children[parent].append(node)
    worth = {BEST: 0, RETURNED: 1, LOST: 2, PRUNED: 3}
    top: dict[int, list[float]] = {}
    bottom: dict[int, list[float]] = {}
    shift = dict.fromkeys(nodes, 0.0)
    """Row of a node, counted from its parent's."""
    for node in reversed(nodes):  # children stand behind their parents in a trace
        upper: list[float] = []
        lower: list[float] = []
        below = sorted(children[node], key=lambda child: len(top[child]))  # equal ones stay in order of rank
        if below:
            heir = min(below, key=lambda child: (worth[fate[child]], -len(top[child])))
            below.remove(heir)
            upper, lower = list(top[heir]), list(bottom[heir])
            for child in below:
                shift[child] = 1.0 + max(low - high for low, high in zip(lower, top[child], strict=False))
                _widen(upper, lower, top[child], bottom[child], shift[child])
        top[node], bottom[node] = [0.0, *upper], [0.0, *lower]
    rows: dict[int, float] = {}
    for node in nodes:
        parent = trace.nodes[node].parent
        rows[node] = shift[node] + (0.0 if parent is None else rows[parent])
    highest = min(rows.values(), default=0.0)
    return tuple(rows[node] - highest for node in nodes)


def _widen(upper: list[float], lower: list[float], top: list[float], bottom: list[float], shift: float) -> None:
    """Make an outline, one highest and lowest row for each step, hold a branch as well that is moved by ``shift``."""
    for step, (high, low) in enumerate(zip(top, bottom, strict=True)):
        if step < len(upper):
            upper[step], lower[step] = min(upper[step], high + shift), max(lower[step], low + shift)
        else:
            upper.append(high + shift)
            lower.append(low + shift)
