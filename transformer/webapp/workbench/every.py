"""All heads of all layers in one picture."""

from __future__ import annotations

import streamlit as st

from transformer.analysis.maps import KindView
from transformer.plots.mosaic import block_side, mosaic
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.workbench.pictures import choose_head, picture

KEY = "all_heads"
TILE = 112
"""Height of a small map in pixels."""


def show(view: View, maps: KindView) -> None:
    """Draw the view."""
    layers = range(maps.layers)
    st.html(
        f"<b>{view.kind} attention: {maps.layers} layers of {maps.heads} heads</b> "
        "<span class='under'>one colour scale for all, 0 to 1; click a map to choose its head, then open "
        "“one head”</span>"
    )
    side = block_side(maps, layers, maps.heads)
    picture(
        mosaic(
            maps,
            layers,
            view.colours,
            across=maps.heads,
            selected=(view.layer - 1, view.head - 1),
            tile=TILE,
        ),
        KEY,
        f"{view.card.name} {view.kind} all heads",
        f"Small maps of all {maps.layers * maps.heads} heads of {view.kind} attention, a row for each layer",
        110 * maps.heads,
        on_select=lambda: choose_head(KEY),
        selection_mode="points",
    )
    if side > 1:
        st.html(
            markup.notice(
                "info",
                f"The sentence is long: here each dot is the largest of {side} × {side} cells. "
                "The large map of one head stays exact.",
            )
        )
    st.html(markup.checks_line(view.record.checks))
