"""The learning rate over the steps: warm-up and decay, chosen and as a checkpoint was trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.plots import labels, theme
from transformer.plots.theme import Palette


@dataclass(frozen=True, eq=False)
class Rate:
    """One schedule."""

    name: str
    steps: NDArray[np.int64]
    rates: NDArray[np.float64]
    chosen: bool = False
    """Drawn strongly, its peak named."""


def rate_curves(rates: Sequence[Rate], colours: Palette) -> go.Figure:
    """Draw schedules over one step axis, each named where it is highest.

    Args:
        rates: the schedules; those chosen are drawn over the others.
        colours: the theme's palette.
    """
    figure = go.Figure()
    notes = []
    for rate in sorted(rates, key=lambda one: one.chosen):
        colour = colours.probability if rate.chosen else colours.muted
        figure.add_trace(
            go.Scatter(
                x=rate.steps,
                y=rate.rates,
                mode="lines",
                line={"color": colour, "width": 2.5 if rate.chosen else 1.5, "dash": "solid" if rate.chosen else "dot"},
                hovertemplate=f"{labels.escape(rate.name)}<br>step %{{x:,}}: %{{y:.3e}}<extra></extra>",
            )
        )
        top = int(np.argmax(rate.rates))
        late = rate.steps[top] > 0.6 * max(int(one.steps[-1]) for one in rates)
        notes.append(
            {
                "text": f"{labels.escape(rate.name)}<br>peak {rate.rates[top]:.2e} at step {rate.steps[top]:,}",
                "x": int(rate.steps[top]),
                "y": float(rate.rates[top]),
                "xanchor": "right" if late else "left",
                "yanchor": "bottom",
                "align": "right" if late else "left",
                "showarrow": False,
                "font": {"size": 12, "color": colour},
            }
        )
    highest = max(float(rate.rates.max()) for rate in rates)
    figure.update_layout(
        **theme.base_layout(colours), height=320, margin={"l": 70, "r": 16, "t": 16, "b": 46}, annotations=notes
    )
    axis = {
        "gridcolor": colours.line,
        "zeroline": False,
        "fixedrange": True,
        "ticks": "",
        "tickfont": {"size": 11, "color": colours.muted},
    }
    title = {"size": 12, "color": colours.muted}
    figure.update_xaxes(
        **axis, rangemode="tozero", tickformat=",", title={"text": "updates", "font": title, "standoff": 6}
    )
    figure.update_yaxes(
        **axis,
        range=[0, 1.3 * highest],
        nticks=6,
        exponentformat="power",
        title={"text": "learning rate", "font": title},
    )
    return figure
