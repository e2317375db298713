"""The view with lines: queries on the left, keys on the right, and a line for each look that is strong enough."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.analysis.maps import Axis, KindView
from transformer.errors import InputError, problem
from transformer.plots import labels, theme
from transformer.plots.heatmap import marked, piece_axis, positions, quantity_name
from transformer.plots.theme import Palette

MOST_LINES = 2000
"""More lines than this would be neither quick nor legible: the strongest are drawn, those of the focus first."""
STROKES = ((1.0, 0.35), (2.0, 0.55), (3.5, 0.75), (5.5, 1.0))
"""Width in pixels and opacity of lines with weights up to 1/4, 1/2, 3/4 and 1."""
FAINT = (1.0, 0.08)
"""Width and opacity of the lines that are not of the focus."""
SPREAD = 0.5
"""Rows over which the lines of several heads between the same two pieces are spread, so that all can be seen."""
SIDES = ("query", "key")
LETTER = 7.8
"""Pixels of a letter of a label at 12 pixels, with some to spare: monospace fonts take 0.6 of their size, some 0.65."""
MOST_LABEL = 400
"""Pixels of the longest label that room is made for."""
_UNSEEN: dict[str, Any] = {
    "mode": "markers",
    "selected": {"marker": {"opacity": 0}},
    "unselected": {"marker": {"opacity": 0}},
    "hovertemplate": "%{text}<extra></extra>",  # without one of its own a click returns nothing
}


@dataclass(frozen=True)
class Head:
    """One of the heads that are drawn, and how."""

    layer: int
    """From 0."""
    head: int
    """From 0."""
    name: str
    """Escaped."""
    colour: str
    dash: str
    lift: float
    """Rows by which its lines are shifted down, so that several heads' lines between two pieces can all be seen."""


@dataclass(frozen=True, eq=False)
class Looks:
    """The looks that are drawn, strongest first, those of the focus before all others. N looks."""

    head: NDArray[np.int64]
    """[N] which of the chosen heads."""
    query: NDArray[np.int64]
    key: NDArray[np.int64]
    weight: NDArray[np.float32]
    near: NDArray[np.bool_]
    """True for the looks of the focus; for all if there is none."""
    left_out: int
    """How many more reach the threshold."""


def lines(
    view: KindView,
    heads: Sequence[tuple[int, int]],
    colours: Palette,
    *,
    threshold: float = 0.1,
    focus: int | None = None,
    side: str = "query",
    names: Sequence[str] = (),
) -> go.Figure:
    """Draw the looks of one or several heads as lines from queries to keys.

    A line grows in width and opacity with its weight, in four steps. With one head its colour is that of the kind;
    several heads have a colour each (from the ninth on a dash as well) and a legend that turns them on and off. At most
    ``MOST_LINES`` lines are drawn; the picture and ``layout.meta["left_out"]`` say how many more there are. Each
    piece has its own place, equal ones too.

    Transparent markers answer to clicks with ``customdata`` [side, position, ...]: those at both ends name their own
    piece, those on a line name its query, followed by key, layer and head (all from 0).

    Args:
        view: the maps of one kind.
        heads: (layer, head) from 0.
        colours: the theme's palette.
        threshold: the smallest weight that is drawn; a weight of zero never is.
        focus: position of a query or key, from 0, whose lines stay strong while the rest turns faint.
        side: whether ``focus`` is a "query" or a "key".
        names: what each of ``heads`` is called; by default "layer 3 · head 2".

    Raises:
        InputError: no head, another side, or a focus that the axis does not have.
    """
    count_rows, count_columns = view.weights.shape[2:]
    if not heads:
        raise InputError(problem("heads", "must name at least one head", tuple(heads), "choose a layer and a head"))
    if side not in SIDES:
        raise InputError(problem("side", "must be query or key", side, "choose one of them"))
    if focus is not None:
        positions("focus", [focus], count_rows if side == "query" else count_columns)
    drawn = _heads(view.kind, heads, names, colours)
    looks = strong_looks(view, heads, threshold, focus, side)
    figure = go.Figure()
    strength = np.minimum((looks.weight * len(STROKES)).astype(int), len(STROKES) - 1)
    for step, (width, opacity) in enumerate((FAINT, *STROKES)):  # the faint first: the strong lie on top
        wanted = looks.near & (strength == step - 1) if step else ~looks.near
        for index, head in enumerate(drawn):
            chosen = wanted & (looks.head == index)
            if chosen.any():
                line = {"color": head.colour, "width": width, "dash": head.dash}
                path = _paths(looks.query[chosen] + head.lift, looks.key[chosen] + head.lift)
                group = {"legendgroup": head.name, "showlegend": False}
                figure.add_scatter(**path, **group, mode="lines", line=line, opacity=opacity, hoverinfo="skip")
    for index, head in enumerate(drawn):
        chosen = looks.near & (looks.head == index)
        if chosen.any():
            handles = _handles(view, looks, chosen, head)
            figure.add_scatter(**handles, **_UNSEEN, legendgroup=head.name, showlegend=False)
        if len(heads) > 1:
            line = {"color": head.colour, "width": 3, "dash": head.dash}
            figure.add_scatter(x=[None], y=[None], mode="lines", line=line, name=head.name, legendgroup=head.name)
    called = [head.name for head in drawn]
    figure.add_scatter(**_ends(view, looks, "query", called), **_UNSEEN, showlegend=False)
    figure.add_scatter(**_ends(view, looks, "key", called), **_UNSEEN, showlegend=False, yaxis="y2")
    _lay_out(figure, view, colours, focus, side, len(heads))
    _say(figure, looks, threshold, quantity_name(view), colours)
    return figure


