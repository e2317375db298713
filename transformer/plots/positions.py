"""Pictures of positions: the table, its clocks, dot products by distance, the rotation, and what order changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.plots import theme
from transformer.plots.embeddings import cell_numbers, colour_bar, number_axis
from transformer.plots.heatmap import label_space, piece_axis
from transformer.plots.labels import escape, visible
from transformer.plots.theme import Palette

APART = 2.6
"""Distance of the centres of two clocks, whose hands have length 1."""
STEP = 350
"""Milliseconds for which a position is shown while the clocks run."""


def position_map(table: NDArray[np.floating], colours: Palette, used: int = 0) -> go.Figure:
    """Draw the table [n, D], one row a position; a line stands under the first ``used`` rows, if there are fewer."""
    shown = np.asarray(table, dtype=np.float32)
    limit = float(np.abs(shown).max(initial=0.0)) or 1.0
    figure = go.Figure(
        go.Heatmap(
            z=shown,
            zmin=-limit,
            zmax=limit,
            colorscale=theme.diverging_scale("encoder", colours),
            hovertemplate="position %{y}, dimension %{x}: %{z:.4f}<extra></extra>",
            colorbar=colour_bar("number", limit, colours),
        )
    )
    count, width = shown.shape
    figure.update_layout(
        **theme.base_layout(colours),
        height=46 + int(np.clip(6 * count, 200, 420)) + 62,
        margin={"l": 60, "r": 16, "t": 46, "b": 62},
    )
    figure.update_xaxes(**number_axis("dimension, from 0", colours), range=[-0.5, width - 0.5], side="top")
    figure.update_yaxes(**number_axis("position, from 0", colours), range=[count - 0.5, -0.5])
    if 0 < used < count:
        edge = used - 0.5
        line = {"color": colours.text, "width": 2, "dash": "dot"}
        figure.add_shape(type="line", x0=-0.5, x1=width - 0.5, y0=edge, y1=edge, line=line)
        figure.add_annotation(
            x=width - 0.5,
            y=edge,
            xanchor="right",
            yanchor="top",
            text=f"your sentence ends here: {used} pieces",
            showarrow=False,
            bgcolor=colours.background,
            font={"size": 12, "color": colours.text},
        )
    return figure


def clocks(tips: NDArray[np.floating], names: Sequence[str], colours: Palette, start: int = 0) -> go.Figure:
    """Draw pairs of dimensions as the hands of clocks, which run through the positions in the browser.

    Args:
        tips: [n, P, 2] where each hand points at each position, at most 1 from its centre.
        names: P lines under the clocks, ``<br>`` and escaped text.
        colours: the theme's palette.
        start: the position that is shown first, from 0.
    """
    shown = np.asarray(tips, dtype=np.float64)
    count, pairs = shown.shape[:2]
    start = min(max(start, 0), count - 1)
    figure = go.Figure(_hands(shown, start, colours))
    figure.frames = [
        go.Frame(name=str(position), data=[_hands(shown, position, colours)], traces=[0]) for position in range(count)
    ]
    circle = {"type": "circle", "y0": -1, "y1": 1, "line": {"color": colours.line, "width": 2}, "layer": "below"}
    figure.update_layout(
        **theme.base_layout(colours),
        height=330,
        margin={"l": 10, "r": 10, "t": 10, "b": 96},
        shapes=[{**circle, "x0": APART * i - 1, "x1": APART * i + 1} for i in range(pairs)],
        annotations=[
            {
                "x": APART * i,
                "y": -1.12,
                "yanchor": "top",
                "text": name,
                "showarrow": False,
                "font": {"size": 12, "color": colours.muted},
            }
            for i, name in enumerate(names)
        ],
        sliders=[_slider(count, start, colours)],
        updatemenus=[_buttons(colours)],
    )
    figure.update_xaxes(visible=False, fixedrange=True, range=[-1.2, APART * (pairs - 1) + 1.2])
    figure.update_yaxes(visible=False, fixedrange=True, range=[-1.75, 1.1], scaleanchor="x")
    return figure


def product_lines(matrix: NDArray[np.floating], chosen: int, colours: Palette) -> go.Figure:
    """Draw the dot products of one position with every other as a strong line, those of a few others as pale ones.

    Args:
        matrix: [n, n] products.
        chosen: the position of the strong line, from 0.
        colours: the theme's palette.
    """
    shown = np.asarray(matrix, dtype=np.float32)
    count = len(shown)
    figure = go.Figure()
    pale = [place for place in (0, count // 3, 2 * count // 3, count - 1) if place != chosen]
    for place in (*dict.fromkeys(pale), chosen):
        strong = place == chosen
        figure.add_scatter(
            x=np.arange(count),
            y=shown[place],
            mode="lines",
            line={
                "color": colours.encoder if strong else theme.mix(colours.background, colours.muted, 0.5),
                "width": 3 if strong else 1.5,
            },
            hovertemplate=f"position {place} and position %{{x}}: %{{y:.2f}}<extra></extra>",
        )
    figure.add_scatter(
        x=[chosen],
        y=[float(shown[chosen, chosen])],
        mode="markers",
        marker={"size": 10, "color": colours.encoder},
        hoverinfo="skip",
    )
    figure.update_layout(
        **theme.base_layout(colours),
        height=320,
        margin={"l": 70, "r": 20, "t": 24, "b": 50},
        annotations=[
            {
                "x": chosen,
                "y": float(shown[chosen, chosen]),
                "text": f"position {chosen} with itself",
                "showarrow": False,
                "xanchor": "left" if chosen < count / 2 else "right",
                "xshift": 10 if chosen < count / 2 else -10,
                "font": {"size": 12, "color": colours.text},
            }
        ],
    )
    figure.update_xaxes(**number_axis("the other position", colours))
    figure.update_yaxes(**number_axis("dot product", colours, grid=True))
    return figure


def rotation_map(rotation: NDArray[np.floating], colours: Palette, shown: int = 8) -> go.Figure:
    """Draw the upper left corner of a rotation [D, D] with its numbers; a frame stands around each pair's block."""
    part = np.asarray(rotation, dtype=np.float32)[:shown, :shown]
    count = len(part)
    figure = go.Figure(
        go.Heatmap(
            z=part,
            zmin=-1.0,
            zmax=1.0,
            colorscale=theme.diverging_scale("encoder", colours),
            hovertemplate="row %{y}, column %{x}: %{z:.4f}<extra></extra>",
            xgap=1,
            ygap=1,
            colorbar=colour_bar("number", 1.0, colours),
        )
    )
    box = {"type": "rect", "line": {"color": colours.muted, "width": 1.5}}
    figure.update_layout(
        **theme.base_layout(colours),
        height=46 + 36 * count + 62,
        margin={"l": 60, "r": 16, "t": 46, "b": 62},
        annotations=cell_numbers(part, "encoder", colours),
        shapes=[{**box, "x0": i - 0.5, "x1": i + 1.5, "y0": i - 0.5, "y1": i + 1.5} for i in range(0, count - 1, 2)],
    )
    whole = len(rotation)
    title = f"dimension of PE(pos): {'all' if count == whole else f'the first {count} of {whole}'}"
    ticks = {"tickvals": list(range(count)), "range": [-0.5, count - 0.5]}
    figure.update_xaxes(**number_axis(title, colours), **ticks, side="top")
    figure.update_yaxes(**number_axis("dimension of PE(pos + k)", colours), **{**ticks, "range": [count - 0.5, -0.5]})
    return figure


