"""The units of the feed-forward networks: which act where, and how many.

Letters: T positions, F units, N units that are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.plots import theme
from transformer.plots.heatmap import against_the_rest, cell_height, label_space, largest, piece_axis
from transformer.plots.labels import escape, percent, visible
from transformer.plots.theme import Palette

CELLS_WITH_NAMES = 40_000
"""Maps of more cells than this name a position on hover only where the axis does."""
CELLS_WITH_UNITS = 250_000
"""Maps of more cells than this do not name the unit on hover, which would be megabytes."""
NAMED = 40
"""Positions up to which each is named beside its row."""
CELLS_WITH_NUMBERS = 420
"""Maps of more cells than this show their numbers on hover only."""


def activation_map(
    hidden: NDArray[np.floating],
    order: Sequence[int] | NDArray[np.integer],
    labels: Sequence[str],
    kind: str,
    colours: Palette,
    chosen: int | None = None,
) -> go.Figure:
    """Draw every unit of a network at every position: rows are positions, columns are units, colour is the activation.

    What is not above zero is left empty, a negative value of a GELU too.

    Args:
        hidden: [T, F]
        order: the F units from left to right.
        labels: the T pieces.
        kind: ``encoder`` or ``decoder``, for the colour.
        colours: the theme's palette.
        chosen: a position to outline.
    """
    units = np.asarray(order)
    shown = np.maximum(np.asarray(hidden, dtype=np.float32)[:, units], 0.0)
    named = shown.size <= CELLS_WITH_UNITS
    full = largest(shown)
    scale = theme.attention_scale(kind, colours)
    figure = go.Figure(
        go.Heatmap(
            # a small activation must be told from none: the second colour begins well off the background
            z=shown if named else np.rint(shown * (255 / full)).astype(np.uint8),
            zmin=0.0,
            zmax=full if named else 255,
            colorscale=[[0.0, scale[0][1]], [1e-6, _shade(kind, colours, 0.35)], [1.0, scale[1][1]]],
            showscale=False,
            customdata=np.broadcast_to(units, shown.shape).astype(np.int16) if named else None,
            hovertext=_names(labels, shown.shape[1]) if shown.size <= CELLS_WITH_NAMES else None,
            hovertemplate=f"{'%{hovertext}' if shown.size <= CELLS_WITH_NAMES else '%{y}'}: "
            "unit %{customdata}, activation %{z:.3f}<extra></extra>"
            if named
            else "%{y}<extra></extra>",
        )
    )
    cell = _height(len(labels))
    figure.update_layout(
        **theme.base_layout(colours),
        height=34 + cell * len(labels) + 10,
        margin={"l": label_space(tuple(labels)) + 10, "r": 12, "t": 34, "b": 10},
        shapes=[_box(-0.5, shown.shape[1] - 0.5, chosen - 0.5, chosen + 0.5, colours)] if chosen is not None else [],
    )
    title = f"{shown.shape[1]:,} units, those that act at most positions first"
    figure.update_xaxes(**piece_axis(title, colours, False), side="top", showticklabels=False)
    figure.update_yaxes(**_pieces(labels, colours, cell < 18, chosen), range=[len(labels) - 0.5, -0.5])
    return figure


def unit_map(
    values: NDArray[np.floating],
    units: Sequence[int],
    labels: Sequence[str],
    chosen: int,
    kind: str,
    colours: Palette,
) -> go.Figure:
    """Draw some units over the sentence: rows are positions, columns are units, colour and number are the activation.

    Args:
        values: [T, N]
        units: the N numbers of the units.
        labels: the T pieces.
        chosen: the position whose units they are; its row is outlined.
        kind: ``encoder`` or ``decoder``, for the colour.
        colours: the theme's palette.
    """
    shown = np.maximum(np.asarray(values, dtype=np.float32), 0.0)
    full = largest(shown)
    numbers = shown.size <= CELLS_WITH_NUMBERS
    text = np.array([[f"{value:.1f}" if value >= 0.05 else "" for value in row] for row in shown], dtype=object)
    strong = against_the_rest((shown / full).astype(np.float32), kind, colours)
    trace = go.Heatmap(
        z=shown,
        zmin=0.0,
        zmax=full,
        colorscale=theme.attention_scale(kind, colours),
        showscale=False,
        xgap=1,
        ygap=1,
        text=np.where(strong, "", text) if numbers else None,
        texttemplate="%{text}" if numbers else None,
        textfont={"color": theme.readable_on(colours.background), "size": 11},
        customdata=np.broadcast_to(np.array(units, dtype=np.int32), shown.shape),
        hovertext=_names(labels, shown.shape[1]),
        hovertemplate="%{hovertext}: unit %{customdata}, activation %{z:.4f}<extra></extra>",
    )
    figure = go.Figure(trace)
    if numbers and strong.any():  # a trace has one colour of text
        again = go.Heatmap(trace)
        again.update(
            z=np.where(strong, shown, np.nan),
            text=np.where(strong, text, ""),
            textfont={"color": theme.readable_on(theme.kind_colour(kind, colours)), "size": 11},
            customdata=None,
            hovertext=None,
            hoverinfo="skip",
            hovertemplate=None,
        )
        figure.add_trace(again)
    cell = _height(len(labels))
    figure.update_layout(
        **theme.base_layout(colours),
        height=58 + cell * len(labels) + 10,
        margin={"l": label_space(tuple(labels)) + 10, "r": 12, "t": 58, "b": 10},
        shapes=[_box(-0.5, len(units) - 0.5, chosen - 0.5, chosen + 0.5, colours)],
    )
    figure.update_xaxes(
        **piece_axis("number of the unit", colours, False),
        side="top",
        tickvals=list(range(len(units))),
        ticktext=[str(number) for number in units],
        range=[-0.5, len(units) - 0.5],
    )
    figure.update_yaxes(**_pieces(labels, colours, cell < 18, chosen), range=[len(labels) - 0.5, -0.5])
    return figure


def share_bars(names: Sequence[str], shares: Sequence[float], kinds: Sequence[str], colours: Palette) -> go.Figure:
    """Draw the share of active units of several layers as bars from 0 to 100 %.

    Args:
        names: what each layer is called.
        shares: from 0 to 1.
        kinds: ``encoder`` or ``decoder`` for each, for the colour.
        colours: the theme's palette.
    """
    rows = list(range(len(names)))
    figure = go.Figure(
        go.Bar(
            x=[100 * share for share in shares],
            y=rows,
            orientation="h",
            width=0.62,
            marker={"color": [theme.kind_colour(kind, colours) for kind in kinds]},
            text=[percent(share) for share in shares],
            textposition="outside",
            textfont={"color": colours.text, "size": 12},
            cliponaxis=False,
            hovertemplate="%{y}: %{x:.2f} %<extra></extra>",
        )
    )
    figure.update_layout(
        **theme.base_layout(colours),
        height=40 + 26 * len(names) + 8,
        margin={"l": label_space(tuple(names)) + 10, "r": 60, "t": 40, "b": 8},
    )
    figure.update_xaxes(
        range=[0, 100],
        side="top",
        tickvals=[0, 25, 50, 75, 100],
        ticktext=["0", "25", "50", "75", "100 %"],
        tickfont={"size": 11, "color": colours.muted},
        gridcolor=colours.line,
        zeroline=False,
        fixedrange=True,
    )
    figure.update_yaxes(
        tickvals=rows,
        ticktext=[escape(name) for name in names],
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
        fixedrange=True,
    )
    return figure


def _height(positions: int) -> int:
    """Pixels of the row of one position; a long sentence is drawn low, or the next picture would be far below."""
    return min(cell_height(positions), 26) if positions <= NAMED else max(640 // positions, 3)


def _shade(kind: str, colours: Palette, share: float) -> str:
    return theme.mix(colours.background, theme.kind_colour(kind, colours), share)


def _box(x0: float, x1: float, y0: float, y1: float, colours: Palette) -> dict[str, Any]:
    """The outline of what is selected."""
    return {"type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "line": {"color": colours.text, "width": 2}}


def _pieces(labels: Sequence[str], colours: Palette, small: bool, chosen: int | None) -> dict[str, Any]:
    """An integer axis with a piece at each place; the chosen one in bold."""
    texts = [escape(visible(label)) for label in labels]
    every = 1 if len(texts) <= NAMED else -(-12 // _height(len(texts)))
    # of a long sentence, those that have room, and the chosen one in any case
    rows = range(0, len(texts), every)
    named = [place for place in rows if chosen is None or abs(place - chosen) >= every]
    named = sorted([*named, *([] if chosen is None else [chosen])])
    return {
        **piece_axis("", colours, small),
        "tickvals": named,
        "ticktext": [f"<b>{texts[place]}</b>" if place == chosen else texts[place] for place in named],
    }


def _names(labels: Sequence[str], columns: int) -> NDArray[np.str_]:
    """What hovering calls the position of each cell, [T, columns]: its place from 1, and its piece."""
    names = np.array([f"{place}. {escape(visible(label))}" for place, label in enumerate(labels, start=1)])
    return np.repeat(names[:, None], columns, axis=1)
