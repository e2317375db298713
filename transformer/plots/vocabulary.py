"""The output layer: logits of the whole vocabulary, the softmax at a temperature, and what each layer would have said.

Letters: L layers of the decoder, T positions, V vocabulary.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.plots import theme
from transformer.plots.heatmap import against_the_rest, label_space, piece_axis
from transformer.plots.labels import escape, percent, visible
from transformer.plots.theme import Palette

BINS = 60
"""Bars of the histogram."""
CELL = 64
"""Least width in pixels of a cell with a piece in it."""
LONGEST = 10
"""Signs of a piece that a cell has room for."""


def logit_histogram(logits: NDArray[np.floating], marks: Sequence[tuple[str, float]], colours: Palette) -> go.Figure:
    """Draw how the logits [V] of one position are spread, and where some pieces stand among them.

    The counts are on a logarithmic axis: most pieces crowd in the middle, and a handful at the right matters.

    Args:
        logits: [V]
        marks: label and logit of the pieces to name, the largest first.
        colours: the theme's palette.
    """
    low, high = float(np.min(logits)), float(np.max(logits))
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    counts, _ = np.histogram(logits, bins=edges)
    tall = max(float(counts.max()), 10.0)
    figure = go.Figure(
        go.Bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=np.where(counts > 0, counts, np.nan),
            width=np.diff(edges) * 0.94,
            marker={"color": theme.mix(colours.background, colours.muted, 0.6)},
            customdata=[f"{a:.2f} to {b:.2f}" for a, b in itertools.pairwise(edges)],
            hovertemplate="%{y} pieces have a logit of %{customdata}<extra></extra>",
        )
    )
    figure.update_layout(
        **theme.base_layout(colours),
        height=290,
        margin={"l": 64, "r": 40, "t": 16, "b": 48},
        annotations=[
            {
                "x": value,
                "y": 0.0 + 0.3,
                "yref": "y",
                "ax": 0,
                "ay": -34 - 24 * place,
                "text": f"{escape(visible(label))} {value:.1f}",
                "font": {"family": theme.MONO, "size": 12, "color": colours.text},
                "bgcolor": colours.background,
                "arrowcolor": colours.probability,
                "arrowwidth": 1.5,
                "arrowhead": 2,
                "xanchor": "right" if value > low + 0.8 * (high - low) else "center",
            }
            for place, (label, value) in enumerate(marks)
        ],
    )
    quiet = {"size": 12, "color": colours.muted}
    figure.update_xaxes(
        title={"text": "logit", "font": quiet}, showgrid=False, zeroline=False, fixedrange=True, tickfont=quiet
    )
    figure.update_yaxes(
        title={"text": "pieces", "font": quiet},
        type="log",
        range=[-0.3, np.log10(tall) + 0.35],
        tickvals=[1, 10, 100, 1000, 10000, 100000],
        ticktext=["1", "10", "100", "1,000", "10,000", "100,000"],
        gridcolor=colours.line,
        tickfont=quiet,
        fixedrange=True,
    )
    return figure


def temperature_bars(
    labels: Sequence[str],
    probabilities: Sequence[float],
    usual: Sequence[float],
    rest: tuple[float, float],
    written: int | None,
    colours: Palette,
) -> go.Figure:
    """Draw the probabilities of some pieces at a temperature, and in grey behind them those at temperature 1.

    Args:
        labels: the pieces, the most probable first.
        probabilities: of each at the temperature.
        usual: of each at temperature 1.
        rest: what is left for all other pieces, at the temperature and at 1.
        written: which of them is written, from 0; outlined. None if it is not among them.
        colours: the theme's palette.
    """
    count = len(labels)
    rows = list(range(count + 1))
    names = [escape(visible(label)) for label in labels]
    now, before = [*probabilities, rest[0]], [*usual, rest[1]]
    said = [f"'{name}'" for name in names] + ["all other pieces"]
    figure = go.Figure()
    figure.add_bar(
        x=[100 * share for share in before],
        y=rows,
        orientation="h",
        width=0.8,
        marker={"color": theme.mix(colours.background, colours.muted, 0.35)},
        hoverinfo="skip",
    )
    figure.add_bar(
        x=[100 * share for share in now],
        y=rows,
        orientation="h",
        width=0.44,
        marker={"color": [colours.probability] * count + [colours.muted]},
        customdata=[
            f"{who}: {percent(share)}, at temperature 1 {percent(old)}"
            for who, share, old in zip(said, now, before, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )
    outline = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "line": {"color": colours.text, "width": 2}}
    figure.update_layout(
        **theme.base_layout(colours),
        barmode="overlay",
        height=38 + 27 * (count + 1) + 8,
        margin={"l": max(label_space(tuple(labels)) + 16, 130), "r": 72, "t": 38, "b": 8},
        shapes=[{**outline, "y0": written - 0.48, "y1": written + 0.48}] if written is not None else [],
        annotations=[
            {
                "x": 1,
                "xref": "paper",
                "xanchor": "right",
                "xshift": 66,
                "y": row,
                "text": percent(share),
                "showarrow": False,
                "font": {"size": 12, "color": colours.text if row < count else colours.muted},
            }
            for row, share in zip(rows, now, strict=True)
        ],
    )
    figure.update_xaxes(
        range=[0, 100],
        side="top",
        tickvals=[0, 25, 50, 75, 100],
        ticktext=["0", "25", "50", "75", "100 %"],
        tickfont={"size": 11, "color": colours.muted},
        gridcolor=colours.line,
        zeroline=False,
        fixedrange=True,
    )
    figure.update_yaxes(
        **piece_axis("", colours, False),
        tickvals=rows,
        ticktext=[
            *(f"<b>{name}</b>" if place == written else name for place, name in enumerate(names)),
            f'<span style="color:{colours.muted}">all other pieces</span>',
        ],
        range=[count + 0.5, -0.5],
    )
    return figure


def lens_map(
    said: Sequence[Sequence[str]],
    probabilities: NDArray[np.floating],
    right: NDArray[np.bool_],
    written: Sequence[str],
    position: int,
    colours: Palette,
) -> go.Figure:
    """Draw what each layer would have said at each position: the piece in the cell, its probability as colour.

    Rows run from the stream that enters (top) to the last layer (bottom); columns are positions, named by what is
    written there. A cell that says what is written is in bold.

    Args:
        said: [L + 1][T] the most probable piece.
        probabilities: [L + 1, T] of that piece.
        right: [L + 1, T] whether it is the piece that is written.
        written: T pieces.
        position: a column to outline, from 0.
        colours: the theme's palette.
    """
    rows, columns = probabilities.shape
    cut = np.array([[_cut(label) for label in row] for row in said], dtype=object).reshape(rows, columns)
    text = np.where(right, np.char.add(np.char.add("<b>", cut.astype(str)), "</b>"), cut)
    strong = against_the_rest(np.asarray(probabilities), "decoder", colours)
    whole = [[escape(visible(label)) for label in row] for row in said]
    trace = go.Heatmap(
        z=np.asarray(probabilities, dtype=np.float32),
        zmin=0.0,
        zmax=1.0,
        colorscale=theme.attention_scale("decoder", colours),
        showscale=False,
        xgap=1,
        ygap=1,
        text=np.where(strong, "", text),
        texttemplate="%{text}",
        textfont={"family": theme.MONO, "size": 12, "color": theme.readable_on(colours.background)},
        customdata=whole,
        hovertemplate="%{y}, where '%{x}' is written: '%{customdata}' %{z:.1%}<extra></extra>",
    )
    figure = go.Figure(trace)
    if strong.any():  # a trace has one colour of text
        again = go.Heatmap(trace)
        again.update(
            z=np.where(strong, probabilities, np.nan),
            text=np.where(strong, text, ""),
            textfont={"color": theme.readable_on(theme.kind_colour("decoder", colours))},
            customdata=None,
            hoverinfo="skip",
            hovertemplate=None,
        )
        figure.add_trace(again)
    top = label_space(tuple(written)) + 34
    box = {"type": "rect", "line": {"color": colours.text, "width": 2}, "y0": -0.5, "y1": rows - 0.5}
    figure.update_layout(
        **theme.base_layout(colours),
        height=top + 34 * rows + 10,
        margin={"l": 96, "r": 40, "t": top, "b": 10},
        shapes=[{**box, "x0": position - 0.5, "x1": position + 0.5}],
    )
    ticks = [escape(visible(label)) for label in written]
    figure.update_xaxes(
        **piece_axis("what is written at each position", colours, False),
        side="top",
        tickvals=list(range(columns)),
        ticktext=[f"<b>{tick}</b>" if place == position else tick for place, tick in enumerate(ticks)],
        tickangle=-50,
        ticklabeloverflow="allow",
        range=[-0.5, columns - 0.5],
    )
    figure.update_yaxes(
        **{**piece_axis("", colours, False), "tickfont": {"size": 12, "color": colours.text}},
        tickvals=list(range(rows)),
        ticktext=["what enters", *(f"layer {layer}" for layer in range(1, rows))],
        range=[rows - 0.5, -0.5],
    )
    return figure


def lens_width(columns: int) -> int:
    """Pixels under which the pieces of a lens map would run into each other."""
    return 140 + CELL * columns


def _cut(label: str) -> str:
    shown = visible(label)
    return escape(shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…")