def order_bars(
    labels: Sequence[str], on: NDArray[np.floating], off: NDArray[np.floating], typical: float, colours: Palette
) -> go.Figure:
    """Draw for each piece how far its output lies from that of the same piece in the other sentence.

    Args:
        labels: S pieces.
        on: [S] with positions, in the encoder's colour.
        off: [S] without, in grey; bars of nothing have a number all the same.
        typical: how far the outputs of different pieces lie apart, as a dotted line.
        colours: the theme's palette.
    """
    names = [escape(visible(label)) for label in labels]
    figure = go.Figure()
    for values, colour, word, lift in ((on, colours.encoder, "on", -0.19), (off, colours.muted, "off", 0.19)):
        figure.add_bar(
            x=np.asarray(values, dtype=np.float32),
            y=np.arange(len(names)) + lift,
            orientation="h",
            width=0.36,
            marker={"color": colour},
            name=f"positions {word}",
            text=[
                f"{value:.2f}" if value >= 0.005 else f"{value:.0e}" if value else "0"
                for value in np.asarray(values).tolist()
            ],
            textposition="outside",
            textfont={"size": 11, "color": colours.text},
            cliponaxis=False,
            customdata=names,
            hovertemplate=f"'%{{customdata}}', positions {word}: %{{x:.3g}}<extra></extra>",
        )
    tall = 40 if len(names) <= 20 else 26
    top = max(float(np.max(on, initial=0.0)), float(np.max(off, initial=0.0)), typical) or 1.0
    layout: dict[str, Any] = {**theme.base_layout(colours), "showlegend": True}
    figure.update_layout(
        **layout,
        barmode="overlay",
        height=86 + tall * len(names) + 40,
        margin={"l": label_space(tuple(labels)) + 20, "r": 40, "t": 86, "b": 40},
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "top", "yref": "container", "traceorder": "normal"},
        shapes=[
            {
                "type": "line",
                "yref": "paper",
                "x0": typical,
                "x1": typical,
                "y0": 0,
                "y1": 1,
                "line": {"color": colours.muted, "width": 1.5, "dash": "dot"},
            }
        ],
        annotations=[
            {
                "x": typical,
                "y": 0,
                "yref": "paper",
                "yanchor": "top",
                "text": "two different pieces, on average",
                "showarrow": False,
                "xanchor": "right" if typical > top / 2 else "left",
                "font": {"size": 12, "color": colours.muted},
            }
        ],
    )
    figure.update_xaxes(
        **number_axis("distance, as a share of the output's length", colours, grid=True),
        range=[0, 1.15 * top],
        side="top",
    )
    figure.update_yaxes(
        **piece_axis("", colours, small=False),
        tickvals=list(range(len(names))),
        ticktext=names,
        range=[len(names) - 0.5, -0.5],
    )
    return figure


