"""What masks do to attention: one row of scores before and after, which prediction hangs on which piece, and one query
of every head.

Letters: T positions of the decoder, S source length, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from transformer.analysis.maps import Axis, KindView
from transformer.plots import labels, theme
from transformer.plots.heatmap import attention_map, label_space
from transformer.plots.theme import Palette

ROW, SMALL_ROW = 32, 20
"""Pixels a key; the small one from more than ``MANY`` keys on."""
MANY = 24
HIDDEN = "−∞"
SPELLED = 10
"""Maps of more columns than this name what replaces a piece on hover only."""


def masked_row(
    names: Sequence[str],
    scores: NDArray[np.floating],
    allowed: NDArray[np.bool_],
    weights: NDArray[np.floating],
    open_weights: NDArray[np.floating],
    colours: Palette,
) -> go.Figure:
    """Draw one query of masked self-attention: its score with every key, the scores that the mask leaves, and their
    softmax beside that of all scores.

    Args:
        names: the T keys.
        scores: [T] q·k / sqrt(d_k), before the mask.
        allowed: [T] True where the query may look.
        weights: [T] softmax of the allowed scores.
        open_weights: [T] softmax of all scores.
        colours: the theme's palette.
    """
    shown = [labels.escape(labels.visible(name)) for name in names]
    hidden = ~np.asarray(allowed, dtype=bool)
    row = ROW if len(names) <= MANY else SMALL_ROW
    grey, full = theme.mix(colours.background, colours.muted, 0.7), colours.decoder
    pale = theme.mix(colours.background, full, 0.5)
    figure = make_subplots(rows=1, cols=3, shared_yaxes=True, horizontal_spacing=0.05)
    left = np.where(hidden, np.nan, scores)
    place = np.arange(len(names), dtype=np.float64)
    sides = (
        (1, "score", scores, place, 0.64, grey, "+.2f"),
        (2, "score after the mask", left, place, 0.64, grey, "+.2f"),
        (3, "with the mask", weights, place - 0.19, 0.36, full, ".2f"),
        (3, "without it", open_weights, place + 0.19, 0.36, pale, ".2f"),
    )
    for column, name, values, y, thick, colour, form in sides:
        told = [f"'{key}': {name} {value:.4f}" for key, value in zip(shown, values, strict=True)]
        figure.add_trace(
            go.Bar(
                x=values,
                y=y,
                orientation="h",
                name=name,
                showlegend=column == 3,
                marker={"color": colour},
                width=thick,
                text=["" if np.isnan(value) else format(float(value), form) for value in values],
                textposition="outside",
                textangle=0,
                textfont={"size": 11 if column < 3 and row == ROW else 9, "color": colours.text},
                constraintext="none",
                cliponaxis=False,
                customdata=told,
                hovertemplate="%{customdata}<extra></extra>",
            ),
            row=1,
            col=column,
        )
    keys = np.flatnonzero(hidden)
    figure.add_trace(
        go.Scatter(
            x=np.zeros(len(keys)),
            y=keys,
            mode="text",
            text=[HIDDEN] * len(keys),
            textposition="middle right",
            textfont={"size": 13 if row == ROW else 10, "color": colours.muted},
            customdata=[f"'{shown[key]}': hidden by the mask" for key in keys],
            hovertemplate="%{customdata}<extra></extra>",
            showlegend=False,
        ),
        row=1,
        col=2,
    )
    shade: dict[str, Any] = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "layer": "below"}
    shade |= {"fillcolor": colours.masked, "line": {"width": 0}}
    low, high = float(min(np.min(scores), 0.0)), float(max(np.max(scores), 0.0))
    room = 0.5 * ((high - low) or 1.0)
    bounds = [low - room if low < 0.0 else 0.0, high + room]
    titles = ("score q·k / √d<sub>k</sub>", "the same after the mask", "softmax: the weight")
    for column, title in enumerate(titles, start=1):
        figure.update_xaxes(
            title={"text": title, "font": {"size": 13, "color": colours.muted}, "standoff": 4},
            side="top",
            range=bounds if column < 3 else [0.0, 1.25],
            showgrid=False,
            zeroline=True,
            zerolinecolor=colours.line,
            showticklabels=False,
            fixedrange=True,
            row=1,
            col=column,
        )
    figure.update_layout(
        **{**theme.base_layout(colours), "showlegend": True},
        height=44 + row * len(names) + 40,
        margin={"l": label_space(tuple(names)) + 10, "r": 20, "t": 44, "b": 40},
        bargap=0,
        barmode="overlay",
        shapes=[{**shade, "y0": key - 0.5, "y1": key + 0.5} for key in keys],
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 0, "yanchor": "top"}
        | {"bgcolor": colours.background, "itemclick": False, "itemdoubleclick": False},
    )
    muted = f'<span style="color:{colours.muted}">'
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[f"{muted}{name}</span>" if out else name for name, out in zip(shown, hidden, strict=True)],
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        ticks="",
        tickfont={"family": theme.MONO, "size": 12 if row == ROW else 10, "color": colours.text},
    )
    return figure


def influence_view(
    written: Axis, replaced: Axis, others: Sequence[str], moved: NDArray[np.floating], hidden: NDArray[np.bool_] | None
) -> KindView:
    """What ``influence_map`` draws, and ``least_width`` measures.

    Args:
        written: T pieces, what each position writes.
        replaced: the T - 1 pieces of the decoder's input that are replaced.
        others: T - 1 pieces that take their places.
        moved: [T, T - 1] share of probability that moves.
        hidden: [T, T - 1] cells that the mask should keep at zero; None if there is no mask.
    """
    phrases = tuple(f"the prediction of '{label}'" for label in written.labels)
    columns = replaced
    if len(others) <= SPELLED:
        both = tuple(f"{old} → {new}" for old, new in zip(replaced.labels, others, strict=True))
        columns = Axis(f"{replaced.title} → what replaces it", both, replaced.unknown, replaced.right_to_left)
    weights = np.asarray(moved, dtype=np.float32)[None, None]
    return KindView("decoder", weights, written, columns, phrases, None if hidden is None else ~hidden)


def influence_map(view: KindView, replaced: Sequence[str], others: Sequence[str], colours: Palette) -> go.Figure:
    """Draw which prediction (row) moves when which piece (column) is replaced.

    Cells that a mask keeps at exactly zero have the shade of masked cells, and any that it does not are drawn. Without
    a mask a dotted line parts what it would have hidden, above, from what may be seen.

    Args:
        view: from ``influence_view``.
        replaced: the T - 1 pieces that are replaced.
        others: T - 1 pieces that take their places.
        colours: the theme's palette.
    """
    figure = attention_map(view, 0, 0, colours)
    pairs = [
        f"'{labels.escape(labels.visible(old))}' gives way to '{labels.escape(labels.visible(new))}'"
        for old, new in zip(replaced, others, strict=True)
    ]
    told = [[f"{labels.escape(phrase)}, when {pair}" for pair in pairs] for phrase in view.phrases]
    figure.data[0].update(
        customdata=np.array(told),
        hovertemplate="%{customdata}: %{z:.2%} of the probability moves<extra></extra>",
        colorbar={"title": {"text": "share of probability that moves"}, "ticktext": ["0", "50", "100 %"]},
    )
    if view.allowed is None:
        line = {"type": "line", "line": {"color": colours.text, "width": 1.5, "dash": "dot"}}
        steps = np.arange(len(view.columns.labels)) + 0.5
        level = [{**line, "x0": step - 1, "x1": step, "y0": step, "y1": step} for step in steps]
        upright = [{**line, "x0": step, "x1": step, "y0": step, "y1": step + 1} for step in steps]
        figure.update_layout(shapes=[*level, *upright])
    return figure


def heads_view(kind: str, weights: NDArray[np.floating], columns: Axis, phrase: str) -> KindView:
    """One row of every head of a layer, as a map with a row for each head.

    Args:
        kind: for the colour.
        weights: [H, S]
        columns: the S keys.
        phrase: what the query is, as in "writing 'Mann', having just read 'Ein'".
    """
    names = tuple(f"head {head + 1}" for head in range(len(weights)))
    rows = Axis("the heads of the layer", names, (False,) * len(names))
    phrases = tuple(f"{name}, {phrase}" for name in names)
    return KindView(kind, np.asarray(weights, dtype=np.float32)[None, None], rows, columns, phrases)
