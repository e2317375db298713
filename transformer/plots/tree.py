"""The search as a tree: a column for each step, a node for each candidate, from ``<SOS>`` at the left to the ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from transformer.analysis.tree import BEST, LOST, PRUNED, RETURNED, TreeLayout
from transformer.decoding.trace import BeamTrace
from transformer.errors import InputError, problem
from transformer.plots import labels, theme
from transformer.plots.theme import Palette

ROW = 32
"""Pixels from one row to the next: a piece above the line, its probability below."""
LONGEST_LABEL = 14
"""Letters of a piece that are written out; the rest is on hover."""
LETTER = 7.3
"""Pixels of one monospace letter."""
LEAD, FAN = 9, 26
"""Pixels from a node to its label, and from the end of a label to the next column, where lines part."""
LAST_PIECES = 12
"""Pieces of the text so far that hover shows."""
NAMES = {
    BEST: "best translation",
    RETURNED: "other translations listed",
    LOST: "kept for a while, then lost",
    PRUNED: "pruned at once",
}
_ORDER = (PRUNED, LOST, RETURNED, BEST)


@dataclass(frozen=True)
class Geometry:
    """Where everything stands, in pixels; the axes of the figure count in the same pixels."""

    columns: tuple[float, ...]
    """For each step from 0 the x of its nodes."""
    shelves: tuple[float, ...]
    """For each step the x at which the line behind a label ends and lines to the children part."""
    width: int
    height: int


def search_tree(
    trace: BeamTrace,
    layout: TreeLayout,
    colours: Palette,
    *,
    selected: int | None = None,
    marked: Sequence[int] = (),
) -> go.Figure:
    """Draw the search.

    A node's fill is its probability, from the background (0) to the palette's (1). Ends are squares. The way to the
    best translation is the strongest line, the ways to other listed ones are thinner, what was lost is grey, what was
    pruned at once is dotted. Behind the ends of listed translations stands their place.

    A click on a node, or on its label, returns its index in ``trace.nodes`` as ``customdata``.

    Args:
        trace: the search.
        layout: which nodes are drawn, and in which rows.
        colours: the theme's palette.
        selected: a node to outline, together with the way to it.
        marked: nodes to outline in the colour of a warning: what displaced the selected one.

    Raises:
        InputError: a selected or marked node that the layout does not have.
    """
    outlined: list[tuple[str, Sequence[int]]] = [("selected", [] if selected is None else [selected])]
    for name, nodes in [*outlined, ("marked", marked)]:
        for node in nodes:
            if layout.place(node) is None:
                raise InputError(problem(name, "must be among the nodes that are drawn", node, "let it be drawn"))
    plan = geometry(trace, layout)
    figure = go.Figure()
    present = set(layout.fates)
    for fate in _ORDER:
        if fate in present:
            figure.add_scatter(**_lines(trace, layout, plan, fate, colours))
    if selected is not None:
        figure.add_scatter(**_way(trace, layout, plan, selected, colours))
    figure.add_scatter(**_markers(trace, layout, plan, colours))
    for fate in _ORDER:
        for texts in _texts(trace, layout, plan, fate, colours) if fate in present else ():
            figure.add_scatter(**texts)
    for nodes, colour, size in ((marked, colours.warning, 17), (outlined[0][1], colours.text, 19)):
        if nodes:
            x, y = _points(trace, layout, plan, nodes)
            ring = {"symbol": "circle-open", "size": size, "color": colour, "line": {"width": 2.5}}
            figure.add_scatter(x=x, y=y, mode="markers", marker=ring, hoverinfo="skip", showlegend=False)
    figure.add_scatter(**_handles(trace, layout, plan))
    _lay_out(figure, plan, colours)
    return figure


def geometry(trace: BeamTrace, layout: TreeLayout) -> Geometry:
    """Measure the picture: every column as wide as its longest label needs."""
    steps = max(trace.nodes[node].step for node in layout.nodes)
    longest = [5.5] * (steps + 1)
    for node in layout.nodes:
        step = trace.nodes[node].step
        longest[step] = max(longest[step], len(_label(trace, node)) + 0.5)
    columns, shelves, x = [], [], 12.0
    for letters in longest:
        columns.append(x)
        shelves.append(x + LEAD + letters * LETTER)
        x = shelves[-1] + FAN
    return Geometry(tuple(columns), tuple(shelves), math.ceil(x), math.ceil((layout.height + 1) * ROW))


def least_width(trace: BeamTrace, layout: TreeLayout) -> int:
    """The width in pixels under which labels would run into each other."""
    return geometry(trace, layout).width + 20


def _label(trace: BeamTrace, node: int) -> str:
    piece = labels.visible(trace.nodes[node].piece)
    piece = piece if len(piece) <= LONGEST_LABEL else piece[: LONGEST_LABEL - 1] + "…"
    return f"{piece} {ordinal(trace.hypotheses.index(node) + 1)}" if node in trace.hypotheses else piece


def ordinal(number: int) -> str:
    """ "1st", "2nd", "3rd", "4th" …"""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _row(layout: TreeLayout, node: int) -> float:
    place = layout.place(node)
    assert place is not None  # every parent of a drawn node is drawn
    return (layout.rows[place] + 0.5) * ROW


def _points(
    trace: BeamTrace, layout: TreeLayout, plan: Geometry, nodes: Sequence[int]
) -> tuple[list[float], list[float]]:
    return [plan.columns[trace.nodes[node].step] for node in nodes], [_row(layout, node) for node in nodes]


def _edge(
    trace: BeamTrace, layout: TreeLayout, plan: Geometry, node: int
) -> tuple[list[float | None], list[float | None]]:
    """The line from a node's parent: level under the parent's label, then to the node; and a gap."""
    parent = trace.nodes[node].parent
    if parent is None:
        return [], []
    step, above = trace.nodes[parent].step, _row(layout, parent)
    return [plan.columns[step], plan.shelves[step], plan.columns[step + 1], None], [
        above,
        above,
        _row(layout, node),
        None,
    ]


def _lines(trace: BeamTrace, layout: TreeLayout, plan: Geometry, fate: str, colours: Palette) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for node, own in zip(layout.nodes, layout.fates, strict=True):
        if own == fate:
            along, down = _edge(trace, layout, plan, node)
            x += along
            y += down
    faint = theme.mix(colours.background, colours.muted, 0.7)
    line = {
        BEST: {"color": colours.probability, "width": 4},
        RETURNED: {"color": colours.probability, "width": 2},
        LOST: {"color": faint, "width": 1.5},
        PRUNED: {"color": faint, "width": 1, "dash": "dot"},
    }[fate]
    return {"x": x, "y": y, "mode": "lines", "line": line, "hoverinfo": "skip", "name": NAMES[fate]}


def _way(trace: BeamTrace, layout: TreeLayout, plan: Geometry, selected: int, colours: Palette) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for node in trace.path(selected):
        along, down = _edge(trace, layout, plan, node)
        x += along
        y += down
    line = {"color": colours.text, "width": 1.5}
    return {"x": x, "y": y, "mode": "lines", "line": line, "hoverinfo": "skip", "name": "the chosen node"}


def _markers(trace: BeamTrace, layout: TreeLayout, plan: Geometry, colours: Palette) -> dict[str, Any]:
    x, y = _points(trace, layout, plan, layout.nodes)
    edge = {BEST: colours.probability, RETURNED: colours.probability, LOST: colours.muted, PRUNED: colours.muted}
    nodes = [trace.nodes[node] for node in layout.nodes]
    return {
        "x": x,
        "y": y,
        "mode": "markers",
        "marker": {
            "symbol": ["square" if node.status == "finished" else "circle" for node in nodes],
            "size": [7 if fate == PRUNED else 11 for fate in layout.fates],
            "color": [theme.mix(colours.background, colours.probability, math.exp(node.log_prob)) for node in nodes],
            "line": {"width": 1.5, "color": [edge[fate] for fate in layout.fates]},
        },
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _texts(trace: BeamTrace, layout: TreeLayout, plan: Geometry, fate: str, colours: Palette) -> list[dict[str, Any]]:
    nodes = [node for node, own in zip(layout.nodes, layout.fates, strict=True) if own == fate]
    x, y = _points(trace, layout, plan, nodes)
    x = [at + LEAD for at in x]
    strong = colours.text if fate in (BEST, RETURNED) else colours.muted
    pieces = [labels.escape(_label(trace, node)) for node in nodes]
    pieces = [f"<b>{piece}</b>" for piece in pieces] if fate == BEST else pieces
    shares = [labels.percent(math.exp(trace.nodes[node].log_prob)) if trace.nodes[node].step else "" for node in nodes]
    shared: dict[str, Any] = {"x": x, "mode": "text", "hoverinfo": "skip", "showlegend": False}
    return [
        {
            **shared,
            "y": [at - 1 for at in y],
            "text": pieces,
            "textposition": "top right",
            "textfont": {"family": theme.MONO, "size": 12, "color": strong},
        },
        {
            **shared,
            "y": [at + 3 for at in y],
            "text": shares,
            "textposition": "bottom right",
            "textfont": {"family": theme.SANS, "size": 10, "color": colours.muted},
        },
    ]


def _handles(trace: BeamTrace, layout: TreeLayout, plan: Geometry) -> dict[str, Any]:
    """Unseen marks on each node and its label, which answer to the mouse."""
    x, y = _points(trace, layout, plan, layout.nodes)
    reach = [LEAD + LETTER * len(_label(trace, node)) / 2 for node in layout.nodes]
    said = [_hover(trace, node, fate) for node, fate in zip(layout.nodes, layout.fates, strict=True)]
    return {
        "x": x + [at + more for at, more in zip(x, reach, strict=True)],
        "y": y + y,
        "mode": "markers",
        "marker": {"size": 16, "opacity": 0},
        "selected": {"marker": {"opacity": 0}},
        "unselected": {"marker": {"opacity": 0}},
        "customdata": [[node] for node in layout.nodes] * 2,
        "text": said * 2,
        "hovertemplate": "%{text}<extra></extra>",  # without one of its own a click returns nothing
        "showlegend": False,
    }


def _hover(trace: BeamTrace, index: int, fate: str) -> str:
    node = trace.nodes[index]
    if node.parent is None:
        return "&lt;SOS&gt;: where every translation begins"
    way = [labels.visible(trace.nodes[place].piece) for place in trace.path(index)[1:]]
    text = ("… " if len(way) > LAST_PIECES else "") + " ".join(way[-LAST_PIECES:])
    what = {BEST: NAMES[BEST], RETURNED: "on the way to a listed translation", LOST: NAMES[LOST], PRUNED: NAMES[PRUNED]}
    said = "finished, but not listed" if fate == LOST and node.status == "finished" else what[fate]
    return (
        f"<b>{labels.escape(text)}</b><br>step {node.step}, rank {node.rank + 1}: {said}"
        f"<br>probability {labels.percent(math.exp(node.log_prob))} (log {node.log_prob:.2f})"
        f"<br>log-probability so far {node.total_log_prob:.2f}, score {node.score:.3f}"
    )


def _lay_out(figure: go.Figure, plan: Geometry, colours: Palette) -> None:
    axis = {"showgrid": False, "zeroline": False, "fixedrange": True, "ticks": ""}
    top, small = 66, {"family": theme.SANS, "size": 12, "color": colours.muted}
    figure.update_layout(
        **{**theme.base_layout(colours), "showlegend": True},
        width=None,
        height=plan.height + top + 8,
        margin={"l": 10, "r": 10, "t": top, "b": 8},
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1 + 26 / plan.height,
            "yanchor": "bottom",
            "traceorder": "reversed",
            "itemclick": False,
            "itemdoubleclick": False,
            "font": {**small, "color": colours.text},
        },
        hoverdistance=16,
    )
    figure.update_xaxes(
        **axis,
        range=[0, plan.width],
        side="top",
        tickvals=list(plan.columns),
        ticktext=[str(step) for step in range(len(plan.columns))],
        tickfont=small,
    )
    figure.update_yaxes(**axis, range=[plan.height, 0], showticklabels=False)
