"""The two maps of the decoder, as far as they have grown."""

from __future__ import annotations

import streamlit as st

from transformer.analysis.maps import kind_view
from transformer.capture.record import AttentionRecord
from transformer.plots.heatmap import least_width
from transformer.plots.playback import grown_map
from transformer.webapp import markup
from transformer.webapp.decoding.walk import Walk
from transformer.webapp.workbench.pictures import picture


def show(walk: Walk, record: AttentionRecord, layer: int, head: int, changed: bool = False) -> None:
    """Draw cross-attention and the decoder's self-attention up to the step; layer and head from 0.

    They are of the translation as it was written; if this step is ``changed`` by an intervention, they say so.
    """
    without = ", without the intervention" if changed else ""
    for column, kind in zip(st.columns(2, gap="medium"), ("cross", "decoder"), strict=True):
        maps = kind_view(record, kind, walk.view.card.languages)
        step = min(walk.step, len(record.target_output) - 1)  # a step that wrote nothing has no row
        title = f"{kind} attention · layer {layer + 1} · head {head + 1}"
        with column, st.container(gap="xxsmall"):
            st.html(f"<b>{markup.escape(title)}</b> <span class='under'>up to step {walk.step + 1}{without}</span>")
            picture(
                grown_map(maps, layer, head, step, walk.view.colours),
                f"grown_{kind}",
                f"{walk.view.card.name} {title} step {walk.step + 1}",
                f"Attention map, {title}, of the first {walk.step + 1} steps",
                least_width(maps),
            )
