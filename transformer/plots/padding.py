"""Batches of padded sentences: their mask, what padding costs, and what looks at it.

Letters: B sentences, N columns of a batch, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from transformer.plots import labels, theme
from transformer.plots.heatmap import label_space
from transformer.plots.theme import Palette

LINE = 24
"""Pixels of a sentence in ``padding_map``."""
DIGITS = 64
"""Batches of more columns than this show no ones and zeros."""
LONGEST_NAME = 26
"""Letters of a sentence beside its row."""
MOST_HEADS = 16
"""Layers of more heads than this show no numbers."""


def padding_map(
    masks: Sequence[NDArray[np.bool_]],
    names: Sequence[Sequence[str]],
    pieces: Sequence[Sequence[Sequence[str]]],
    colours: Palette,
) -> go.Figure:
    """Draw the attention mask of batches one below the other: 1 at a real piece, 0 at padding.

    Args:
        masks: for each batch [B, N], True at real pieces.
        names: for each batch what its B sentences are called.
        pieces: for each batch the N pieces of its B rows, for the hover.
        colours: the theme's palette.
    """
    width = max(mask.shape[1] for mask in masks)
    rows: list[NDArray[np.float64]] = []
    ticks: list[str] = []
    told: list[list[str]] = []
    for number, (mask, called, spelled) in enumerate(zip(masks, names, pieces, strict=True), start=1):
        lead = "" if len(masks) == 1 else f"batch {number}: "
        ticks.append(f'<span style="color:{colours.muted}">{lead}{mask.shape[0]} × {mask.shape[1]}</span>')
        rows.append(np.full(width, np.nan))
        told.append([""] * width)
        for line, name, row in zip(mask, called, spelled, strict=True):
            ticks.append(labels.escape(_short(name)))
            rows.append(np.append(line.astype(np.float64), np.full(width - len(line), np.nan)))
            said = [
                f"position {place}: {labels.escape(labels.visible(piece))}, {'real' if real else 'padding'}"
                for place, (piece, real) in enumerate(zip(row, line, strict=True), start=1)
            ]
            told.append([*said, *[""] * (width - len(said))])
    table = np.stack(rows)
    digits = width <= DIGITS
    figure = go.Figure(
        go.Heatmap(
            z=table,
            zmin=0.0,
            zmax=1.0,
            colorscale=[[0.0, colours.masked], [1.0, theme.mix(colours.background, colours.encoder, 0.45)]],
            showscale=False,
            hoverongaps=False,
            customdata=np.array(told),
            hovertemplate="%{customdata}<extra></extra>",
            text=[["" if np.isnan(value) else f"{value:.0f}" for value in line] for line in table] if digits else None,
            texttemplate="%{text}" if digits else None,
            textfont={"size": 11, "color": colours.text},
            xgap=1 if width <= 128 else 0,
            ygap=2,
        )
    )
    longest = max(len(_short(name)) for called in names for name in called)
    figure.update_layout(
        **theme.base_layout(colours),
        height=LINE * len(rows) + 52,
        margin={"l": int(np.clip(7.4 * longest, 110, 230)), "r": 12, "t": 6, "b": 46},
    )
    figure.update_xaxes(
        title={"text": "position", "font": {"size": 13, "color": colours.muted}, "standoff": 6},
        range=[-0.5, width - 0.5],
        tickvals=[0, *range(_tick(width) - 1, width, _tick(width))],
        ticktext=["1", *(str(place + 1) for place in range(_tick(width) - 1, width, _tick(width)))],
        tickfont={"size": 11, "color": colours.muted},
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        ticks="",
    )
    figure.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=ticks,
        range=[len(rows) - 0.5, -0.5],
        tickfont={"size": 12, "color": colours.text},
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        ticks="",
    )
    return figure


def padding_width(columns: int) -> int:
    """Least width of ``padding_map`` in pixels."""
    return 240 + min(13 * columns, 760)


def waste_bars(
    names: Sequence[str], positions: NDArray[np.floating], scores: NDArray[np.floating], chosen: int, colours: Palette
) -> go.Figure:
    """Draw the shares of positions and of score cells that go to padding, two bars for each way of making batches.

    Args:
        names: what each way is called.
        positions: shares 0 to 1.
        scores: shares 0 to 1.
        chosen: which one is in bold.
        colours: the theme's palette.
    """
    figure = go.Figure()
    sides = (
        ("positions", positions, theme.mix(colours.background, colours.muted, 0.7)),
        ("cells of the score tables", scores, colours.encoder),
    )
    for name, values, colour in sides:
        figure.add_bar(
            x=100 * np.asarray(values, dtype=np.float64),
            y=np.arange(len(names)),
            orientation="h",
            name=name,
            marker={"color": colour},
            text=[labels.percent(float(value)) for value in values],
            textposition="outside",
            textfont={"size": 11, "color": colours.text},
            cliponaxis=False,
            customdata=[f"{labels.percent(float(value))} of the {name} are padding" for value in values],
            hovertemplate="%{customdata}<extra></extra>",
        )
    ticks = [labels.escape(name) for name in names]
    figure.update_layout(
        **{**theme.base_layout(colours), "showlegend": True},
        height=60 * len(names) + 74,
        margin={"l": label_space(tuple(names)) - 20, "r": 16, "t": 34, "b": 40},
        bargap=0.3,
        barmode="group",
        legend={"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "traceorder": "normal"}
        | {"bgcolor": colours.background, "itemclick": False, "itemdoubleclick": False},
    )
    figure.update_xaxes(
        range=[0, 118],
        tickvals=[0, 25, 50, 75, 100],
        ticktext=["0", "25", "50", "75", "100 %"],
        title={"text": "share that goes to padding", "font": {"size": 13, "color": colours.muted}, "standoff": 6},
        tickfont={"size": 11, "color": colours.muted},
        gridcolor=colours.line,
        zeroline=False,
        fixedrange=True,
    )
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[f"<b>{tick}</b>" if index == chosen else tick for index, tick in enumerate(ticks)],
        range=[len(names) - 0.5, -0.5],
        tickfont={"size": 12, "color": colours.text},
        showgrid=False,
        zeroline=False,
        fixedrange=True,
    )
    return figure


def share_grids(grids: Sequence[tuple[str, str, NDArray[np.floating]]], colours: Palette) -> go.Figure:
    """Draw one number for every head of a few kinds of attention, side by side: a row a layer, a column a head.

    Args:
        grids: of each its title, its kind for the colour, and [L, H] shares 0 to 1.
        colours: the theme's palette.
    """
    titles = [labels.escape(title) for title, _, _ in grids]
    figure = make_subplots(rows=1, cols=len(grids), subplot_titles=titles, horizontal_spacing=0.12)
    for column, (_, kind, shares) in enumerate(grids, start=1):
        values = np.asarray(shares, dtype=np.float64)
        layers, heads = values.shape
        told = [[f"layer {layer + 1} · head {head + 1}" for head in range(heads)] for layer in range(layers)]
        figure.add_trace(
            go.Heatmap(
                z=values,
                zmin=0.0,
                zmax=1.0,
                colorscale=theme.attention_scale(kind, colours),
                showscale=False,
                customdata=told,
                hovertemplate="%{customdata}: %{z:.2%}<extra></extra>",
                text=_coloured(values, kind, colours) if heads <= MOST_HEADS else None,
                texttemplate="%{text}" if heads <= MOST_HEADS else None,
                textfont={"size": 11},
                xgap=1,
                ygap=1,
            ),
            row=1,
            col=column,
        )
        style = {"showgrid": False, "zeroline": False, "fixedrange": True, "ticks": ""}
        style["tickfont"] = {"size": 11, "color": colours.muted}
        figure.update_xaxes(
            **style,
            tickvals=list(range(heads)),
            ticktext=[str(head + 1) for head in range(heads)],
            title={"text": "head", "font": {"size": 12, "color": colours.muted}, "standoff": 4},
            row=1,
            col=column,
        )
        figure.update_yaxes(
            **style,
            tickvals=list(range(layers)),
            ticktext=[f"layer {layer + 1}" for layer in range(layers)],
            range=[layers - 0.5, -0.5],
            row=1,
            col=column,
        )
    most = max(np.asarray(shares).shape[0] for _, _, shares in grids)
    figure.update_annotations(font={"size": 13, "color": colours.text})
    figure.update_layout(
        **theme.base_layout(colours), height=30 + 30 * most + 56, margin={"l": 62, "r": 12, "t": 32, "b": 46}
    )
    return figure


def _coloured(values: NDArray[np.float64], kind: str, colours: Palette) -> list[list[str]]:
    """Shares in per cent, each in a colour that can be read on its cell."""
    full = theme.kind_colour(kind, colours)

    def cell(value: float) -> str:
        shade = theme.mix(colours.background, full, float(np.clip(value, 0.0, 1.0)))
        return f'<span style="color:{theme.readable_on(shade)}">{100 * value:.0f}</span>'

    return [[cell(value) for value in line] for line in values.tolist()]


def _short(name: str) -> str:
    shown = labels.visible(name)
    return shown if len(shown) <= LONGEST_NAME else shown[: LONGEST_NAME - 1] + "…"


def _tick(width: int) -> int:
    """Columns between two numbers of an axis of positions."""
    return next((step for step in (1, 5, 10, 25, 50) if width / step <= 24), 100)
