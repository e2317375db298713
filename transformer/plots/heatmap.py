"""The large map: one head of one layer, every piece named on both axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.analysis.maps import KindView
from transformer.errors import InputError, problem
from transformer.plots import labels, theme
from transformer.plots.theme import Palette

CELLS_WITH_NUMBERS = 400
"""Maps of more cells than this show their weights on hover only."""
UPRIGHT_FROM = 24
"""Labels of more columns than this stand upright, and need less room."""
CELLS_WITH_SENTENCES = 4096
"""Maps of more cells than this name both pieces on hover without the whole sentence, which would be megabytes."""
REMOVED_WIDTH = 60
"""Pixels at the right for what lay on hidden keys."""


def attention_map(
    view: KindView,
    layer: int,
    head: int,
    colours: Palette,
    *,
    stretched: bool = False,
    rows: Sequence[int] = (),
    columns: Sequence[int] = (),
) -> go.Figure:
    """Draw one attention map: rows are queries, columns are keys, colour and number are the weight.

    Axes are integer axes with the pieces as tick labels, so equal pieces keep their own rows. A cell that the mask
    forbids is left out and shows the "masked" shade; should a forbidden cell hold weight, it is drawn. Keys of a
    right-to-left script run from right to left. If keys were hidden, the share of each row that lay on them stands
    at the right.

    Args:
        view: the maps of one kind.
        layer: index from 0.
        head: index from 0.
        colours: the theme's palette.
        stretched: the full colour is the largest weight of this map; otherwise it is 1.
        rows: queries to outline, from 0.
        columns: keys to outline, from 0.

    Raises:
        InputError: a row or column that the map does not have.
    """
    shown = masked_weights(view, layer, head)
    count_rows, count_columns = shown.shape
    rows, columns = positions("rows", rows, count_rows), positions("columns", columns, count_columns)
    full = largest(shown) if stretched else 1.0
    cell = cell_height(count_rows)
    verb = "takes from" if view.quantity == "norms" else "looks at"
    short = f"{'' if view.kind == 'encoder' else 'writing '}'%{{y}}' → {verb} '%{{x}}'"
    trace = go.Heatmap(
        z=shown,
        zmin=0.0,
        zmax=full,
        colorscale=theme.attention_scale(view.kind, colours),
        customdata=sentences(view) if shown.size <= CELLS_WITH_SENTENCES else None,
        hovertemplate=f"{'%{customdata}' if shown.size <= CELLS_WITH_SENTENCES else short}: %{{z:.4f}}<extra></extra>",
        hoverongaps=False,
        text=numbers(shown) if shown.size <= CELLS_WITH_NUMBERS else None,
        texttemplate="%{text}" if shown.size <= CELLS_WITH_NUMBERS else None,
        xgap=1 if cell >= 18 else 0,
        ygap=1 if cell >= 18 else 0,
        colorbar=_colour_bar(quantity_name(view), full, stretched, colours),
    )
    figure = go.Figure(trace)
    if shown.size <= CELLS_WITH_NUMBERS:
        # A trace has one colour of text, and Plotly's own choice is too pale; cells that need another are drawn again.
        strong = against_the_rest(shown / full, view.kind, colours)
        usual = theme.readable_on(colours.background)
        text = numbers(shown)
        figure.update_traces(text=np.where(strong, "", text), textfont={"color": usual})
        again = go.Heatmap(trace)
        again.update(
            z=np.where(strong, shown, np.nan),
            text=np.where(strong, text, ""),
            customdata=None,
            hovertemplate=None,
            hoverinfo="skip",
            showscale=False,
            textfont={"color": theme.readable_on(theme.kind_colour(view.kind, colours))},
        )
        if strong.any():
            figure.add_trace(again)
    margin = margins(view)
    figure.update_layout(**theme.base_layout(colours), height=margin["t"] + count_rows * cell + 62, margin=margin)
    if view.allowed is not None:
        figure.update_layout(plot_bgcolor=colours.masked)
    small = cell < 18
    figure.update_xaxes(**key_axis(view, colours, columns, small), side="top")
    title = labels.escape(view.rows.title)
    if count_rows * cell < 7 * len(title):  # it would be cut off beside a low map
        title = title.replace(", ", ",<br>", 1)
    figure.update_yaxes(
        **piece_axis(title, colours, small),
        tickvals=list(range(count_rows)),
        ticktext=marked(labels.tick_text(view.rows), rows),
        range=[count_rows - 0.5, -0.5],
    )
    _outline(figure, shown.shape, rows, columns, colours)
    if view.removed is not None:
        _removed_axis(figure, view.removed[layer, head], colours, small)
    return figure


def positions(name: str, values: Sequence[int], count: int) -> tuple[int, ...]:
    """Positions along an axis of ``count`` pieces, each once, in order.

    Raises:
        InputError: a position that the axis does not have.
    """
    wrong = [value for value in values if not 0 <= value < count]
    if wrong:
        raise InputError(problem(name, f"must be positions from 0 to {count - 1}", wrong[0], "choose one of the map's"))
    return tuple(sorted(set(values)))


def quantity_name(view: KindView) -> str:
    """What the numbers of a view are called: "weight" or "share of weight × norm"."""
    return "share of weight × norm" if view.quantity == "norms" else "weight"


def largest(weights: NDArray[np.float32]) -> float:
    """The largest of the numbers, leaving out NaN; 1 if none is above zero, so that a scale can end there."""
    return float(np.nan_to_num(weights).max(initial=0.0)) or 1.0


def marked(texts: list[str], chosen: Sequence[int]) -> list[str]:
    """Tick labels with the chosen ones in bold."""
    return [f"<b>{text}</b>" if index in chosen else text for index, text in enumerate(texts)]


def masked_weights(view: KindView, layer: int, head: int) -> NDArray[np.float32]:
    """The weights [T, S] of one head with NaN where the mask forbids a look and none was taken."""
    weights = np.array(view.weights[layer, head], dtype=np.float32)
    if view.allowed is not None:
        weights[~view.allowed & (weights == 0.0)] = np.nan
    return weights


def numbers(weights: NDArray[np.float32]) -> NDArray[np.str_]:
    """The weights as they stand in the cells: two decimals (".62", "1.0"), nothing for what rounds to zero."""
    return np.array([[labels.cell_weight(value) if value >= 0.005 else "" for value in row] for row in weights])


def against_the_rest(weights: NDArray[np.float32], kind: str, colours: Palette) -> NDArray[np.bool_]:
    """Cells so strong that their number needs another colour than those near the background."""
    full, usual = theme.kind_colour(kind, colours), theme.readable_on(colours.background)
    steps = np.linspace(0.0, 1.0, 101)
    other = np.array([theme.readable_on(theme.mix(colours.background, full, step)) != usual for step in steps])
    chosen: NDArray[np.bool_] = other[np.rint(np.clip(np.nan_to_num(weights), 0.0, 1.0) * 100).astype(int)]
    return chosen


def sentences(view: KindView) -> NDArray[np.str_]:
    """What each cell [T, S] says when it is pointed at, escaped, without the weight."""
    count_rows, count_columns = view.weights.shape[2:]
    words = [
        [labels.escape(view.sentence(row, column)) for column in range(count_columns)] for row in range(count_rows)
    ]
    return np.array(words)


def piece_axis(title: str, colours: Palette, small: bool) -> dict[str, Any]:
    """What every axis with pieces along it shares: no lines, monospace labels, a plain title."""
    return {
        "title": {"text": title, "font": {"size": 13, "color": colours.muted}, "standoff": 8},
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "ticks": "",
        "tickfont": {"family": theme.MONO, "size": 9 if small else 12, "color": colours.text},
    }


def key_axis(view: KindView, colours: Palette, chosen: Sequence[int], small: bool) -> dict[str, Any]:
    """The axis of the keys: one label a column, from right to left where the script runs so."""
    count = len(view.columns.labels)
    return {
        **piece_axis(labels.escape(view.columns.title), colours, small),
        "tickvals": list(range(count)),
        "ticktext": marked(labels.tick_text(view.columns), chosen),
        "tickangle": -90 if count > UPRIGHT_FROM else -50,
        "ticklabeloverflow": "allow",
        "range": [count - 0.5, -0.5] if view.columns.right_to_left else [-0.5, count - 0.5],
    }


def margins(view: KindView) -> dict[str, int]:
    """Pixels around the cells; the same for the map and for the bars under it."""
    last = view.columns.labels[0 if view.columns.right_to_left else -1]
    right = max(_overhang(last), 0 if view.removed is None else REMOVED_WIDTH)
    left, top = label_space(view.rows.labels), label_space(view.columns.labels)
    return {"l": left + 30, "r": 10 + right, "t": top + 30, "b": 62}


def cell_height(rows: int) -> int:
    """Height of one row in pixels: roomy for a short sentence, legible for a long one."""
    return int(np.clip(480 / max(rows, 1), 15 if rows <= 64 else 12, 36))


def least_width(view: KindView) -> int:
    """The width in pixels under which the columns' labels would run into each other."""
    columns = len(view.columns.labels)
    removed = 0 if view.removed is None else REMOVED_WIDTH
    return 110 + removed + (15 if columns <= UPRIGHT_FROM else 12) * columns


