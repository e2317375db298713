"""The large map: one head of one layer, every piece named on both axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.analysis.maps import KindView
from transformer.plots import labels, theme
from transformer.plots.theme import Palette

CELLS_WITH_NUMBERS = 400
"""Maps of more cells than this show their weights on hover only."""
UPRIGHT_FROM = 24
"""Labels of more columns than this stand upright, and need less room."""
CELLS_WITH_SENTENCES = 4096
"""Maps of more cells than this name both pieces on hover without the whole sentence, which would be megabytes."""


def attention_map(view: KindView, layer: int, head: int, colours: Palette) -> go.Figure:
    """Draw one attention map: rows are queries, columns are keys, colour and number are the weight.

    Axes are integer axes with the pieces as tick labels, so equal pieces keep their own rows. A cell that the mask
    forbids is left out and shows the "masked" shade; should a forbidden cell hold weight, it is drawn.

    Args:
        view: the maps of one kind.
        layer: index from 0.
        head: index from 0.
        colours: the theme's palette.
    """
    shown = masked_weights(view, layer, head)
    rows, columns = shown.shape
    cell = cell_height(rows)
    left, top = _label_space(view.rows.labels), _label_space(view.columns.labels)
    short = f"{'' if view.kind == 'encoder' else 'writing '}'%{{y}}' → looks at '%{{x}}'"
    trace = go.Heatmap(
        z=shown,
        zmin=0.0,
        zmax=1.0,
        colorscale=theme.attention_scale(view.kind, colours),
        customdata=sentences(view) if shown.size <= CELLS_WITH_SENTENCES else None,
        hovertemplate=f"{'%{customdata}' if shown.size <= CELLS_WITH_SENTENCES else short}: %{{z:.4f}}<extra></extra>",
        hoverongaps=False,
        text=numbers(shown) if shown.size <= CELLS_WITH_NUMBERS else None,
        texttemplate="%{text}" if shown.size <= CELLS_WITH_NUMBERS else None,
        xgap=1 if cell >= 18 else 0,
        ygap=1 if cell >= 18 else 0,
        colorbar={
            "title": {"text": "weight", "side": "top", "font": {"size": 12, "color": colours.muted}},
            "orientation": "h",
            "tickvals": [0, 0.5, 1],
            "thickness": 8,
            "len": 160,
            "lenmode": "pixels",
            "x": 1,
            "xanchor": "right",
            "y": 0,
            "yanchor": "top",
            "ypad": 12,
            "outlinewidth": 0,
            "tickfont": {"size": 11, "color": colours.muted},
        },
    )
    figure = go.Figure(trace)
    if shown.size <= CELLS_WITH_NUMBERS:
        # A trace has one colour of text, and Plotly's own choice is too pale; cells that need another are drawn again.
        strong = against_the_rest(shown, view.kind, colours)
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
    figure.update_layout(
        **theme.base_layout(colours),
        height=top + rows * cell + 30 + 62,
        margin={"l": left + 30, "r": 10 + _overhang(view.columns.labels[-1]), "t": top + 30, "b": 62},
    )
    if view.allowed is not None:
        figure.update_layout(plot_bgcolor=colours.masked)
    tick = {"family": theme.MONO, "size": 12 if cell >= 18 else 9, "color": colours.text}
    common: dict[str, Any] = {"showgrid": False, "zeroline": False, "fixedrange": True, "ticks": "", "tickfont": tick}
    figure.update_xaxes(
        **common,
        title={"text": labels.escape(view.columns.title), "font": {"size": 13, "color": colours.muted}, "standoff": 8},
        side="top",
        tickvals=list(range(columns)),
        ticktext=labels.tick_text(view.columns),
        tickangle=-90 if columns > UPRIGHT_FROM else -50,
        ticklabeloverflow="allow",
        range=[-0.5, columns - 0.5],
    )
    title = labels.escape(view.rows.title)
    if rows * cell < 7 * len(title):  # it would be cut off beside a low map
        title = title.replace(", ", ",<br>", 1)
    figure.update_yaxes(
        **common,
        title={"text": title, "font": {"size": 13, "color": colours.muted}, "standoff": 8},
        tickvals=list(range(rows)),
        ticktext=labels.tick_text(view.rows),
        range=[rows - 0.5, -0.5],
    )
    return figure


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


def cell_height(rows: int) -> int:
    """Height of one row in pixels: roomy for a short sentence, legible for a long one."""
    return int(np.clip(480 / max(rows, 1), 15, 36))


def least_width(view: KindView) -> int:
    """The width in pixels under which the columns' labels would run into each other."""
    columns = len(view.columns.labels)
    return 110 + (15 if columns <= UPRIGHT_FROM else 12) * columns


def _overhang(label: str) -> int:
    """Pixels by which a slanted last label reaches past its column."""
    return min(5 * len(label), 90)


def _label_space(texts: tuple[str, ...]) -> int:
    longest = max((len(text) for text in texts), default=1)
    return int(np.clip(8 * longest, 40, 150))
