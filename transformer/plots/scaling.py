"""Every head as a point: how spread out its weights are with and without the division by sqrt(d_k)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from transformer.capture.record import KINDS
from transformer.plots import theme
from transformer.plots.theme import Palette

SIGNS = {"encoder": "circle", "decoder": "square", "cross": "diamond"}


@dataclass(frozen=True)
class HeadPoint:
    """One head."""

    kind: str
    layer: int
    """Counted from 1, as is ``head``."""
    head: int
    usual: float
    """The number with the division; NaN if it has none."""
    undivided: float


def head_points(points: Sequence[HeadPoint], quantity: str, colours: Palette) -> go.Figure:
    """Draw heads as points, across with the division by sqrt(d_k), up without it. On the dotted line nothing changes.

    Args:
        points: the heads; those without a number are left out.
        quantity: what is drawn, with its unit.
        colours: the theme's palette.
    """
    kept = [point for point in points if np.isfinite(point.usual) and np.isfinite(point.undivided)]
    top = 1.08 * max((max(point.usual, point.undivided) for point in kept), default=1.0) or 1.0
    figure = go.Figure()
    line = {"color": colours.muted, "width": 1, "dash": "dot"}
    figure.add_scatter(x=[0, top], y=[0, top], mode="lines", line=line, hoverinfo="skip", showlegend=False)
    for kind in KINDS:
        own = [point for point in kept if point.kind == kind]
        if not own:
            continue
        figure.add_scatter(
            x=[point.usual for point in own],
            y=[point.undivided for point in own],
            mode="markers",
            name=kind,
            marker={
                "size": 9,
                "symbol": SIGNS[kind],
                "color": theme.kind_colour(kind, colours),
                "line": {"color": colours.background, "width": 1},
            },
            customdata=[
                f"{point.kind}, layer {point.layer} · head {point.head}: {point.usual:.3f} with the division, "
                f"{point.undivided:.3f} without"
                for point in own
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    axis: dict[str, Any] = {"range": [-0.02 * top, top], "gridcolor": colours.line, "zeroline": False, "ticks": ""}
    axis |= {"fixedrange": True, "tickfont": {"size": 11, "color": colours.muted}}
    font = {"size": 13, "color": colours.muted}
    figure.update_layout(
        **{**theme.base_layout(colours), "showlegend": True},
        height=360,
        margin={"l": 66, "r": 16, "t": 40, "b": 50},
        hovermode="closest",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": colours.background},
    )
    figure.update_xaxes(**axis, title={"text": f"{quantity}, with the division", "font": font})
    figure.update_yaxes(**axis, title={"text": f"{quantity}, without", "font": font})
    return figure