def _small(value: float) -> str:
    """A number whose size matters even where it is next to nothing: "0.62", "3e-07"."""
    return f"{value:.2f}" if value >= 0.005 else f"{value:.0e}" if value else "0"


def _hands(tips: NDArray[np.float64], position: int, colours: Palette) -> go.Scatter:
    """All hands as one trace, three points each: the centre, the tip, and a gap; many traces a frame would be slow."""
    pairs = tips.shape[1]
    x, y = np.full((pairs, 3), np.nan), np.full((pairs, 3), np.nan)
    x[:, 0], y[:, 0] = APART * np.arange(pairs), 0.0
    x[:, 1], y[:, 1] = x[:, 0] + tips[position, :, 0], tips[position, :, 1]
    said = [f"sine {sine:.3f}, cosine {cosine:.3f}" for sine, cosine in tips[position].tolist()]
    return go.Scatter(
        x=x.ravel().astype(np.float32),
        y=y.ravel().astype(np.float32),
        mode="lines+markers",
        line={"color": colours.encoder, "width": 3},
        marker={"size": [5, 9, 0] * pairs, "color": colours.encoder},
        text=[text for text in said for _ in range(3)],
        hovertemplate="%{text}<extra></extra>",
    )


def _slider(count: int, start: int, colours: Palette) -> dict[str, Any]:
    animation = {"frame": {"duration": 0, "redraw": False}, "mode": "immediate", "transition": {"duration": 0}}
    return {
        "active": start,
        "x": 0.2,
        "len": 0.8,
        "y": 0,
        "pad": {"t": 26},
        "currentvalue": {"prefix": "position ", "font": {"size": 13, "color": colours.text}},
        "font": {"size": 11, "color": colours.muted},
        "bgcolor": colours.line,
        "activebgcolor": colours.encoder,
        "bordercolor": colours.line,
        "tickcolor": colours.line,
        "steps": [
            {"label": str(position), "method": "animate", "args": [[str(position)], animation]}
            for position in range(count)
        ],
    }


def _buttons(colours: Palette) -> dict[str, Any]:
    running = {
        "frame": {"duration": STEP, "redraw": False},
        "transition": {"duration": STEP // 2},
        "fromcurrent": True,
        "mode": "immediate",
    }
    stopped = {"frame": {"duration": 0, "redraw": False}, "mode": "immediate", "transition": {"duration": 0}}
    return {
        "type": "buttons",
        "direction": "right",
        "showactive": False,
        "x": 0,
        "xanchor": "left",
        "y": 0,
        "yanchor": "top",
        "pad": {"t": 44},
        "bgcolor": colours.surface,
        "bordercolor": colours.line,
        "font": {"size": 13, "color": colours.text},
        "buttons": [
            {"label": "Play", "method": "animate", "args": [None, running]},
            {"label": "Stop", "method": "animate", "args": [[None], stopped]},
        ],
    }
