"""All heads at a glance: small maps tiled into one heatmap of bytes, each tile answering to a click."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.analysis.maps import KindView
from transformer.plots import theme
from transformer.plots.theme import Palette

TOP = 248
"""The byte of weight 1."""
GAP = 250
"""The byte of the space between tiles. Not 255: in base64 that is "////", and Plotly writes each "/" with six signs."""
MOST_BYTES = 1_350_000
"""Bytes that the picture may take on its way to the browser, written in base64; larger ones are shrunk."""


@dataclass(frozen=True)
class Tiling:
    """How maps [T, S] are laid out as one picture. All lengths are in pixels of the picture."""

    count: int
    across: int
    rows: int
    """Height of a tile."""
    columns: int
    """Width of a tile."""
    block: int
    """Each pixel is the largest of ``block`` x ``block`` cells; 1 where every cell has its own pixel."""

    @property
    def above(self) -> int:
        """Space above each tile, where its title stands."""
        return max(1, math.ceil(self.rows / 6))

    @property
    def beside(self) -> int:
        """Space to the left of each tile, and to the right of the last."""
        return max(1, math.ceil(self.columns / 16))

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the whole picture."""
        down = math.ceil(self.count / self.across)
        height = down * (self.rows + self.above) + math.ceil(self.rows / 32)
        return height, self.across * (self.columns + self.beside) + self.beside

    def corner(self, index: int) -> tuple[int, int]:
        """The topmost row and leftmost column of a tile; tiles are in reading order."""
        down, right = divmod(index, self.across)
        return down * (self.rows + self.above) + self.above, right * (self.columns + self.beside) + self.beside


def tiling(count: int, rows: int, columns: int, across: int) -> Tiling:
    """Lay ``count`` maps of ``rows`` x ``columns`` cells out with the smallest blocks that keep to ``MOST_BYTES``."""
    block = 0
    while True:
        block += 1
        found = Tiling(count, across, math.ceil(rows / block), math.ceil(columns / block), block)
        if math.prod(found.shape) * 4 / 3 <= MOST_BYTES or block >= max(rows, columns):
            return found


def block_side(view: KindView, layers: Sequence[int], across: int | None = None) -> int:
    """How many cells each way one pixel of ``mosaic`` stands for: 1 is exact, 2 is the largest of 2 x 2 cells."""
    count = len(layers) * view.heads
    rows, columns = view.weights.shape[2:]
    return tiling(count, rows, columns, _across(view, count, across)).block


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
    Too many cells for a quick page are shrunk: each pixel then is the largest of a block of cells, so that a strong
    cell stays visible. ``layout.meta["block"]`` and ``block_side`` tell the side of a block. Keys of a right-to-left
    script run from right to left within each tile.

    Args:
        view: the maps of one kind.
        layers: indices from 0.
        colours: the theme's palette.
        across: tiles in a row; by default all heads of a layer, at most four.
        selected: (layer, head) from 0 to outline.
        tile: height of a tile in pixels.
    """
    places = [(layer, head) for layer in layers for head in range(view.heads)]
    across = _across(view, len(places), across)
    rows, columns = view.weights.shape[2:]
    plan = tiling(len(places), rows, columns, across)
    maps = np.stack([view.weights[layer, head] for layer, head in places])
    picture = tile_bytes(maps[..., ::-1] if view.columns.right_to_left else maps, plan)
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
    frames, titles = [], []  # handed over together: one by one, Plotly copies all earlier ones each time
    for index, (layer, head) in enumerate(places):
        top, left = plan.corner(index)
        chosen = (layer, head) == selected
        line = {"color": colours.text if chosen else colours.line, "width": 3 if chosen else 1}
        start = {"x0": left - 0.5, "y0": top - 0.5}
        end = {"x1": left - 0.5 + plan.columns, "y1": top - 0.5 + plan.rows}
        frames.append({"type": "rect", **start, **end, "line": line})
        name = f"layer {layer + 1} · head {head + 1}" if several else f"head {head + 1}"
        titles.append(
            {
                "x": left - 0.5,
                "y": top - 0.5,
                "text": f"<b>{name}</b>" if chosen else name,
                "showarrow": False,
                "xanchor": "left",
                "yanchor": "bottom",
                "font": {"size": 12 if across <= 8 else 10, "color": colours.text if chosen else colours.muted},
                "borderpad": 1,
            }
        )
    corners = np.array([plan.corner(index) for index in range(len(places))])
    figure.add_trace(
        go.Scatter(
            x=corners[:, 1] - 0.5 + plan.columns / 2,
            y=corners[:, 0] - 0.5 + plan.rows / 2,
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
        shapes=frames,
        annotations=titles,
        meta={"block": plan.block},
        height=math.ceil(len(places) / across) * (tile + 24) + 24,
        margin={"l": 4, "r": 4, "t": 18, "b": 4},
        hovermode="closest",
        hoverdistance=-1,
    )
    hidden = {"visible": False, "fixedrange": True}
    figure.update_xaxes(**hidden, range=[-0.5, width - 0.5])
    figure.update_yaxes(**hidden, range=[height - 0.5, -0.5])
    return figure


def tile_bytes(maps: NDArray[np.float32], plan: Tiling) -> NDArray[np.uint8]:
    """Maps [N, T, S] as one picture of bytes: weight 1 is ``TOP``, the space between tiles is ``GAP``."""
    picture = np.full(plan.shape, GAP, dtype=np.uint8)
    for index, weights in enumerate(maps):
        top, left = plan.corner(index)
        scaled = np.rint(np.clip(largest_of_blocks(np.nan_to_num(weights), plan.block), 0.0, 1.0) * TOP)
        picture[top : top + plan.rows, left : left + plan.columns] = scaled.astype(np.uint8)
    return picture


def largest_of_blocks(weights: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """The largest of each block of ``side`` x ``side`` cells of a map [T, S]; blocks at the edges may be smaller."""
    rows, columns = weights.shape
    padded = np.pad(weights, ((0, -rows % side), (0, -columns % side)), constant_values=-np.inf)
    blocks = padded.reshape(padded.shape[0] // side, side, padded.shape[1] // side, side)
    largest: NDArray[np.float32] = blocks.max(axis=(1, 3))
    return largest


def _across(view: KindView, count: int, across: int | None) -> int:
    return min(across or min(view.heads, 4), count)
