"""The residual stream and its normalisations: lengths along the layers, values of one vector, gains, padding.

Letters: N sublayers, T positions, D d_model, P numbers of padding columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from transformer.plots import theme
from transformer.plots.labels import escape
from transformer.plots.theme import Palette

BINS = 41
"""Bars of a histogram."""


def length_lines(
    names: Sequence[str],
    added: NDArray[np.floating],
    summed: NDArray[np.floating],
    after: NDArray[np.floating],
    likeness: NDArray[np.floating],
    position: int,
    kind: str,
    colours: Palette,
    *,
    normalised_last: bool,
) -> go.Figure:
    """Draw how long the stream of one position is through a stack, and how far it turns away from what entered.

    Args:
        names: N sublayers.
        added: [N, T] length of what each sublayer gives.
        summed: [N, T] length of the stream with it.
        after: [N, T] length of the stream that leaves.
        likeness: [N, T] cosine of the stream that leaves with the one that entered the stack.
        position: which position, from 0; the others are faint in the lower picture.
        kind: ``encoder`` or ``decoder``, for the colour.
        colours: the theme's palette.
        normalised_last: whether a normalisation lies between ``summed`` and ``after``.
    """
    places = list(range(len(names)))
    full, quiet = theme.kind_colour(kind, colours), theme.mix(colours.background, colours.muted, 0.55)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.62, 0.38], vertical_spacing=0.09)
    figure.add_bar(
        x=places,
        y=added[:, position],
        width=0.5,
        marker={"color": quiet},
        name="what the sublayer adds",
        customdata=[escape(name) for name in names],
        hovertemplate="%{customdata} adds %{y:.2f}<extra></extra>",
        row=1,
        col=1,
    )
    if normalised_last:
        figure.add_scatter(
            **_line(places, summed[:, position], full, "dot"),
            name="the sum, before its normalisation",
            hovertemplate="sum: %{y:.2f}<extra></extra>",
            row=1,
            col=1,
        )
    leaves = "the stream that leaves" + (", normalised" if normalised_last else "")
    figure.add_scatter(
        **_line(places, after[:, position], full, "solid"),
        name=leaves,
        hovertemplate="leaves: %{y:.2f}<extra></extra>",
        row=1,
        col=1,
    )
    others = [other for other in range(likeness.shape[1]) if other != position]
    if others:
        figure.add_scatter(
            x=np.tile([*places, np.nan], len(others)),
            y=np.concatenate([[*likeness[:, other], np.nan] for other in others]),
            mode="lines",
            line={"color": quiet, "width": 1},
            opacity=0.5,
            hoverinfo="skip",
            showlegend=False,
            row=2,
            col=1,
        )
    figure.add_scatter(
        **_line(places, likeness[:, position], full, "solid"),
        showlegend=False,
        hovertemplate="cosine: %{y:.3f}<extra></extra>",
        row=2,
        col=1,
    )
    figure.update_layout(
        **{**theme.base_layout(colours), "showlegend": True},
        height=480,
        margin={"l": 64, "r": 16, "t": 56, "b": 118},
        hovermode="x",
        legend=_legend(colours),
    )
    figure.update_xaxes(range=[-0.6, len(names) - 0.4], showgrid=False, zeroline=False, fixedrange=True, ticks="")
    figure.update_xaxes(
        tickvals=places,
        ticktext=[escape(name) for name in names],
        tickangle=-40,
        tickfont={"size": 12, "color": colours.text},
        row=2,
        col=1,
    )
    figure.update_yaxes(**_values("length (norm)", colours), rangemode="tozero", row=1, col=1)
    low = min(0.0, float(np.min(likeness, initial=0.0)))
    figure.update_yaxes(**_values("cosine with<br>what entered", colours), range=[1.1 * low, 1.05], row=2, col=1)
    return figure


def value_histograms(
    vectors: Sequence[NDArray[np.floating]], names: Sequence[str], kind: str, colours: Palette
) -> go.Figure:
    """Draw the D numbers of each of several vectors as histograms below each other on one scale, with mean and spread.

    A line marks the mean; the band reaches one standard deviation to both sides.

    Args:
        vectors: each [D].
        names: what each is called.
        kind: ``encoder`` or ``decoder``, for the colour.
        colours: the theme's palette.
    """
    full = theme.kind_colour(kind, colours)
    figure = make_subplots(
        rows=len(vectors), cols=1, shared_xaxes=True, vertical_spacing=0.13, subplot_titles=[escape(n) for n in names]
    )
    edges = _edges(np.concatenate([np.asarray(vector, dtype=np.float64) for vector in vectors]))
    shapes: list[dict[str, Any]] = []
    for row, vector in enumerate(vectors, start=1):
        figure.add_trace(_histogram(vector, edges, full), row=row, col=1)
        mean, spread = float(np.mean(vector)), float(np.std(vector))
        band = {"fillcolor": full, "opacity": 0.13, "line": {"width": 0}, "layer": "below"}
        shapes.append({"type": "rect", "x0": mean - spread, "x1": mean + spread, **_upright(row), **band})
        line = {"color": colours.text, "width": 2}
        shapes.append({"type": "line", "x0": mean, "x1": mean, **_upright(row), "line": line})
        figure.update_yaxes(**_values("numbers", colours), rangemode="tozero", nticks=3, row=row, col=1)
    figure.update_annotations(font={"size": 13, "color": colours.text}, x=0, xanchor="left")
    figure.update_layout(
        **theme.base_layout(colours),
        height=60 + 130 * len(vectors),
        margin={"l": 64, "r": 16, "t": 30, "b": 30},
        bargap=0.06,
        shapes=shapes,
    )
    figure.update_xaxes(
        showgrid=False, zeroline=True, zerolinecolor=colours.line, fixedrange=True, tickfont={"color": colours.muted}
    )
    return figure


def parameter_histograms(
    gain: NDArray[np.floating], bias: NDArray[np.floating], kind: str, colours: Palette
) -> go.Figure:
    """Draw learned gamma and beta [D] as two histograms, with a dotted line where training began (1 and 0)."""
    full = theme.kind_colour(kind, colours)
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.12, subplot_titles=("γ, the gain", "β, the bias"))
    shapes: list[dict[str, Any]] = []
    for column, (values, begin) in enumerate(((gain, 1.0), (bias, 0.0)), start=1):
        edges = _edges(np.append(np.asarray(values, dtype=np.float64), begin))
        figure.add_trace(_histogram(values, edges, full), row=1, col=column)
        line = {"color": colours.text, "width": 2, "dash": "dot"}
        shapes.append({"type": "line", "x0": begin, "x1": begin, **_upright(column), "line": line})
        figure.update_yaxes(**_values("dimensions", colours), rangemode="tozero", row=1, col=column)
    figure.update_layout(
        **theme.base_layout(colours),
        height=250,
        margin={"l": 64, "r": 16, "t": 36, "b": 30},
        bargap=0.06,
        shapes=shapes,
    )
    figure.update_annotations(font={"size": 13, "color": colours.text})
    figure.update_xaxes(showgrid=False, zeroline=False, fixedrange=True, tickfont={"color": colours.muted})
    return figure


def padding_lines(
    shares: NDArray[np.floating],
    columns: Sequence[int],
    batch_moved: NDArray[np.floating],
    layer_moved: NDArray[np.floating],
    kind: str,
    colours: Palette,
) -> go.Figure:
    """Draw how far both normalisations of one vector move while padding is put behind its batch.

    Args:
        shares: [P] the share of the batch that is padding.
        columns: P numbers of columns of padding.
        batch_moved: [P] by batch normalisation, as a share of the vector's length.
        layer_moved: [P] by layer normalisation.
        kind: ``encoder`` or ``decoder``, for the colour.
        colours: the theme's palette.
    """
    full = theme.kind_colour(kind, colours)
    figure = go.Figure()
    for name, moved, colour, dash in (
        ("batch normalisation", batch_moved, colours.muted, "dash"),
        ("layer normalisation", layer_moved, full, "solid"),
    ):
        figure.add_scatter(
            **_line(100 * np.asarray(shares), 100 * np.asarray(moved), colour, dash),
            name=name,
            customdata=list(columns),
            hovertemplate=f"{name}: moved by %{{y:.2g}} %<br>%{{customdata}} more columns, %{{x:.0f}} % padding"
            "<extra></extra>",
        )
    top = float(max(np.max(batch_moved, initial=0.0), np.max(layer_moved, initial=0.0), 0.05))
    figure.update_layout(
        **{**theme.base_layout(colours), "showlegend": True},
        height=300,
        margin={"l": 76, "r": 16, "t": 40, "b": 54},
        legend=_legend(colours),
    )
    figure.update_xaxes(
        **_values("share of the batch that is padding", colours), ticksuffix=" %", rangemode="tozero", showline=False
    )
    figure.update_yaxes(**_values("how far the result moved", colours), ticksuffix=" %", range=[-4 * top, 110 * top])
    return figure


def _line(x: Sequence[float] | NDArray[np.floating], y: NDArray[np.floating], colour: str, dash: str) -> dict[str, Any]:
    return {
        "x": x,
        "y": y,
        "mode": "lines+markers",
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {"color": colour, "size": 7},
    }


def _edges(values: NDArray[np.floating]) -> NDArray[np.float64]:
    low, high = float(np.min(values)), float(np.max(values))
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, BINS + 1)


def _histogram(values: NDArray[np.floating], edges: NDArray[np.float64], colour: str) -> go.Bar:
    counts, _ = np.histogram(np.asarray(values, dtype=np.float64), bins=edges)
    spans = [f"{low:.2f} to {high:.2f}" for low, high in itertools.pairwise(edges)]
    return go.Bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=counts,
        width=np.diff(edges) * 0.94,
        marker={"color": colour},
        customdata=spans,
        hovertemplate="%{y} from %{customdata}<extra></extra>",
    )


def _upright(panel: int) -> dict[str, Any]:
    """The whole height of one of several panels, from 1."""
    number = "" if panel == 1 else str(panel)
    return {"xref": f"x{number}", "yref": f"y{number} domain", "y0": 0, "y1": 1}


def _values(title: str, colours: Palette) -> dict[str, Any]:
    """An axis of numbers."""
    return {
        "title": {"text": title, "font": {"size": 12, "color": colours.muted}, "standoff": 8},
        "tickfont": {"size": 11, "color": colours.muted},
        "gridcolor": colours.line,
        "zeroline": False,
        "fixedrange": True,
    }


def _legend(colours: Palette) -> dict[str, Any]:
    """Above the picture, in one line where there is room."""
    return {
        "orientation": "h",
        "x": 0,
        "y": 1.0,
        "yanchor": "bottom",
        "font": {"size": 12, "color": colours.text},
        "bgcolor": colours.background,
        "itemclick": False,
        "itemdoubleclick": False,
    }
