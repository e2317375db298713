"""Pictures of a translation being written: what each step weighed, and what the length penalty makes of hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.plots import labels, theme
from transformer.plots.theme import Palette


def weighed(
    pieces: Sequence[str],
    chosen: NDArray[np.floating[Any]],
    rivals: Sequence[str],
    rival: NDArray[np.floating[Any]],
    end: NDArray[np.floating[Any]],
    colours: Palette,
) -> go.Figure:
    """Draw for each step what was written (bar), the most probable other piece (diamond) and <EOS> (line).

    Args:
        pieces: T labels of what was written.
        chosen: [T] their probabilities.
        rivals: T labels.
        rival: [T] probabilities of the rivals.
        end: [T] probabilities of <EOS>.
        colours: the theme's palette.
    """
    shown, others = ([labels.escape(labels.visible(piece)) for piece in side] for side in (pieces, rivals))
    places = list(range(len(shown)))
    written = go.Bar(
        name="what was written",
        x=places,
        y=chosen,
        width=0.72,
        marker={"color": colours.probability},
        customdata=[f"{place + 1}. '{shown[place]}' {labels.percent(float(chosen[place]))}" for place in places],
        hovertemplate="%{customdata}<extra></extra>",
    )
    second = go.Scatter(
        name="the most probable other piece",
        x=places,
        y=rival,
        mode="markers+text" if len(shown) <= 18 else "markers",
        text=[other if share >= 0.02 else "" for other, share in zip(others, rival, strict=True)],
        textposition="top center",
        textfont={"family": theme.MONO, "size": 11, "color": colours.text},
        marker={
            "symbol": "diamond",
            "size": 9,
            "color": colours.cross,
            "line": {"color": colours.background, "width": 1},
        },
        customdata=[f"{place + 1}. '{others[place]}' {labels.percent(float(rival[place]))}" for place in places],
        hovertemplate="%{customdata}<extra></extra>",
    )
    ending = go.Scatter(
        name="&lt;EOS&gt;, the end",
        x=places,
        y=end,
        mode="lines+markers",
        line={"color": colours.text, "width": 1.5, "dash": "dot"},
        marker={"size": 4},
        customdata=[f"{place + 1}. &lt;EOS&gt; {labels.percent(float(end[place]))}" for place in places],
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure = go.Figure([written, second, ending])
    below = int(np.clip(7 * max((len(piece) for piece in pieces), default=1), 30, 130)) + 14
    figure.update_layout(
        **{**theme.base_layout(colours), "showlegend": True},
        height=270 + below,
        margin={"l": 56, "r": 10, "t": 34, "b": below},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"color": colours.text}},
    )
    figure.update_xaxes(
        tickvals=places,
        ticktext=shown,
        tickangle=-90 if len(shown) > 24 else -50,
        tickfont={"family": theme.MONO, "size": 12, "color": colours.text},
        range=[-0.6, len(shown) - 0.4],
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        ticks="",
    )
    figure.update_yaxes(**_axis(colours, "probability"), range=[0, 1.08], tickformat=".0%", nticks=6)
    return figure


def by_alpha(
    alphas: Sequence[float],
    scores: NDArray[np.float64],
    names: Sequence[str],
    chosen: float,
    colours: Palette,
) -> go.Figure:
    """Draw the score of each hypothesis over the exponent of the length penalty; the best at ``chosen`` stands out.

    Args:
        alphas: A exponents, growing.
        scores: [N, A].
        names: N, what a hypothesis is called on hover.
        chosen: an exponent among ``alphas``.
        colours: the theme's palette.
    """
    at = int(np.argmin(np.abs(np.asarray(alphas) - chosen)))
    winner = int(np.argmax(scores[:, at])) if len(scores) else -1
    figure = go.Figure()
    for place, row in enumerate(scores):
        best = place == winner
        figure.add_trace(
            go.Scatter(
                x=list(alphas),
                y=row,
                mode="lines",
                line={"color": colours.cross if best else colours.muted, "width": 3 if best else 1.2},
                customdata=[labels.escape(names[place])] * len(alphas),
                hovertemplate="%{customdata}<br>α %{x:.2f}: score %{y:.3f}<extra></extra>",
            )
        )
    notes = [
        {
            "text": str(place + 1),
            "x": alphas[-1],
            "y": float(row[-1]),
            "xanchor": "left",
            "showarrow": False,
            "xshift": 4 + 14 * (place % 2),
            "font": {"size": 11, "color": colours.cross if place == winner else colours.muted},
        }
        for place, row in enumerate(scores)
    ]
    figure.update_layout(
        **theme.base_layout(colours),
        height=320,
        margin={"l": 56, "r": 40, "t": 12, "b": 46},
        annotations=notes,
        shapes=[
            {
                "type": "line",
                "x0": chosen,
                "x1": chosen,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": colours.text, "width": 2},
            }
        ],
        hovermode="closest",
    )
    figure.update_xaxes(**_axis(colours, "α, exponent of the length penalty"))
    figure.update_yaxes(**_axis(colours, "score"), nticks=6)
    return figure


def _axis(colours: Palette, title: str) -> dict[str, Any]:
    return {
        "showgrid": True,
        "gridcolor": colours.line,
        "zeroline": False,
        "fixedrange": True,
        "ticks": "",
        "tickfont": {"size": 11, "color": colours.muted},
        "title": {"text": title, "font": {"size": 12, "color": colours.muted}},
    }
