"""A model that learns to write its input backwards: its curves, and its cross-attention map, marked."""

from __future__ import annotations

import plotly.graph_objects as go

from transformer.analysis.maps import KindView
from transformer.plots.curves import Line, Panel, panels
from transformer.plots.heatmap import attention_map
from transformer.plots.theme import Palette

PER_CENT = [-4.0, 104.0]
"""Range of an axis of per cents, with room for points at its ends."""


def toy_curves(
    train: Line, dev: Line, exact: Line, copied: Line, colours: Palette, chosen: int | None = None
) -> go.Figure:
    """Draw loss, right answers and attention over the updates, per cents always from 0 to 100.

    Args:
        train: loss on training sequences, nats per piece.
        dev: the same on dev.
        exact: per cent of the dev sequences that are exactly right.
        copied: per cent of the cross-attention that lies on the letter to be copied.
        colours: the theme's palette.
        chosen: an update with a strong upright line.
    """
    shown = (
        Panel("loss, nats per piece", (train, dev), decimals=3),
        Panel("dev sequences exactly right, per cent", (exact,)),
        Panel("cross-attention on the letter to be copied, per cent", (copied,)),
    )
    figure = panels(shown, colours, chosen=chosen, height=112, named=False)
    per_cent = {"range": PER_CENT, "tickvals": [0, 50, 100]}
    figure.update_layout(yaxis={"rangemode": "tozero"}, yaxis2=per_cent, yaxis3=per_cent)
    return figure


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
    line = {"color": colours.text, "width": 1.5, "dash": "dot"}
    boxes = [
        {"type": "rect", "x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5, "line": line}
        for row, column in enumerate(range(count, 0, -1))
    ]
    figure.update_layout(shapes=boxes)
    return figure
