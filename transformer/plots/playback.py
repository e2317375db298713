"""A map as far as it has grown: what was computed up to one step of decoding."""

from __future__ import annotations

import dataclasses

import numpy as np
import plotly.graph_objects as go

from transformer.analysis.maps import KindView
from transformer.plots.heatmap import attention_map, margins, marked, positions
from transformer.plots.labels import tick_text
from transformer.plots.theme import Palette


def grown_map(view: KindView, layer: int, head: int, step: int, colours: Palette) -> go.Figure:
    """Draw one map of decoder or cross attention with the rows up to one step; the room for later ones is left empty.

    The picture has the same size at every step, so nothing jumps while the rows appear.

    Args:
        view: the maps of one kind, of the whole translation.
        layer: index from 0.
        head: index from 0.
        step: the newest row, from 0; it is outlined.
        colours: the theme's palette.

    Raises:
        InputError: a step that the map does not have.
    """
    count = view.weights.shape[2]
    positions("step", [step], count)
    weights = np.array(view.weights[layer, head])
    weights[step + 1 :] = np.nan
    grown = dataclasses.replace(view, weights=weights[None, None])
    figure = attention_map(grown, 0, 0, colours, rows=[step])
    later = {"type": "rect", "x0": -0.5, "x1": weights.shape[1] - 0.5, "y0": step + 0.5, "y1": count - 0.5}
    if step + 1 < count:
        figure.add_shape(**later, fillcolor=colours.background, line={"width": 0}, layer="above")
    told = figure.data[0].customdata
    if told is not None:  # what cannot be pointed at need not be sent
        told = np.array(told, dtype=object)
        told[step + 1 :] = ""
        figure.data[0].customdata = told
    rows = marked(tick_text(view.rows), [step])
    figure.update_yaxes(ticktext=[text if row <= step else "" for row, text in enumerate(rows)])
    if view.kind == "decoder":  # the keys are what has been read: one more with each step
        keys = tick_text(view.columns)
        figure.update_xaxes(ticktext=[text if column <= step else "" for column, text in enumerate(keys)])
    figure.update_layout(margin=margins(view))
    return figure
