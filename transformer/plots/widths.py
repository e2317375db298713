"""Score and length of the best translation against the beam size."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from transformer.errors import InputError, problem
from transformer.plots import labels, theme
from transformer.plots.theme import Palette

HEIGHT = 270
"""Pixels of both panels with their labels."""


def beam_widths(
    widths: Sequence[int],
    scores: Sequence[float],
    lengths: Sequence[int],
    texts: Sequence[str],
    colours: Palette,
    chosen: int | None = None,
) -> go.Figure:
    """Draw the score as a line, and the length as bars below it. A hollow mark has the text of the width before it.

    Args:
        widths: beam sizes, ascending.
        scores: of the best translation for each.
        lengths: its pieces, <EOS> included.
        texts: the translation, for hover.
        colours: the theme's palette.
        chosen: the beam size to outline.

    Raises:
        InputError: no width, or lists of different lengths.
    """
    if not widths or not len(widths) == len(scores) == len(lengths) == len(texts):
        sizes = (len(widths), len(scores), len(lengths), len(texts))
        raise InputError(problem("widths", "must be as many as scores, lengths and texts", sizes, "give one of each"))
    new = [place == 0 or text != texts[place - 1] for place, text in enumerate(texts)]
    said = [
        f"beam size {width}: score {score:.3f}, {length} pieces<br>{labels.escape(labels.visible(text))}"
        for width, score, length, text in zip(widths, scores, lengths, texts, strict=True)
    ]
    shown = {"x": list(widths), "text": said, "hovertemplate": "%{text}<extra></extra>"}
    figure = go.Figure()
    figure.add_scatter(
        **shown,
        y=list(scores),
        mode="lines+markers",
        line={"color": colours.probability, "width": 2},
        marker={
            "size": 10,
            "color": [colours.probability if fresh else colours.background for fresh in new],
            "line": {"color": colours.probability, "width": 2},
        },
    )
    numbers = {"textfont": {"size": 11, "color": colours.muted}, "texttemplate": "%{y}", "textposition": "outside"}
    figure.add_bar(
        **shown, **numbers, y=list(lengths), yaxis="y2", width=0.5, marker={"color": colours.muted}, cliponaxis=False
    )
    low, high = min(scores), max(scores)
    room = 0.15 * (high - low) or 0.1
    plain = {"zeroline": False, "fixedrange": True, "ticks": "", "tickfont": {"size": 12, "color": colours.muted}}
    titled = {"font": {"size": 13, "color": colours.muted}, "standoff": 8}
    figure.update_layout(
        **theme.base_layout(colours),
        height=HEIGHT,
        margin={"l": 66, "r": 12, "t": 12, "b": 44},
        xaxis={
            **plain,
            "showgrid": False,
            "tickvals": list(widths),
            "range": [min(widths) - 0.6, max(widths) + 0.6],
            "title": {"text": "beam size", **titled},
            "anchor": "y2",
        },
        yaxis={
            **plain,
            "domain": [0.5, 1.0],
            "range": [low - room, high + room],
            "nticks": 4,
            "tickformat": ".2f",
            "gridcolor": colours.line,
            "title": {"text": "score", **titled},
        },
        yaxis2={
            **plain,
            "domain": [0.0, 0.36],
            "range": [0.0, 1.3 * max(lengths)],
            "showticklabels": False,
            "showgrid": False,
            "title": {"text": "pieces", **titled},
        },
    )
    if chosen is not None and chosen in widths:
        box = {"type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1}
        outline = {"line": {"color": colours.text, "width": 2}, "layer": "below"}
        figure.update_layout(shapes=[{**box, **outline, "x0": chosen - 0.45, "x1": chosen + 0.45}])
    return figure