def _colour_bar(name: str, full: float, stretched: bool, colours: Palette) -> dict[str, Any]:
    small = {"size": 12, "color": colours.muted}
    return {
        "title": {"text": f"{name}, stretched" if stretched else name, "side": "top", "font": small},
        "orientation": "h",
        "tickvals": [0, full / 2, full],
        "ticktext": ["0", f"{full / 2:.2g}", f"{full:.2g}"],
        "thickness": 8,
        "len": 160,
        "lenmode": "pixels",
        "x": 1,
        "xanchor": "right",
        "y": 0,
        "yanchor": "top",
        "ypad": 12,
        "outlinewidth": 0,
        "tickfont": {**small, "size": 11},
    }


def _outline(
    figure: go.Figure, shape: tuple[int, ...], rows: Sequence[int], columns: Sequence[int], colours: Palette
) -> None:
    """Outline whole rows and columns as the app outlines what is selected."""
    box = {"type": "rect", "line": {"color": colours.text, "width": 2}}
    across, down = {"x0": -0.5, "x1": shape[1] - 0.5}, {"y0": -0.5, "y1": shape[0] - 0.5}
    boxes = [{**box, **across, "y0": row - 0.5, "y1": row + 0.5} for row in rows]
    boxes += [{**box, **down, "x0": column - 0.5, "x1": column + 0.5} for column in columns]
    figure.update_layout(shapes=boxes)


def _removed_axis(figure: go.Figure, removed: NDArray[np.float32], colours: Palette, small: bool) -> None:
    """Name at the right of each row the share that lay on hidden keys."""
    style = piece_axis("was on hidden keys", colours, small)
    style["tickfont"] = {**style["tickfont"], "color": colours.muted}
    figure.update_layout(
        yaxis2={
            **style,
            "overlaying": "y",
            "side": "right",
            "tickvals": list(range(len(removed))),
            "ticktext": [labels.weight(float(share)) for share in removed],
            "range": [len(removed) - 0.5, -0.5],
        }
    )
    # an axis without a trace is not drawn
    figure.add_trace(go.Scatter(x=[None], y=[None], yaxis="y2", mode="markers", hoverinfo="skip"))


def _overhang(label: str) -> int:
    """Pixels by which a slanted last label reaches past its column."""
    return min(5 * len(label), 90)


def label_space(texts: tuple[str, ...]) -> int:
    longest = max((len(text) for text in texts), default=1)
    return int(np.clip(8 * longest, 40, 300))
