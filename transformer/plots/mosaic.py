"""All heads at a glance: small maps tiled into one heatmap of bytes, each tile answering to a click."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.analysis.maps import KindView
from transformer.plots import theme
from transformer.plots.theme import Palette

TOP = 250
"""The byte of weight 1."""
GAP = 255
"""The byte of the space between tiles."""


def mosaic(
    view: KindView,
    layers: Sequence[int],
    colours: Palette,
    *,
    across: int | None = None,
    selected: tuple[int, int] | None = None,
    tile: int = 120,
) -> go.Figure:
    """Draw every head of the given layers as a small map, in reading order.

    A transparent marker over each tile carries ``customdata`` [layer, head], both counted from 1: a click returns it.

    Args:
        view: the maps of one kind.
        layers: indices from 0.
        colours: the theme's palette.
        across: tiles in a row; by default all heads of a layer, at most four.
        selected: (layer, head) from 0 to outline.
        tile: height of a tile in pixels.
    """
    places = [(layer, head) for layer in layers for head in range(view.heads)]
    across = min(across or min(view.heads, 4), len(places))
    down = math.ceil(len(places) / across)
    picture, gap = tile_bytes(np.stack([view.weights[layer, head] for layer, head in places]), across)
    rows, columns = view.weights.shape[2:]
    figure = go.Figure(
        go.Heatmap(
            z=picture,
            zmin=0,
            zmax=GAP,
            colorscale=theme.tile_scale(view.kind, colours, TOP, GAP),
            showscale=False,
            hoverinfo="skip",
        )
    )
    several = len(set(layers)) > 1
    for index, (layer, head) in enumerate(places):
        left = (index % across) * (columns + gap) + gap - 0.5
        top = (index // across) * (rows + gap) + gap - 0.5
        chosen = (layer, head) == selected
        figure.add_shape(
            type="rect",
            x0=left,
            x1=left + columns,
            y0=top,
            y1=top + rows,
            line={"color": colours.text if chosen else colours.line, "width": 3 if chosen else 1},
        )
        name = f"layer {layer + 1} · head {head + 1}" if several else f"head {head + 1}"
        figure.add_annotation(
            x=left,
            y=top,
            text=f"<b>{name}</b>" if chosen else name,
            showarrow=False,
            xanchor="left",
            yanchor="bottom",
            font={"size": 12, "color": colours.text if chosen else colours.muted},
            borderpad=1,
        )
    figure.add_trace(
        go.Scatter(
            x=[(i % across) * (columns + gap) + gap - 0.5 + columns / 2 for i in range(len(places))],
            y=[(i // across) * (rows + gap) + gap - 0.5 + rows / 2 for i in range(len(places))],
            mode="markers",
            marker={"symbol": "square", "size": max(24, tile - 50), "opacity": 0},
            selected={"marker": {"opacity": 0}},
            unselected={"marker": {"opacity": 0}},
            customdata=[[layer + 1, head + 1] for layer, head in places],
            hovertemplate="layer %{customdata[0]} · head %{customdata[1]}<extra></extra>",
        )
    )
    height, width = picture.shape
    figure.update_layout(
        **theme.base_layout(colours),
        height=down * (tile + 24) + 24,
        margin={"l": 4, "r": 4, "t": 18, "b": 4},
        hovermode="closest",
        hoverdistance=-1,
    )
    hidden = {"visible": False, "fixedrange": True}
    figure.update_xaxes(**hidden, range=[-0.5, width - 0.5])
    figure.update_yaxes(**hidden, range=[height - 0.5, -0.5])
    return figure


def tile_bytes(maps: NDArray[np.float32], across: int) -> tuple[NDArray[np.uint8], int]:
    """Lay maps [N, T, S] out as one picture of bytes, ``across`` in a row.

    Returns:
        the picture, and the width of the gap around each tile in cells. Weight 1 is ``TOP``, a gap is ``GAP``.
    """
    count, rows, columns = maps.shape
    gap = max(1, math.ceil(max(rows, columns) / 6))
    down = math.ceil(count / across)
    picture = np.full((down * (rows + gap) + gap, across * (columns + gap) + gap), GAP, dtype=np.uint8)
    for index, weights in enumerate(maps):
        top = (index // across) * (rows + gap) + gap
        left = (index % across) * (columns + gap) + gap
        scaled = np.rint(np.clip(np.nan_to_num(weights), 0.0, 1.0) * TOP)
        picture[top : top + rows, left : left + columns] = scaled.astype(np.uint8)
    return picture, gap
