"""The cross-attention of a model that writes its input backwards: a map with the other diagonal marked."""

from __future__ import annotations

import plotly.graph_objects as go

from transformer.analysis.maps import KindView
from transformer.plots.heatmap import attention_map
from transformer.plots.theme import Palette


def mirror_map(view: KindView, layer: int, head: int, colours: Palette) -> go.Figure:
    """Draw a cross-attention map and outline in each row the letter that is to be copied.

    Args:
        view: cross-attention with n + 1 rows, the n letters and ``<EOS>``, and n + 2 columns, ``<SOS>``, the n letters
            and ``<EOS>``; row t is to copy from column n - t.
        layer: index from 0.
        head: index from 0.
        colours: the theme's palette.
    """
    figure = attention_map(view, layer, head, colours)
    count = view.weights.shape[-1] - 2
    for row in range(count):
        column = count - row
        figure.add_shape(
            type="rect",
            x0=column - 0.5,
            x1=column + 0.5,
            y0=row - 0.5,
            y1=row + 0.5,
            line={"color": colours.text, "width": 1.5, "dash": "dot"},
        )
    return figure
