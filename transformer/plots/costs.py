"""How something grows with a length, and what pieces of a translation are worth before and after a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.plots import labels, theme
from transformer.plots.theme import Palette

HEIGHT = 330
"""Pixels of a picture with curves."""
COLUMN = 34
"""Least width of one piece in ``compared_bars``, pixels."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One line of a picture."""

    name: str
    values: NDArray[Any]
    """[N], one for each length."""
    said: tuple[str, ...] = ()
    """What each point says when it is pointed at, plain text; its number if empty."""


def growth(
    lengths: Sequence[float] | NDArray[Any],
    curves: Sequence[Curve],
    colours: Palette,
    *,
    across: str,
    up: str,
    here: float | None = None,
    here_name: str = "",
    logarithmic: bool = True,
    ticks: Sequence[float] | None = None,
) -> go.Figure:
    """Draw how several things grow, both axes logarithmic, so that a power of the length is a straight line.

    The first curve has the colour of self-attention.

    Args:
        lengths: [N] positions on the axis across.
        curves: the lines, each [N].
        colours: the theme's palette.
        across: title of the axis across.
        up: title of the axis up, with its unit.
        here: where a vertical line stands; none if it is outside of the lengths.
        here_name: what is written at that line.
        logarithmic: whether the axis up is; the axis across always is.
        ticks: what stands at the axis across; the lengths themselves if None.
    """
    # one call with everything: changing a finished figure costs Plotly several times as much
    return go.Figure(
        [_line(lengths, curve, index, colours) for index, curve in enumerate(curves)],
        {
            **theme.base_layout(colours),
            "showlegend": len(curves) > 1,
            "height": HEIGHT,
            "margin": {"l": 76, "r": 20, "t": 62, "b": 50},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": colours.background},
            "hovermode": "closest",
            **_axes(lengths if ticks is None else ticks, across, up, logarithmic, _decades(curves), colours),
            **(_mark(lengths, here, here_name, logarithmic, colours) if here is not None else {}),
        },
    )


def _line(lengths: Sequence[float] | NDArray[Any], curve: Curve, index: int, colours: Palette) -> dict[str, Any]:
    colour, dash = (colours.encoder, "solid") if index == 0 else theme.head_style(index, colours)
    values, name = np.asarray(curve.values, dtype=np.float64), labels.escape(curve.name)
    said = curve.said or tuple(f"{value:,.4g}" for value in values)
    return {
        "type": "scatter",
        "x": np.asarray(lengths, dtype=np.float64),
        "y": values,
        "name": name,
        "mode": "lines+markers",
        "line": {"color": colour, "width": 2.5, "dash": dash},
        "marker": {"size": 6, "color": colour},
        "customdata": [f"{name}: {labels.escape(text)}" for text in said],
        "hovertemplate": "%{x:,}: %{customdata}<extra></extra>",
    }


def _axes(
    ticks: Sequence[float] | NDArray[Any], across: str, up: str, logarithmic: bool, decades: float, colours: Palette
) -> dict[str, Any]:
    style: dict[str, Any] = {"gridcolor": colours.line, "zeroline": False, "fixedrange": True, "ticks": ""}
    style["tickfont"] = {"size": 11, "color": colours.muted}
    font = {"size": 13, "color": colours.muted}
    at = [float(tick) for tick in ticks]
    x: dict[str, Any] = {
        "type": "log",
        "tickvals": at,
        "ticktext": [f"{tick:g}" for tick in at],
        "title": {"text": across},
    }
    y: dict[str, Any] = {"type": "linear", "rangemode": "tozero", "title": {"text": up}, "exponentformat": "SI"}
    if logarithmic:
        y |= {"type": "log", "rangemode": "normal", "dtick": 1 if decades >= 1.5 else None}
    for axis in (x, y):
        axis["title"]["font"] = font
    return {"xaxis": {**style, **x}, "yaxis": {**style, **y}}


def _mark(
    lengths: Sequence[float] | NDArray[Any], here: float, name: str, logarithmic: bool, colours: Palette
) -> dict[str, Any]:
    """A vertical line with its name beside it, on the side that has more room."""
    low, high = float(min(lengths)), float(max(lengths))
    if not low <= here <= high:
        return {}
    right = here < float(np.sqrt(low * high))
    return {
        "shapes": [
            {"type": "line", "x0": here, "x1": here, "y0": 0, "y1": 1, "yref": "y domain"}
            | {"line": {"color": colours.text, "width": 1.5, "dash": "dot"}}
        ],
        "annotations": [
            {
                "x": float(np.log10(here)),
                # powers grow towards the upper right, shares stay near the top
                **({"y": 0.97, "yanchor": "top"} if logarithmic else {"y": 0.04, "yanchor": "bottom"}),
                "yref": "y domain",
                "xanchor": "left" if right else "right",
                "xshift": 5 if right else -5,
                "text": labels.escape(name),
                "showarrow": False,
                "font": {"size": 12, "color": colours.text},
                "bgcolor": colours.background,
            }
        ],
    }


def _decades(curves: Sequence[Curve]) -> float:
    """Powers of ten between the smallest and the largest number above zero; with one tick a power, few need more."""
    every = np.concatenate([np.asarray(curve.values, dtype=np.float64) for curve in curves])
    above = every[every > 0.0]
    return float(np.log10(above.max() / above.min())) if above.size else 0.0


def compared_bars(
    pieces: Sequence[str],
    usual: NDArray[np.floating],
    changed: NDArray[np.floating],
    names: tuple[str, str],
    colours: Palette,
) -> go.Figure:
    """Draw two probabilities of each piece of a translation side by side.

    Args:
        pieces: the T pieces.
        usual: [T] probabilities of the model as it is.
        changed: [T] the same with something changed.
        names: what the two are called, in this order.
        colours: the theme's palette.
    """
    shown = [labels.escape(labels.visible(piece)) for piece in pieces]
    figure = go.Figure()
    shades = (colours.probability, theme.mix(colours.background, colours.muted, 0.7))
    for name, values, shade in zip(names, (usual, changed), shades, strict=True):
        figure.add_bar(
            x=np.arange(len(shown)),
            y=np.asarray(values, dtype=np.float64),
            name=labels.escape(name),
            marker={"color": shade},
            customdata=[
                f"'{piece}' {labels.escape(name)}: {labels.percent(float(value))}"
                for piece, value in zip(shown, values, strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    upright, longest = len(shown) > 24, max(map(len, pieces), default=1)
    figure.update_layout(
        **{**theme.base_layout(colours), "showlegend": True},
        height=300,
        barmode="group",
        bargap=0.25,
        margin={
            "l": 60,
            "r": 12,
            "t": 40,
            "b": 28 + min((8 if upright else 5) * longest, 120),
        },
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": colours.background},
    )
    figure.update_xaxes(
        tickvals=list(range(len(shown))),
        ticktext=shown,
        tickangle=-90 if upright else -40,
        range=[-0.6, len(shown) - 0.4],
        tickfont={"family": theme.MONO, "size": 12, "color": colours.text},
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        ticks="",
    )
    figure.update_yaxes(
        range=[0, 1],
        tickvals=[0, 0.25, 0.5, 0.75, 1],
        ticktext=["0", "25", "50", "75", "100 %"],
        title={"text": "probability", "font": {"size": 13, "color": colours.muted}},
        tickfont={"size": 11, "color": colours.muted},
        gridcolor=colours.line,
        zeroline=False,
        fixedrange=True,
    )
    return figure


def compared_width(pieces: Sequence[str]) -> int:
    """Least width of ``compared_bars`` in pixels."""
    return 80 + COLUMN * len(pieces)
