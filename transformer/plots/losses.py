"""Losses piece by piece, what smoothing makes of them, times compared, and models as points over their size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.plots import labels, theme
from transformer.plots.curves import plain_axis
from transformer.plots.theme import Palette


def loss_bars(pieces: Sequence[str], losses: NDArray[np.float64], colours: Palette, *, chosen: int = -1) -> go.Figure:
    """Draw what each piece of a translation costs, -ln p, in their order.

    Args:
        pieces: T labels.
        losses: [T] in nats.
        colours: the theme's palette.
        chosen: the position that is outlined, from 0.
    """
    shown = [labels.escape(labels.visible(piece)) for piece in pieces]
    places = list(range(len(shown)))
    outline = [2 if place == chosen else 0 for place in places]
    figure = go.Figure(
        go.Bar(
            x=places,
            y=losses,
            marker={"color": colours.probability, "line": {"color": colours.text, "width": outline}},
            width=0.72,
            customdata=[
                f"{place + 1}. '{name}': loss {loss:.4f}, probability {labels.percent(float(np.exp(-loss)))}"
                for place, name, loss in zip(places, shown, losses, strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
            text=[f"{loss:.2f}" for loss in losses] if len(shown) <= 30 else None,
            textposition="outside",
            textangle=0,
            textfont={"color": colours.text, "size": 11},
            cliponaxis=False,
        )
    )
    longest = max((len(piece) for piece in pieces), default=1)
    below = int(np.clip(7 * longest, 30, 130)) + 14
    figure.update_layout(
        **theme.base_layout(colours), height=190 + below, margin={"l": 56, "r": 10, "t": 24, "b": below}
    )
    figure.update_xaxes(
        tickvals=places,
        ticktext=[f"<b>{name}</b>" if place == chosen else name for place, name in enumerate(shown)],
        tickangle=-90 if len(shown) > 24 else -50,
        tickfont={"family": theme.MONO, "size": 12, "color": colours.text},
        range=[-0.6, len(shown) - 0.4],
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        ticks="",
    )
    most = float(np.max(losses, initial=0.0))
    figure.update_yaxes(
        **plain_axis(colours),
        range=[0, 1.18 * most or 1.0],
        nticks=5,
        title={"text": "loss, nats", "font": {"size": 12, "color": colours.muted}},
    )
    return figure


def smoothing_curve(
    grid: NDArray[np.float64],
    least: NDArray[np.float64],
    plain: NDArray[np.float64],
    probabilities: NDArray[np.float64],
    losses: NDArray[np.float64],
    pieces: Sequence[str],
    colours: Palette,
) -> go.Figure:
    """Draw the least loss that a probability of the right piece can have, with and without smoothing, and the pieces.

    Args:
        grid: [N] probabilities of the right piece, growing.
        least: [N] the least smoothed loss there.
        plain: [N] the loss without smoothing.
        probabilities: [T] what the model gave to each right piece.
        losses: [T] its smoothed loss.
        pieces: T labels.
        colours: the theme's palette.
    """
    smoothed = not np.allclose(least, plain)
    figure = go.Figure()
    figure.add_trace(
        go.Scatter(x=grid, y=plain, mode="lines", line={"color": colours.muted, "dash": "dot"}, hoverinfo="skip")
    )
    notes = [_note("without smoothing", 0.42, float(np.interp(0.42, grid, plain)), colours.muted, "right", -6)]
    if smoothed:
        figure.add_trace(
            go.Scatter(x=grid, y=least, mode="lines", line={"color": colours.text, "width": 2}, hoverinfo="skip")
        )
        lowest = int(np.argmin(least))
        x, y = float(grid[lowest]), float(least[lowest])
        figure.add_trace(
            go.Scatter(
                x=[x],
                y=[y],
                mode="markers",
                marker={"color": colours.text, "size": 9, "symbol": "diamond"},
                hovertemplate="least possible loss %{y:.3f}, at probability %{x:.3f}<extra></extra>",
            )
        )
        notes.append(_note("lowest possible", x, y, colours.text, "right", -16))
        notes.append(_note("with smoothing", 0.3, float(np.interp(0.3, grid, least)), colours.text, "left", 12))
    figure.add_trace(
        go.Scatter(
            x=probabilities,
            y=losses,
            mode="markers",
            marker={"color": colours.probability, "size": 9, "opacity": 0.85},
            customdata=[
                f"{place}. '{labels.escape(labels.visible(piece))}'" for place, piece in enumerate(pieces, start=1)
            ],
            hovertemplate="%{customdata}: probability %{x:.3f}, loss %{y:.3f}<extra></extra>",
        )
    )
    highest = max(float(np.max(losses, initial=0.0)), float(np.interp(0.03, grid, least)))
    figure.update_layout(
        **theme.base_layout(colours), height=300, margin={"l": 56, "r": 14, "t": 14, "b": 46}, annotations=notes
    )
    figure.update_xaxes(
        **plain_axis(colours),
        range=[-0.02, 1.02],
        tickvals=[0, 0.25, 0.5, 0.75, 1],
        ticktext=["0", "25 %", "50 %", "75 %", "100 %"],
        title={"text": "probability of the right piece", "font": {"size": 12, "color": colours.muted}, "standoff": 6},
    )
    figure.update_yaxes(
        **plain_axis(colours),
        range=[0, 1.08 * highest],
        nticks=6,
        title={"text": "loss, nats", "font": {"size": 12, "color": colours.muted}},
    )
    return figure


def time_bars(names: Sequence[str], seconds: Sequence[float], colours: Palette) -> go.Figure:
    """Draw durations as bars, the first on top, each with its time and how many times the shortest it is."""
    least = min(seconds)
    rows = list(range(len(names)))
    figure = go.Figure(
        go.Bar(
            y=rows,
            x=[1000 * value for value in seconds],
            orientation="h",
            width=0.6,
            marker={"color": [colours.probability if value == least else colours.line for value in seconds]},
            text=[_duration(value, least) for value in seconds],
            textposition="outside",
            textfont={"color": colours.text},
            cliponaxis=False,
            hoverinfo="skip",
        )
    )
    figure.update_layout(
        **theme.base_layout(colours), height=44 * len(rows) + 50, margin={"l": 210, "r": 20, "t": 8, "b": 40}
    )
    figure.update_xaxes(
        **plain_axis(colours),
        range=[0, 1300 * max(seconds)],
        nticks=5,
        title={"text": "milliseconds", "font": {"size": 12, "color": colours.muted}, "standoff": 4},
    )
    figure.update_yaxes(
        tickvals=rows,
        ticktext=[labels.escape(name) for name in names],
        tickfont={"size": 12, "color": colours.text},
        range=[len(rows) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        ticks="",
    )
    return figure


@dataclass(frozen=True)
class Size:
    """A model by its size and what it reached."""

    name: str
    """Shown beside its point."""
    told: str
    """Shown on hover."""
    parameters: float
    """In millions."""
    bleu: float
    base: bool = False
    """The one that all others are compared with."""
    below: bool = False
    """Its name stands below its point, where a neighbour's stands above."""


