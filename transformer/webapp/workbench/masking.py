"""The mask itself, and the scores of a head before and after it."""

from __future__ import annotations

import dataclasses

import numpy as np
import streamlit as st

from transformer.analysis.maps import kind_view
from transformer.plots.heatmap import least_width
from transformer.plots.scores import mask_map, score_map
from transformer.webapp import markup, resources
from transformer.webapp.frame import View
from transformer.webapp.workbench.pictures import picture

WORDS = {
    "encoder": "The encoder sees the whole input at once: nothing is masked but padding, and one sentence has none.",
    "decoder": "While the model writes a piece it may look at the pieces before it only. In training all rows are "
    "computed at once, so the mask is what keeps the future out; in translation the future is not there yet.",
    "cross": "Every output position may look at the whole input: nothing is masked but padding, and one sentence has "
    "none.",
}


def show(view: View) -> None:
    """Draw the view; it is of pieces and of one head, whatever else is chosen."""
    maps = kind_view(view.record, view.kind, view.card.languages)
    allowed = np.ones(maps.weights.shape[2:], dtype=bool) if maps.allowed is None else maps.allowed
    scores = resources.scores(view.translator, view.record, view.kind, view.layer - 1)[view.head - 1]
    st.html(f'<div class="under">{markup.escape(WORDS[view.kind])} Attention Is All You Need, Section 3.2.3.</div>')
    name = f"{view.card.name} {view.kind} layer{view.layer} head{view.head}"
    width = least_width(maps)
    shown = dataclasses.replace(maps, allowed=None)
    if view.kind != "decoder":
        st.button("Show the causal mask of the decoder", key="to_the_triangle", on_click=_decoder)
    st.html("<b>The mask</b> <span class='under'>filled: the query may look there</span>")
    picture(mask_map(shown, allowed, view.colours), "mask", f"{name} mask", f"The {view.kind} mask", width)
    st.html(
        f"<b>Scores of layer {view.layer} · head {view.head} before the mask</b> "
        "<span class='under'>q·k / √d<sub>k</sub>, below and above zero</span>"
    )
    picture(
        score_map(shown, scores, view.colours),
        "scores_before",
        f"{name} scores before the mask",
        "Scores before the mask",
        width,
    )
    st.html("<b>The same after the mask</b> <span class='under'>what the softmax is taken of</span>")
    picture(
        score_map(shown, np.where(allowed, scores, np.nan).astype(np.float32), view.colours),
        "scores_after",
        f"{name} scores after the mask",
        "Scores after the mask",
        width,
    )


def _decoder() -> None:
    st.session_state["kind"] = "decoder"
