"""The mask, and the scores that the softmax is taken of: numbers of either sign, with zero in the middle."""

from __future__ import annotations

import dataclasses

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.analysis.maps import KindView
from transformer.plots import theme
from transformer.plots.heatmap import CELLS_WITH_NUMBERS, attention_map, largest
from transformer.plots.theme import Palette


def mask_map(view: KindView, allowed: NDArray[np.bool_], colours: Palette) -> go.Figure:
    """Draw which keys each query may look at: filled where it may.

    Args:
        view: names the axes; its weights are not drawn.
        allowed: [T, S] True where the mask lets a query look.
        colours: the theme's palette.
    """
    figure = attention_map(_with(view, allowed.astype(np.float32)), 0, 0, colours)
    word = np.where(allowed, "may look", "masked")
    figure.data = figure.data[:1]
    figure.update_traces(
        text=None,
        texttemplate=None,
        showscale=False,
        customdata=word,
        hovertemplate="%{y} → %{x}: %{customdata}<extra></extra>",
    )
    return figure


def score_map(view: KindView, scores: NDArray[np.float32], colours: Palette) -> go.Figure:
    """Draw scores [T, S], q·k / sqrt(d_k), from below zero to above it; NaN is a masked cell.

    Args:
        view: names the axes; its weights are not drawn.
        scores: [T, S]
        colours: the theme's palette.
    """
    figure = attention_map(_with(view, np.zeros_like(scores)), 0, 0, colours)
    bound = largest(np.abs(scores))
    numbers = np.array([["" if np.isnan(value) else f"{round(value, 1) + 0.0:.1f}" for value in row] for row in scores])
    small = scores.size <= CELLS_WITH_NUMBERS
    figure.data = figure.data[:1]
    figure.update_traces(
        z=scores,
        zmin=-bound,
        zmax=bound,
        colorscale=theme.diverging_scale(view.kind, colours),
        customdata=None,
        text=numbers if small else None,
        texttemplate="%{text}" if small else None,
        textfont={"color": theme.readable_on(colours.background)},
        hovertemplate="%{y} → %{x}: score %{z:.4f}<extra></extra>",
        colorbar={
            "title": {"text": "score"},
            "tickvals": [-bound, 0, bound],
            "ticktext": [f"{-bound:.1f}", "0", f"{bound:.1f}"],
        },
    )
    strong = _against_the_rest(scores / bound, view.kind, colours) if small else np.zeros(scores.shape, dtype=bool)
    if strong.any():  # a trace has one colour of text: cells that need another are drawn again
        again = go.Heatmap(figure.data[0])
        figure.update_traces(text=np.where(strong, "", numbers))
        again.update(
            z=np.where(strong, scores, np.nan),
            text=np.where(strong, numbers, ""),
            hovertemplate=None,
            hoverinfo="skip",
            showscale=False,
            textfont={"color": _other(colours)},
        )
        figure.add_trace(again)
    figure.update_layout(plot_bgcolor=colours.masked)
    return figure


def _against_the_rest(shares: NDArray[np.float32], kind: str, colours: Palette) -> NDArray[np.bool_]:
    """Cells so far from zero, as shares of the largest from -1 to 1, that their number needs the other colour."""
    low, middle, high = (str(stop[1]) for stop in theme.diverging_scale(kind, colours))
    usual = theme.readable_on(colours.background)
    steps = np.linspace(-1.0, 1.0, 201)
    shades = [theme.mix(middle, low if step < 0 else high, abs(float(step))) for step in steps]
    other = np.array([theme.readable_on(shade) != usual for shade in shades])
    chosen: NDArray[np.bool_] = other[np.rint((np.clip(np.nan_to_num(shares), -1.0, 1.0) + 1.0) * 100).astype(int)]
    return chosen & ~np.isnan(shares)


def _other(colours: Palette) -> str:
    """The colour of text that is not the usual one."""
    usual = theme.readable_on(colours.background)
    return next(one for one in map(theme.readable_on, ("#000000", "#ffffff")) if one != usual)


def _with(view: KindView, values: NDArray[np.float32]) -> KindView:
    return dataclasses.replace(view, weights=values[None, None], allowed=None, removed=None)
