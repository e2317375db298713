"""Pictures of vectors: as rows of numbers, as neighbours, as points in a plane, as cosines of every two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.plots import theme
from transformer.plots.heatmap import label_space, piece_axis
from transformer.plots.labels import escape, visible
from transformer.plots.theme import Palette

CELLS_WITH_NUMBERS = 196
"""Maps of more cells than this show their numbers on hover only."""
POINTS_WITH_NAMES = 60
"""Of more points than this only those that were asked for are named; the others on hover."""


def vector_map(values: NDArray[np.floating], labels: Sequence[str], colours: Palette, shown: int = 64) -> go.Figure:
    """Draw vectors [S, D] as rows of cells, one a dimension, the first ``shown`` of them; 0 is the background.

    The strongest number of the picture has the full colour of the encoder, or the full grey if it is negative.
    """
    part = np.asarray(values, dtype=np.float32)[:, :shown]
    names = [escape(visible(label)) for label in labels]
    limit = float(np.abs(part).max(initial=0.0)) or 1.0
    figure = go.Figure(
        go.Heatmap(
            z=part,
            zmin=-limit,
            zmax=limit,
            colorscale=theme.diverging_scale("encoder", colours),
            hovertemplate="'%{y}', dimension %{x}: %{z:.4f}<extra></extra>",
            colorbar=colour_bar("number", limit, colours),
        )
    )
    tall = 22 if len(names) <= 40 else 14
    figure.update_layout(
        **theme.base_layout(colours),
        height=46 + tall * len(names) + 62,
        margin={"l": label_space(tuple(labels)) + 30, "r": 16, "t": 46, "b": 62},
    )
    more = f"the first {part.shape[1]} of {np.asarray(values).shape[1]}" if part.shape[1] < values.shape[1] else "all"
    figure.update_xaxes(
        **number_axis(f"dimension, from 0: {more}", colours), range=[-0.5, part.shape[1] - 0.5], side="top"
    )
    figure.update_yaxes(
        **piece_axis("piece", colours, small=tall < 18),
        tickvals=list(range(len(names))),
        ticktext=names,
        range=[len(names) - 0.5, -0.5],
    )
    return figure


def neighbour_bars(
    labels: Sequence[str], cosines: NDArray[np.floating], mean: float, spread: float, colours: Palette
) -> go.Figure:
    """Draw how near pieces lie as bars from 0 to 1, nearest on top, with the usual nearness behind them.

    Args:
        labels: N pieces, nearest first.
        cosines: [N]
        mean: the mean cosine of all pieces; a shaded band shows it plus and minus twice ``spread``.
        spread: their standard deviation.
        colours: the theme's palette.
    """
    names = [escape(visible(label)) for label in labels]
    low = min(0.0, mean - 2 * spread, float(np.min(cosines, initial=0.0)))
    figure = go.Figure(
        go.Bar(
            x=np.asarray(cosines, dtype=np.float32),
            y=np.arange(len(names)),
            orientation="h",
            width=0.68,
            marker={"color": colours.encoder},
            text=[f"{value:.2f}" for value in cosines],
            textposition="outside",
            textfont={"size": 12, "color": colours.text},
            cliponaxis=False,
            customdata=names,
            hovertemplate="'%{customdata}': cosine %{x:.4f}<extra></extra>",
        )
    )
    figure.update_layout(
        **theme.base_layout(colours),
        height=46 + 26 * len(names) + 30,
        margin={"l": label_space(tuple(labels)) + 20, "r": 30, "t": 46, "b": 30},
        shapes=[
            {
                "type": "rect",
                "yref": "paper",
                "x0": mean - 2 * spread,
                "x1": mean + 2 * spread,
                "y0": 0,
                "y1": 1,
                "fillcolor": colours.masked,
                "line": {"width": 0},
                "layer": "below",
            }
        ],
        annotations=[
            {
                "x": mean,
                "y": 0,
                "yref": "paper",
                "yanchor": "top",
                "yshift": -4,
                "text": "most pieces lie here",
                "showarrow": False,
                "font": {"size": 12, "color": colours.muted},
            }
        ],
    )
    figure.update_xaxes(**number_axis("cosine", colours), range=[low, 1.06], side="top")
    figure.update_yaxes(
        **piece_axis("", colours, small=False),
        tickvals=list(range(len(names))),
        ticktext=names,
        range=[len(names) - 0.5, -0.5],
    )
    return figure


def piece_scatter(
    points: NDArray[np.floating],
    labels: Sequence[str],
    asked: int,
    neighbour_of: Sequence[int],
    shares: tuple[float, float],
    colours: Palette,
) -> go.Figure:
    """Draw pieces as points of a plane: those asked for strong, their neighbours pale with a line to them.

    Args:
        points: [N, 2]
        labels: N pieces.
        asked: how many of them, from the first on, were asked for.
        neighbour_of: N places of the piece that a neighbour belongs to; -1 for those asked for.
        shares: the parts of the variance that the two axes show.
        colours: the theme's palette.
    """
    names = np.array([escape(visible(label)) for label in labels], dtype=object)
    x, y = np.asarray(points, dtype=np.float32).T
    figure = go.Figure()
    ends: list[list[Any]] = [[], []]
    for place, home in enumerate(neighbour_of):
        if home >= 0:
            for axis, values in zip(ends, (x, y), strict=True):
                axis += [float(values[place]), float(values[home]), None]
    figure.add_scatter(x=ends[0], y=ends[1], mode="lines", line={"color": colours.line, "width": 1}, hoverinfo="skip")
    everything = len(names) <= POINTS_WITH_NAMES
    for part, colour, weight, named, side in (
        (slice(asked, None), colours.muted, 400, everything, "bottom center"),
        (slice(0, asked), colours.encoder, 600, True, "top center"),
    ):
        figure.add_scatter(
            x=x[part],
            y=y[part],
            mode="markers+text" if named else "markers",
            marker={"size": 7, "color": colour},
            text=names[part],
            textposition=side,
            textfont={"family": theme.MONO, "size": 12, "color": colour, "weight": weight},
            cliponaxis=False,
            hovertemplate="'%{text}'<extra></extra>",
        )
    figure.update_layout(
        **theme.base_layout(colours), height=520, margin={"l": 50, "r": 50, "t": 20, "b": 50}, hovermode="closest"
    )
    for update, share, word in (
        (figure.update_xaxes, shares[0], "first"),
        (figure.update_yaxes, shares[1], "second"),
    ):
        title = f"{word} component: {100 * share:.0f} % of the variance"
        update(**number_axis(title, colours, grid=True))
    return figure


def cosine_map(matrix: NDArray[np.floating], labels: Sequence[str], colours: Palette) -> go.Figure:
    """Draw the cosines [N, N] of every two pieces, from -1 to 1."""
    names = [escape(visible(label)) for label in labels]
    count = len(names)
    shown = np.asarray(matrix, dtype=np.float32)
    said = np.array([[f"'{row}' and '{column}'" for column in names] for row in names], dtype=object)
    written = count * count <= CELLS_WITH_NUMBERS
    figure = go.Figure(
        go.Heatmap(
            z=shown,
            zmin=-1.0,
            zmax=1.0,
            colorscale=theme.diverging_scale("encoder", colours),
            customdata=said,
            hovertemplate="%{customdata}: %{z:.4f}<extra></extra>",
            xgap=1,
            ygap=1,
            colorbar=colour_bar("cosine", 1.0, colours),
        )
    )
    if written:
        figure.update_layout(annotations=cell_numbers(shown, "encoder", colours))
    cell = int(np.clip(420 / max(count, 1), 16, 44))
    space = label_space(tuple(labels))
    figure.update_layout(
        **theme.base_layout(colours),
        height=space + 16 + count * cell + 62,
        margin={"l": space + 10, "r": 16, "t": space + 16, "b": 62},
    )
    common = piece_axis("", colours, small=cell < 18)
    figure.update_xaxes(
        **common,
        tickvals=list(range(count)),
        ticktext=names,
        tickangle=-90,
        range=[-0.5, count - 0.5],
        side="top",
    )
    figure.update_yaxes(**common, tickvals=list(range(count)), ticktext=names, range=[count - 0.5, -0.5])
    return figure


def number_axis(title: str, colours: Palette, grid: bool = False) -> dict[str, Any]:
    """What an axis of numbers looks like, with or without lines across the picture."""
    return {
        "title": {"text": title, "font": {"size": 13, "color": colours.muted}, "standoff": 8},
        "tickfont": {"size": 11, "color": colours.muted},
        "showgrid": grid,
        "gridcolor": theme.mix(colours.background, colours.line, 0.6),
        "zeroline": False,
        "fixedrange": True,
    }


def colour_bar(name: str, limit: float, colours: Palette) -> dict[str, Any]:
    """The key to a diverging scale, below the picture at its right."""
    small = {"size": 12, "color": colours.muted}
    return {
        "title": {"text": name, "side": "top", "font": small},
        "orientation": "h",
        "tickvals": [-limit, 0, limit],
        "ticktext": [f"{-limit:.2g}", "0", f"{limit:.2g}"],
        "thickness": 8,
        "len": 160,
        "lenmode": "pixels",
        "x": 1,
        "xanchor": "right",
        "y": 0,
        "yanchor": "top",
        "ypad": 12,
        "outlinewidth": 0,
        "tickfont": {**small, "size": 11},
    }


def cell_numbers(values: NDArray[np.floating], kind: str, colours: Palette) -> list[dict[str, Any]]:
    """The numbers of a map from -1 to 1 as annotations, each in the colour that can be read on its cell."""
    upper, lower = theme.kind_colour(kind, colours), theme.mix(colours.background, colours.muted, 0.75)
    found = []
    for row, line in enumerate(np.asarray(values, dtype=np.float64).tolist()):
        for column, value in enumerate(line):
            shade = theme.mix(colours.background, upper if value > 0 else lower, min(abs(value), 1.0))
            font = {"size": 11, "color": theme.readable_on(shade)}
            text = f"{value:.2f}".replace("0.", ".") if abs(value) < 0.995 else f"{value:.0f}"
            if text in (".00", "-.00"):
                text = "0"
            found.append({"x": column, "y": row, "text": text, "showarrow": False, "font": font})
    return found
