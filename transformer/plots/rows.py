"""Several rows of a map added up, as bars that stand under its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.analysis.maps import KindView
from transformer.errors import InputError, problem
from transformer.plots import labels, theme
from transformer.plots.heatmap import UPRIGHT_FROM, key_axis, largest, margins, piece_axis, positions, quantity_name
from transformer.plots.theme import Palette

HEIGHT = 180
"""Pixels of the longest bar and the space above it."""


def row_bars(view: KindView, layer: int, head: int, rows: Sequence[int], colours: Palette) -> go.Figure:
    """Bars over the keys: the attention of several queries added up; hover tells the mean as well.

    The keys stand where the columns of ``attention_map`` stand, so that the bars fit under the map. Keys that the mask
    hides from all these queries show the "masked" shade; hidden from some of them, they count as zero for those.

    Args:
        view: the maps of one kind.
        layer: index from 0.
        head: index from 0.
        rows: the queries, from 0; a row that is named twice counts once.
        colours: the theme's palette.

    Raises:
        InputError: no row, or one that the map does not have.
    """
    total = summed_rows(view, layer, head, rows)
    chosen = positions("rows", rows, view.weights.shape[2])
    queries = ", ".join(f"'{labels.escape(labels.visible(view.rows.labels[row]))}'" for row in chosen[:8])
    queries += f" and {len(chosen) - 8} more" if len(chosen) > 8 else ""
    name, several = quantity_name(view), len(chosen) > 1
    about = f"<br>over the queries {queries}" if several else f"<br>for the query {queries}"
    keys = [labels.escape(labels.visible(label)) for label in view.columns.labels]
    values = zip(keys, total, total / len(chosen), strict=True)
    figure = go.Figure(
        go.Bar(
            x=np.arange(len(total)),
            y=total,
            marker={"color": theme.kind_colour(view.kind, colours)},
            customdata=[
                f"'{key}': {f'sum {value:.4f}, mean {mean:.4f}' if several else f'{value:.4f}'}{about}"
                for key, value, mean in values
            ],
            hovertemplate="%{customdata}<extra></extra>",
            text=[labels.cell_weight(value) if value >= 0.005 else "" for value in total]
            if len(total) <= UPRIGHT_FROM
            else None,
            textposition="outside",
            textangle=0,
            cliponaxis=False,
            width=0.8,
        )
    )
    if view.allowed is not None:
        masked = np.flatnonzero(~view.allowed[list(chosen)].any(axis=0) & (total == 0.0))
        shade: dict[str, Any] = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
        shade |= {"fillcolor": colours.masked, "line": {"width": 0}}
        figure.update_layout(shapes=[{**shade, "x0": column - 0.5, "x1": column + 0.5} for column in masked])
    margin = margins(view)
    below = margin["t"]
    figure.update_layout(
        **theme.base_layout(colours), height=24 + HEIGHT + below, margin={**margin, "t": 24, "b": below}
    )
    small = len(total) > UPRIGHT_FROM
    figure.update_xaxes(**key_axis(view, colours, (), small), side="bottom")
    figure.update_yaxes(
        **piece_axis(f"{name},<br>sum of {len(chosen)} queries" if several else name, colours, small=False),
        range=[0.0, 1.15 * largest(total)],
        nticks=5,
    )
    return figure


def summed_rows(view: KindView, layer: int, head: int, rows: Sequence[int]) -> NDArray[np.float32]:
    """What several queries together give to each key: the sum of their rows, [S]; a row named twice counts once.

    Args:
        view: the maps of one kind.
        layer: index from 0.
        head: index from 0.
        rows: the queries, from 0.

    Raises:
        InputError: no row, or one that the map does not have.
    """
    chosen = positions("rows", rows, view.weights.shape[2])
    if not chosen:
        raise InputError(problem("rows", "must name at least one query", tuple(rows), "choose a row of the map"))
    total: NDArray[np.float32] = view.weights[layer, head][list(chosen)].sum(axis=0, dtype=np.float32)
    return total
