"""Figures over the updates of a training, or over steps of any kind: panels on top of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.plots import labels, theme
from transformer.plots.theme import Palette

PANEL = 150
"""Height of one panel in pixels."""
NAMES = 118
"""Pixels at the right for the names of the lines."""


@dataclass(frozen=True, eq=False)
class Line:
    """One figure over the steps."""

    name: str
    """What stands at its end."""
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    quiet: bool = False
    """Drawn thin and grey: what the eye shall not follow first."""
    points: bool = False
    """Every value is marked: few of them, and measured at just these steps."""


@dataclass(frozen=True)
class Panel:
    """Several lines of the same unit over one step axis."""

    title: str
    """What is drawn, with its unit."""
    lines: tuple[Line, ...]
    logarithmic: bool = False
    decimals: int = 2
    """In the numbers on hover."""
    scientific: bool = False
    """Numbers on hover as in 3.5e-04, with as many decimals."""


def panels(
    shown: Sequence[Panel],
    colours: Palette,
    *,
    marks: Sequence[int] = (),
    chosen: int | None = None,
    logarithmic_steps: bool = False,
    height: int = PANEL,
    axis: str = "updates",
    named: bool = True,
) -> go.Figure:
    """Draw panels on top of each other over one step axis.

    Args:
        shown: the panels, from the top.
        colours: the theme's palette.
        marks: steps with a dotted upright line through all panels.
        chosen: a step with a strong upright line.
        logarithmic_steps: the step axis shows powers of ten evenly; steps of 0 are then left out.
        height: of one panel, in pixels.
        axis: what the steps are.
        named: the lines' names stand at their ends; needless where a panel has but one.
    """
    count = max(len(shown), 1)
    gap = min(0.32 / count, 0.12)
    room = (1.0 - gap * (count - 1)) / count
    top, bottom = 34, 46
    figure = go.Figure()
    layout: dict[str, Any] = {}
    notes: list[dict[str, Any]] = []
    for number, panel in enumerate(shown):
        suffix = "" if number == 0 else str(number + 1)
        high = 1.0 - number * (room + gap)
        for line in panel.lines:
            figure.add_trace(_line(line, panel, colours, f"y{suffix}", logarithmic_steps))
        layout[f"yaxis{suffix}"] = {
            **plain_axis(colours),
            "domain": [max(high - room, 0.0), high],
            "type": "log" if panel.logarithmic else "linear",
            "nticks": 5,
            "exponentformat": "power",
            "minexponent": 4,
        }
        notes.append(
            {
                "text": f"<b>{labels.escape(panel.title)}</b>",
                "x": 0,
                "xref": "paper",
                "xanchor": "left",
                "y": high,
                "yref": "paper",
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": 12, "color": colours.text},
            }
        )
        if named:
            notes += _names(panel, f"y{suffix}", colours)
    figure.update_layout(
        **theme.base_layout(colours),
        **layout,
        height=top + bottom + height * count + 24 * (count - 1),
        margin={"l": 56, "r": NAMES if named else 16, "t": top, "b": bottom},
        annotations=notes,
        shapes=[_upright(step, colours.muted, 1, "dot") for step in marks]
        + ([_upright(chosen, colours.text, 2, "solid")] if chosen is not None else []),
        hovermode="closest",
    )
    figure.update_xaxes(
        **plain_axis(colours),
        type="log" if logarithmic_steps else "linear",
        dtick=1 if logarithmic_steps else None,
        title={"text": axis, "font": {"size": 12, "color": colours.muted}, "standoff": 6},
        tickformat=",",
        anchor=f"y{count}" if count > 1 else "y",
        rangemode="normal" if logarithmic_steps else "tozero",
    )
    return figure


def _line(line: Line, panel: Panel, colours: Palette, axis: str, logarithmic_steps: bool) -> go.Scatter:
    keep = line.steps > 0 if logarithmic_steps else np.ones(len(line.steps), dtype=bool)
    number = f"%{{y:.{panel.decimals}{'e' if panel.scientific else 'f'}}}"
    return go.Scatter(
        x=line.steps[keep],
        y=line.values[keep],
        yaxis=axis,
        mode="lines+markers" if line.points else "lines",
        line={"color": _colour(line, colours), "width": 1.2 if line.quiet else 2},
        marker={"size": 6, "color": _colour(line, colours)},
        hovertemplate=f"{labels.escape(line.name)}, %{{x}}: {number}<extra></extra>",
    )


def _colour(line: Line, colours: Palette) -> str:
    return colours.muted if line.quiet else colours.probability if line.points else colours.text


def _names(panel: Panel, axis: str, colours: Palette) -> list[dict[str, Any]]:
    """The names of the lines at their ends, so far apart that none covers another."""
    ends = [(float(line.values[-1]), line) for line in panel.lines if len(line.values)]
    if not ends:
        return []
    every = np.concatenate([line.values for _, line in ends])
    if panel.logarithmic:
        every = np.log10(every[every > 0]) if (every > 0).any() else np.zeros(1)
    spread = float(np.ptp(every)) or 1.0
    found, before = [], -np.inf
    for value, line in sorted(ends, key=lambda end: end[0]):
        place = float(np.log10(value)) if panel.logarithmic and value > 0 else value
        place = max(place, before + 0.14 * spread)
        before = place
        found.append(
            {
                "text": labels.escape(line.name),
                "x": 1,
                "xref": "paper",
                "xanchor": "left",
                "xshift": 6,
                "y": place,
                "yref": axis,
                "showarrow": False,
                "font": {"size": 11, "color": _colour(line, colours)},
            }
        )
    return found


def plain_axis(colours: Palette) -> dict[str, Any]:
    """An axis with a quiet grid that stays where it is."""
    return {
        "gridcolor": colours.line,
        "zeroline": False,
        "fixedrange": True,
        "ticks": "",
        "tickfont": {"size": 11, "color": colours.muted},
    }


def _upright(step: int, colour: str, width: int, dash: str) -> dict[str, Any]:
    return {
        "type": "line",
        "x0": step,
        "x1": step,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "layer": "below",
        "line": {"color": colour, "width": width, "dash": dash},
    }