def strong_looks(
    view: KindView, heads: Sequence[tuple[int, int]], threshold: float, focus: int | None = None, side: str = "query"
) -> Looks:
    """The at most ``MOST_LINES`` strongest looks of some heads that reach a threshold; see ``lines``."""
    weights = np.stack([view.weights[layer, head] for layer, head in heads])
    head, query, key = np.nonzero((weights >= threshold) & (weights > 0.0))
    weight = weights[head, query, key]
    place = query if side == "query" else key
    near = np.ones(len(weight), dtype=bool) if focus is None else place == focus
    order = np.lexsort((-weight, ~near))[:MOST_LINES]
    return Looks(head[order], query[order], key[order], weight[order], near[order], len(weight) - len(order))


def _heads(kind: str, heads: Sequence[tuple[int, int]], names: Sequence[str], colours: Palette) -> list[Head]:
    drawn = []
    for index, (layer, head) in enumerate(heads):
        name = names[index] if names else f"layer {layer + 1} · head {head + 1}"
        colour, dash = theme.head_style(index, colours)
        if len(heads) == 1:
            colour, dash = theme.kind_colour(kind, colours), "solid"
        lift = SPREAD * ((index + 0.5) / len(heads) - 0.5)
        drawn.append(Head(layer, head, labels.escape(name), colour, dash, lift))
    return drawn


def _paths(query: NDArray[np.float64], key: NDArray[np.float64]) -> dict[str, Any]:
    """Many lines as one trace: both ends of each, and a gap."""
    x = np.tile(np.array([0.0, 1.0, np.nan], dtype=np.float32), len(query))
    y = np.stack([query, key, np.full(len(query), np.nan)], axis=1).astype(np.float32)
    return {"x": x, "y": y.ravel()}