def size_points(sizes: Sequence[Size], colours: Palette) -> go.Figure:
    """Draw BLEU against the number of parameters, which grows in equal factors."""
    figure = go.Figure(
        go.Scatter(
            x=[size.parameters for size in sizes],
            y=[size.bleu for size in sizes],
            mode="markers+text",
            marker={
                "size": 11,
                "color": [colours.text if size.base else colours.probability for size in sizes],
                "symbol": ["diamond" if size.base else "circle" for size in sizes],
            },
            text=[labels.escape(size.name) for size in sizes],
            textposition=["bottom center" if size.below else "top center" for size in sizes],
            textfont={"size": 11, "color": colours.text},
            customdata=[labels.escape(size.told) for size in sizes],
            hovertemplate="%{customdata}<extra></extra>",
            cliponaxis=False,
        )
    )
    figure.update_layout(**theme.base_layout(colours), height=320, margin={"l": 56, "r": 40, "t": 24, "b": 46})
    figure.update_xaxes(
        **plain_axis(colours),
        type="log",
        tickvals=[25, 50, 100, 200],
        range=[np.log10(23), np.log10(260)],
        title={"text": "million parameters", "font": {"size": 12, "color": colours.muted}, "standoff": 6},
    )
    figure.update_yaxes(
        **plain_axis(colours),
        nticks=6,
        title={"text": "BLEU, newstest2013", "font": {"size": 12, "color": colours.muted}},
    )
    return figure


def _note(text: str, x: float, y: float, colour: str, side: str, shift: int) -> dict[str, Any]:
    return {
        "text": text,
        "x": x,
        "y": y,
        "xanchor": side,
        "yshift": shift,
        "showarrow": False,
        "font": {"size": 12, "color": colour},
    }


def _duration(seconds: float, least: float) -> str:
    shown = f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"
    return shown if seconds == least or not least else f"{shown} · {seconds / least:.1f} times"
