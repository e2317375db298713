"""The pieces that could be written next, as bars with their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from transformer.plots import labels, theme
from transformer.plots.theme import Palette

ROW = 27
"""Height of one row in pixels."""
TOP, NUMBERS = 52, 150
"""Pixels above the bars, and at their right for the numbers."""


@dataclass(frozen=True)
class Bar:
    """One candidate."""

    id: int
    label: str
    rank: int
    """From 0."""
    probability: float
    log_prob: float
    unchanged: float | None = None
    """Its probability without the intervention; None if there is none, or if that is not known."""


def candidate_bars(
    bars: Sequence[Bar], rest: float, colours: Palette, *, chosen: int | None = None, compared: bool = False
) -> go.Figure:
    """Draw candidates as bars, the most probable on top, and under them what is left for all other pieces.

    Each row is also a transparent point field: choosing it gives the id of its piece as ``customdata``.

    Args:
        bars: the candidates, best first.
        rest: probability of all pieces that are not shown.
        colours: the theme's palette.
        chosen: id of the piece that was written; its row is outlined.
        compared: draw a second, grey bar for the probability without the intervention.
    """
    count = len(bars)
    names = [labels.escape(labels.visible(bar.label)) for bar in bars]
    ticks = [
        f"<b>{name}</b> {_rank(bar)}" if bar.id == chosen else f"{name} {_rank(bar)}"
        for name, bar in zip(names, bars, strict=True)
    ]
    figure = go.Figure()
    thick, lift = (0.36, -0.2) if compared else (0.62, 0.0)
    figure.add_bar(
        y=[row + lift for row in range(count + 1)],
        x=[*(bar.probability for bar in bars), rest],
        orientation="h",
        width=thick,
        marker={"color": [colours.probability] * count + [colours.line]},
        hoverinfo="skip",
    )
    if compared:
        figure.add_bar(
            y=[row + 0.2 for row in range(count)],
            x=[bar.unchanged or 0.0 for bar in bars],
            orientation="h",
            width=thick,
            marker={"color": theme.mix(colours.background, colours.muted, 0.6)},
            hoverinfo="skip",
        )
    field = {"marker": {"opacity": 0.0}}
    figure.add_bar(
        y=list(range(count)),
        x=[1.0] * count,
        orientation="h",
        width=1.0,
        marker={"color": colours.text, "opacity": 0.0},
        selected=field,
        unselected=field,
        customdata=[[bar.id] for bar in bars],
        hovertext=[_told(bar, name, compared) for bar, name in zip(bars, names, strict=True)],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure.update_layout(
        **theme.base_layout(colours),
        barmode="overlay",
        height=TOP + ROW * (count + 1) + 8,
        margin={"l": _space(bars), "r": NUMBERS, "t": TOP, "b": 8},
        annotations=[
            *_numbers(bars, rest, colours),
            *(
                _annotation(text, -1.0, shift, colours.muted)
                for text, shift in (("probability", 80), ("log-prob.", NUMBERS))
            ),
        ],
        shapes=[
            {
                "type": "rect",
                "x0": 0,
                "x1": 1,
                "y0": row - 0.46,
                "y1": row + 0.46,
                "line": {"color": colours.text, "width": 2},
            }
            for row, bar in enumerate(bars)
            if bar.id == chosen
        ],
    )
    figure.update_xaxes(
        range=[0, 1],
        side="top",
        tickvals=[0, 0.25, 0.5, 0.75, 1],
        ticktext=["0", "25 %", "50 %", "75 %", ""],
        tickfont={"size": 11, "color": colours.muted},
        gridcolor=colours.line,
        zeroline=False,
        fixedrange=True,
    )
    figure.update_yaxes(
        range=[count + 0.5, -0.5],
        tickvals=list(range(count + 1)),
        ticktext=[*ticks, f"<span style='color:{colours.muted}'>all other pieces\u2007</span>"],
        tickfont={"family": theme.MONO, "size": 13, "color": colours.text},
        ticks="",
        showgrid=False,
        zeroline=False,
        fixedrange=True,
    )
    return figure


def _rank(bar: Bar) -> str:
    return f"{bar.rank + 1:>3} ".replace(" ", "\u2007")


def _told(bar: Bar, name: str, compared: bool) -> str:
    text = f"'{name}' · rank {bar.rank + 1} · id {bar.id}<br>probability {labels.percent(bar.probability)}, "
    text += f"log-probability {bar.log_prob:.4f}"
    if compared:
        before = "not among those read" if bar.unchanged is None else labels.percent(bar.unchanged)
        text += f"<br>without the intervention: {before}"
    return text + "<br>click to write this piece here"


def _numbers(bars: Sequence[Bar], rest: float, colours: Palette) -> list[dict[str, object]]:
    found = []
    for row, bar in enumerate(bars):
        found.append(_annotation(labels.percent(bar.probability), row, 80, colours.text))
        found.append(_annotation(f"{bar.log_prob:.2f}", row, NUMBERS, colours.muted))
    found.append(_annotation(labels.percent(rest), len(bars), 80, colours.muted))
    return found


def _annotation(text: str, row: float, right: int, colour: str) -> dict[str, object]:
    """A number in the margin: its right edge is ``right`` pixels behind the bars."""
    place = {"y": row, "yref": "y"} if row >= 0 else {"y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 4}
    return {
        **place,
        "x": 1,
        "xref": "paper",
        "xanchor": "right",
        "xshift": right - 4,
        "text": text,
        "showarrow": False,
        "font": {"size": 12 if row >= 0 else 11, "color": colour},
    }


def _space(bars: Sequence[Bar]) -> int:
    longest = max((len(bar.label) for bar in bars), default=1)
    return min(max(8 * (longest + 5), 140), 240)
