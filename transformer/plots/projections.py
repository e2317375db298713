"""Vectors as strips of colour: a query and its keys and values, what is retrieved, and the heads side by side.

Letters: S keys, D d_model, H heads, K = D / H width of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from transformer.analysis.arithmetic import HeadArithmetic
from transformer.plots import labels, theme
from transformer.plots.arithmetic import ROW
from transformer.plots.heatmap import label_space, largest
from transformer.plots.theme import Palette

STRIP = 34
"""Pixels of one row of a picture of vectors."""
BETWEEN = 54
"""Pixels between two pictures of vectors, for a title and numbers."""
SUM = "Σ"
MOST_KEYS = 24
"""Rows of keys that ``retrieval`` draws."""


def strips(names: Sequence[str], vectors: NDArray[np.floating], kind: str, colours: Palette) -> go.Figure:
    """Draw a few vectors of the same width one below the other, each number as a colour: grey below zero, the colour of
    the kind above it.

    Args:
        names: what each is called.
        vectors: [N, K]
        kind: ``encoder``, ``decoder`` or ``cross``.
        colours: the theme's palette.
    """
    figure = go.Figure(_strip(names, np.asarray(vectors), kind, colours, None))
    figure.update_layout(
        **theme.base_layout(colours),
        height=50 + STRIP * len(names) + 40,
        margin={"l": label_space(tuple(names)) + 10, "r": 60, "t": 8, "b": 44},
    )
    figure.update_xaxes(**_dimensions("dimension of the head", colours))
    figure.update_yaxes(**_rows(names, colours))
    return figure


def retrieval(names: Sequence[str], found: HeadArithmetic, kind: str, colours: Palette) -> go.Figure:
    """Draw how one query looks something up: its score with each key, the softmax of the scores, each value times its
    weight, and under them their sum, which is what the head gives out.

    Of more than ``MOST_KEYS`` keys those with most weight are drawn, in their order, and all others are added up in one
    row, so that the rows still make the sum.

    Args:
        names: the S keys.
        found: the numbers.
        kind: ``encoder``, ``decoder`` or ``cross``.
        colours: the theme's palette.
    """
    drawn, others = _strongest(found.weights)
    weighted = found.weights[:, None] * found.values
    shown = [labels.escape(labels.visible(names[key])) for key in drawn]
    scores, weights = np.where(found.mask, found.scores, np.nan)[drawn], found.weights[drawn]
    said = [f"'{name}'" + ("" if found.mask[key] else ", masked") for name, key in zip(shown, drawn, strict=True)]
    rows = weighted[drawn]
    if others:
        shown.append(f'<span style="color:{colours.muted}">{len(others)} others</span>')
        said.append(f"the {len(others)} other keys together")
        scores, weights = np.append(scores, np.nan), np.append(weights, found.weights[others].sum())
        rows = np.vstack([rows, weighted[others].sum(axis=0)])
    count, full = len(shown), theme.kind_colour(kind, colours)
    values = [f"weight × value of {name}" for name in said] + ["the sum, the output of the head"]
    shown.append(f"<b>{SUM}</b>")
    strip = _strip(shown, np.vstack([rows, found.weighted_sum]), kind, colours, values)
    strip.update(xaxis="x3", colorbar={"len": 120, "lenmode": "pixels", "y": 1, "yanchor": "top"})
    low, high = (float(bound([*np.nan_to_num(scores).tolist(), 0.0])) for bound in (min, max))
    room = 0.4 * ((high - low) or 1.0)
    bars = {"showgrid": False, "zeroline": True, "zerolinecolor": colours.line, "showticklabels": False}
    bars |= {"fixedrange": True}
    titles = ("1. score<br>q·k / √d<sub>k</sub>", "2. softmax:<br>the weight", "3. weight × value, and the sum")
    starts = (0.0, 0.25, 0.45)
    layout = {
        **theme.base_layout(colours),
        "height": 58 + ROW * (count + 1) + 44,
        "margin": {"l": label_space(tuple(names)) + 10, "r": 60, "t": 58, "b": 44},
        "bargap": 0,
        "yaxis": _rows(shown, colours, escaped=True),
        "xaxis": {**bars, "domain": [starts[0], 0.22], "range": [low - (room if low < 0.0 else 0.0), high + room]},
        "xaxis2": {**bars, "domain": [starts[1], 0.42], "range": [0.0, 1.35]},
        "xaxis3": {**_dimensions("dimension of the head", colours), "domain": [starts[2], 1.0]},
        "shapes": [
            {"type": "rect", "xref": "x3", "x0": 0.5, "x1": found.width + 0.5, "y0": count - 0.5, "y1": count + 0.5}
            | {"line": {"color": colours.text, "width": 2}}
        ],
        "annotations": [
            {"text": title, "x": start, "y": 1, "xref": "paper", "yref": "paper", "xanchor": "left"}
            | {"yanchor": "bottom", "align": "left", "showarrow": False, "font": {"size": 13, "color": colours.muted}}
            for title, start in zip(titles, starts, strict=True)
        ],
    }
    grey = theme.mix(colours.background, colours.muted, 0.7)
    return go.Figure(
        [
            _bars(scores, [f"score with {name}" for name in said], "+.2f", grey, "x", colours),
            _bars(weights, [f"weight of {name}" for name in said], ".2f", full, "x2", colours),
            strip,
        ],
        layout,
    )


def _strongest(weights: NDArray[np.floating]) -> tuple[list[int], list[int]]:
    """The keys to draw, in their order, and the others."""
    if len(weights) <= MOST_KEYS:
        return list(range(len(weights))), []
    chosen = set(np.argsort(-weights, kind="stable")[: MOST_KEYS - 1].tolist())
    return sorted(chosen), [key for key in range(len(weights)) if key not in chosen]


def _bars(
    values: NDArray[np.floating], said: Sequence[str], form: str, shade: str, axis: str, colours: Palette
) -> dict[str, Any]:
    return {
        "type": "bar",
        "x": values,
        "y": np.arange(len(values)),
        "xaxis": axis,
        "orientation": "h",
        "width": 0.7,
        "marker": {"color": shade},
        "text": ["" if np.isnan(value) else f"{value:{form}}" for value in values],
        "textposition": "outside",
        "textfont": {"size": 11, "color": colours.text},
        "cliponaxis": False,
        "customdata": [f"{name}: {value:.4f}" for name, value in zip(said, values, strict=True)],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def head_slices(outputs: NDArray[np.floating], output: NDArray[np.floating], kind: str, colours: Palette) -> go.Figure:
    """Draw how the heads of one position become one vector again: each head's output, all of them one behind the other,
    and what W^O makes of that.

    Args:
        outputs: [H, K] of each head.
        output: [D] of the whole attention.
        kind: ``encoder``, ``decoder`` or ``cross``.
        colours: the theme's palette.
    """
    heads, width = outputs.shape
    whole, mixed = outputs.reshape(1, -1), np.asarray(output)[None]
    bound = largest(np.abs(whole).astype(np.float32))
    strips_below = 2 * (STRIP + BETWEEN)
    tall = STRIP * max(heads, 2)
    total = tall + strips_below
    parts = (
        ([f"head {head + 1}" for head in range(heads)], outputs, f"what each head gives out, {width} dimensions"),
        (["concat"], whole, f"one behind the other: {heads} × {width} = {whole.size} dimensions"),
        (["× W<sup>O</sup>"], mixed, f"through W<sup>O</sup>: {output.size} dimensions, mixed"),
    )
    # from the top down, as shares of the height
    domains = ((1 - tall / total, 1.0), ((STRIP + BETWEEN) / total, (2 * STRIP + BETWEEN) / total), (0, STRIP / total))
    traces: list[go.Heatmap] = []
    layout: dict[str, Any] = {
        **theme.base_layout(colours),
        "height": total + 60,
        "margin": {"l": 78, "r": 12, "t": 30, "b": 30},
        "annotations": [],
    }
    for number, ((names, values, title), domain) in enumerate(zip(parts, domains, strict=True), start=1):
        axis = "" if number == 1 else str(number)
        trace = _strip(names, values, kind, colours, None)
        trace.update(xaxis=f"x{axis}", yaxis=f"y{axis}", showscale=False)
        if number < 3:  # the same numbers twice, so the same colours
            trace.update(zmin=-bound, zmax=bound)
        traces.append(trace)
        layout[f"xaxis{axis}"] = {**_dimensions("", colours), "anchor": f"y{axis}"}
        layout[f"yaxis{axis}"] = {**_rows(names, colours, escaped=True), "domain": list(domain), "anchor": f"x{axis}"}
        layout["annotations"].append(
            {"text": title, "xref": "paper", "x": 0, "yref": f"y{axis} domain", "y": 1, "xanchor": "left"}
            | {"yanchor": "bottom", "showarrow": False, "font": {"size": 13, "color": colours.muted}}
        )
    ends = [head * width + 0.5 for head in range(1, heads)]
    line = {"type": "line", "xref": "x2", "yref": "y2", "y0": -0.5, "y1": 0.5}
    line["line"] = {"color": colours.text, "width": 2}
    layout["shapes"] = [{**line, "x0": end, "x1": end} for end in ends]
    return go.Figure(traces, layout)


def _strip(
    names: Sequence[str], vectors: NDArray[Any], kind: str, colours: Palette, said: Sequence[str] | None
) -> go.Heatmap:
    """Vectors [N, K] with zero in the middle of the scale; dimensions count from 1."""
    values = np.asarray(vectors, dtype=np.float32)
    bound = largest(np.abs(values))
    what = [labels.escape(labels.visible(name)) for name in names] if said is None else list(said)
    return go.Heatmap(
        z=values,
        x=np.arange(1, values.shape[1] + 1),
        y=np.arange(len(values)),
        zmin=-bound,
        zmax=bound,
        colorscale=theme.diverging_scale(kind, colours),
        customdata=np.repeat(np.array(what, dtype=object)[:, None], values.shape[1], axis=1),
        hovertemplate="%{customdata}, dimension %{x}: %{z:.4f}<extra></extra>",
        ygap=2,
        colorbar={
            "thickness": 8,
            "outlinewidth": 0,
            "tickvals": [-bound, 0, bound],
            "ticktext": [f"{-bound:.2g}", "0", f"{bound:.2g}"],
            "tickfont": {"size": 11, "color": colours.muted},
        },
    )


def _rows(names: Sequence[str], colours: Palette, *, escaped: bool = False) -> dict[str, Any]:
    return {
        "tickvals": list(range(len(names))),
        "ticktext": list(names) if escaped else [labels.escape(labels.visible(name)) for name in names],
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "ticks": "",
        "tickfont": {"family": theme.MONO, "size": 12, "color": colours.text},
    }


def _dimensions(title: str, colours: Palette) -> dict[str, Any]:
    return {
        "title": {"text": title, "font": {"size": 12, "color": colours.muted}, "standoff": 4},
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "ticks": "",
        "nticks": 9,
        "tickfont": {"size": 11, "color": colours.muted},
    }
