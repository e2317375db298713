"""What the parts of the beam page share: a search and the node of it that is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transformer.analysis.beam import NodeStory
from transformer.plots.labels import visible
from transformer.plots.tree import ordinal

if TYPE_CHECKING:
    from transformer.decoding.trace import BeamTrace
    from transformer.webapp.frame import View

LAST_PIECES = 8
"""Pieces of a beginning that a list shows."""


@dataclass(frozen=True, eq=False)
class Found:
    """A search and the node of it that is looked at."""

    view: View
    prefix: tuple[int, ...]
    """Ids of the pieces that were forced."""
    trace: BeamTrace
    told: NodeStory
    """Of the node."""

    @property
    def node(self) -> int:
        """Index into ``trace.nodes``."""
        return self.told.node

    def text(self, node: int) -> str:
        """What has been written at a node, as a person writes it."""
        return self.view.translator.tokenizer.decode(self.trace.tokens(node)).strip()


def pieces(trace: BeamTrace, node: int, last: int = LAST_PIECES) -> str:
    """The last pieces up to a node."""
    way = [visible(trace.nodes[place].piece) for place in trace.path(node)[1:]]
    return ("… " if len(way) > last else "") + " ".join(way[-last:]) if way else "<SOS>"


def name(trace: BeamTrace, node: int) -> str:
    """A node in a list: "1st translation: Ein Mann …" or "step 3, rank 2: Ein Mann mit"."""
    if node in trace.hypotheses:
        return f"{ordinal(trace.hypotheses.index(node) + 1)} translation: {pieces(trace, node)}"
    one = trace.nodes[node]
    return f"step {one.step}, rank {one.rank + 1}: {pieces(trace, node)}" if one.step else "<SOS>, the root"


def same_text(trace: BeamTrace, tokens: tuple[int, ...] | None) -> int | None:
    """The node at which exactly these pieces have been written; None if the search did not weigh them."""
    if not tokens:
        return None
    for index in trace.at_step(len(tokens)):
        if trace.nodes[index].token_id == tokens[-1] and trace.tokens(index) == tokens:
            return index
    return None
