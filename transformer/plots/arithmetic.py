"""From scores to weights for one query: aligned bars, one row a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from transformer.plots import theme
from transformer.plots.heatmap import label_space
from transformer.plots.labels import escape, visible
from transformer.plots.theme import Palette

TITLES = (
    "score q·k / √d<sub>k</sub>",
    "softmax: the weight",
    "softmax without<br>the division by √d<sub>k</sub>",
)
HOVERS = ("score divided by √d_k", "weight", "weight without the division by √d_k")
ROW = 24
"""Pixels a key."""


def arithmetic_bars(
    labels: Sequence[str],
    scaled: NDArray[np.floating],
    weights: NDArray[np.floating],
    unscaled_weights: NDArray[np.floating],
    allowed: NDArray[np.bool_] | None,
    kind: str,
    colours: Palette,
) -> go.Figure:
    """Draw what one query computes for each of its S keys, in three panels with the keys one below the other.

    The first panel holds the scores divided by sqrt(d_k), the second their softmax, which is the weights, the third
    what the softmax would be without that division (Vaswani et al. 2017, Section 3.2.1). Both panels of weights run
    from 0 to 1. A key that the mask hides says so and has no bars; should it hold weight, that is drawn.

    Args:
        labels: the S keys.
        scaled: [S] q k / sqrt(d_k), before the mask.
        weights: [S] their softmax under the mask.
        unscaled_weights: [S] softmax of q k under the mask.
        allowed: [S] True where the mask lets the query look; None where it may look everywhere.
        kind: ``encoder``, ``decoder`` or ``cross``.
        colours: the theme's palette.
    """
    names = [escape(visible(label)) for label in labels]
    hidden = np.zeros(len(names), dtype=bool) if allowed is None else ~np.asarray(allowed, dtype=bool)
    full = theme.kind_colour(kind, colours)
    shades = (theme.mix(colours.background, colours.muted, 0.7), full, theme.mix(colours.background, full, 0.55))
    figure = make_subplots(rows=1, cols=3, shared_yaxes=True, horizontal_spacing=0.05)
    for column, values in enumerate((scaled, weights, unscaled_weights)):
        shown = _shown(values, hidden, np.asarray(weights if column < 2 else unscaled_weights))
        number = [_number(value, signed=column == 0) for value in shown]
        said = [f"'{name}': {HOVERS[column]} {value:.4f}" for name, value in zip(names, shown, strict=True)]
        bar = go.Bar(
            x=shown,
            y=np.arange(len(names)),
            orientation="h",
            marker={"color": shades[column]},
            text=number,
            textposition="outside",
            textfont={"size": 11, "color": colours.text},
            cliponaxis=False,
            width=0.7,
            customdata=said,
            hovertemplate="%{customdata}<extra></extra>",
        )
        figure.add_trace(bar, row=1, col=column + 1)
        figure.update_xaxes(_value_axis(TITLES[column], shown if column == 0 else None, colours), row=1, col=column + 1)
        if column == 0:
            _mask(figure, names, hidden & np.isnan(shown), colours)
    figure.update_layout(
        **theme.base_layout(colours),
        height=54 + ROW * len(names) + 30,
        margin={"l": label_space(tuple(labels)) + 10, "r": 24, "t": 54, "b": 30},
        bargap=0,
    )
    ticks = [f'<span style="color:{colours.muted}">{n}</span>' if h else n for n, h in zip(names, hidden, strict=True)]
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=ticks,
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        ticks="",
        tickfont={"family": theme.MONO, "size": 12, "color": colours.text},
    )
    return figure


def _shown(
    values: NDArray[np.floating], hidden: NDArray[np.bool_], weights: NDArray[np.floating]
) -> NDArray[np.float32]:
    """The numbers with NaN for a key that the mask hides and that holds no weight, and for what is not finite."""
    numbers = np.array(values, dtype=np.float32)
    numbers[(hidden & (weights == 0.0)) | ~np.isfinite(numbers)] = np.nan
    return numbers


def _number(value: float, *, signed: bool) -> str:
    if np.isnan(value):
        return ""
    return f"{value:+.2f}" if signed else f"{value:.2f}"


def _value_axis(title: str, scores: NDArray[np.float32] | None, colours: Palette) -> dict[str, Any]:
    """Weights run from 0 to 1, scores from the lowest to the highest, zero included; both with room for numbers."""
    low, high = 0.0, 1.0
    if scores is not None:
        finite = np.nan_to_num(scores)
        low, high = float(min(finite.min(initial=0.0), 0.0)), float(max(finite.max(initial=0.0), 0.0))
    room = 0.25 * ((high - low) or 1.0)
    return {
        "title": {"text": title, "font": {"size": 13, "color": colours.muted}, "standoff": 4},
        "side": "top",
        "range": [low - room if low < 0.0 else 0.0, high + room],
        "showgrid": False,
        "zeroline": True,
        "zerolinecolor": colours.line,
        "showticklabels": False,
        "fixedrange": True,
    }


def _mask(figure: go.Figure, names: Sequence[str], masked: NDArray[np.bool_], colours: Palette) -> None:
    """Say "masked" in the first panel and put the "masked" shade behind those keys, across all panels."""
    keys: list[int] = np.flatnonzero(masked).tolist()
    shade: dict[str, Any] = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "layer": "below"}
    shade |= {"fillcolor": colours.masked, "line": {"width": 0}}
    figure.update_layout(shapes=[{**shade, "y0": key - 0.5, "y1": key + 0.5} for key in keys])
    word = go.Scatter(
        x=np.zeros(len(keys)),
        y=keys,
        mode="text",
        text=["masked"] * len(keys),
        textposition="middle right",
        textfont={"size": 11, "color": colours.muted},
        customdata=[f"'{names[key]}': masked, the query may not look here" for key in keys],
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.add_trace(word, row=1, col=1)