def _handles(view: KindView, looks: Looks, chosen: NDArray[np.bool_], head: Head) -> dict[str, Any]:
    """What a line says: Plotly answers at points only, so a few lie on each line, and one if there are many lines."""
    each = int(np.clip(1500 // looks.near.sum(), 1, 5))
    # no simple fractions, so that points of lines that cross do not coincide
    along = 0.447 + 0.1618 * (np.arange(each) - (each - 1) / 2)
    query, key = looks.query[chosen], looks.key[chosen]
    said = [
        f"{head.name}<br>{labels.escape(view.sentence(int(q), int(k)))}: {weight:.4f}"
        for q, k, weight in zip(query, key, looks.weight[chosen], strict=True)
    ]
    places = [["query", int(q), int(k), head.layer, head.head] for q, k in zip(query, key, strict=True)]
    return {
        "x": np.tile(along, len(query)).astype(np.float32),
        "y": (head.lift + query[:, None] + (key - query)[:, None] * along).ravel().astype(np.float32),
        "text": [text for text in said for _ in range(each)],
        "customdata": [place for place in places for _ in range(each)],
        "marker": {"size": 9, "opacity": 0},
    }


def _ends(view: KindView, looks: Looks, side: str, called: Sequence[str]) -> dict[str, Any]:
    """A marker at each piece of one side, saying its three strongest lines."""
    axis = view.rows if side == "query" else view.columns
    mine, others = (looks.query, looks.key) if side == "query" else (looks.key, looks.query)
    other_axis = view.columns if side == "query" else view.rows
    verbs = ("takes from", "gives to") if view.quantity == "norms" else ("looks at", "is looked at by")
    what = verbs[SIDES.index(side)]
    texts = []
    for position, label in enumerate(axis.labels):
        own = np.flatnonzero(mine == position)
        strongest = own[np.argsort(-looks.weight[own], kind="stable")][:3]
        start = f"{position + 1}. '{labels.escape(labels.visible(label))}' {what}"
        found = [
            f"'{labels.escape(labels.visible(other_axis.labels[others[i]]))}' {looks.weight[i]:.2f}, "
            f"{called[looks.head[i]]}"
            for i in strongest
        ]
        texts.append("<br>".join([start, *found]) if found else f"{start} nothing that is drawn")
    return {
        "x": np.full(len(texts), 0.0 if side == "query" else 1.0, dtype=np.float32),
        "y": np.arange(len(texts)),
        "text": texts,
        "customdata": [[side, position] for position in range(len(texts))],
        "marker": {"size": 16, "opacity": 0},
    }


def _lay_out(
    figure: go.Figure, view: KindView, colours: Palette, focus: int | None, side: str, count_heads: int
) -> None:
    longest = max(len(view.rows.labels), len(view.columns.labels))
    cell = 22 if longest <= 40 else 14
    legend = 0 if count_heads == 1 else 24 + 20 * min((count_heads - 1) // 4, 3)
    figure.update_layout(
        **{**theme.base_layout(colours), "showlegend": count_heads > 1},
        height=10 + legend + longest * cell + 40,
        margin={"l": _side(view.rows, cell, longest), "r": _side(view.columns, cell, longest)}
        | {"t": 10 + legend, "b": 40},
        hovermode="closest",
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1,
            "yanchor": "bottom",
            "entrywidth": 130,
            "maxheight": max(legend, 24),
            "font": {"size": 12, "color": colours.text},
            "bgcolor": colours.background,
            "itemdoubleclick": "toggleothers",
        },
    )
    figure.update_xaxes(visible=False, fixedrange=True, range=[-0.01, 1.01])
    for name, axis in (("query", view.rows), ("key", view.columns)):
        title = _title(axis, longest * cell)
        chosen = [focus] if focus is not None and side == name else []
        style = {
            **piece_axis(title, colours, small=cell < 18),
            "tickvals": list(range(len(axis.labels))),
            "ticktext": marked(labels.tick_text(axis), chosen),
            "range": [longest - 0.5, -0.5],
        }
        figure.update_layout(
            {"yaxis": style} if name == "query" else {"yaxis2": {**style, "overlaying": "y", "side": "right"}}
        )


def _title(axis: Axis, height: int) -> str:
    """The title of an axis so high in pixels, in two lines if one is too long for it."""
    title = labels.escape(axis.title)
    return title.replace(", ", ",<br>", 1) if height < 7 * len(title) else title


def _side(axis: Axis, cell: int, longest: int) -> int:
    """Pixels beside the lines for the longest label of an axis, a gap, and the title along it."""
    letters = max((_letters(labels.visible(label)) for label in axis.labels), default=1)
    lines_of_title = 1 + _title(axis, longest * cell).count("<br>")
    return (
        min(max(math.ceil(LETTER * letters * (0.75 if cell < 18 else 1.0)), 40), MOST_LABEL) + 22 + 20 * lines_of_title
    )


def _letters(text: str) -> int:
    """How many monospace letters wide a text is: letters of Chinese, Japanese and Korean, and emoji, take two."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def _say(figure: go.Figure, looks: Looks, threshold: float, quantity: str, colours: Palette) -> None:
    """Say below the picture when lines are left out, or when there is none."""
    drawn = len(looks.weight)
    figure.update_layout(meta={"lines": drawn, "left_out": looks.left_out})
    text = ""
    if not drawn:
        text = f"No {quantity} reaches {threshold:g}. Lower the threshold to see lines."
    elif looks.left_out:
        text = f"The {drawn} strongest of {drawn + looks.left_out} lines are drawn. Raise the threshold to see fewer."
    if text:
        place = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0, "yanchor": "top", "yshift": -8}
        figure.add_annotation(**place, text=text, showarrow=False, font={"size": 13, "color": colours.muted})
