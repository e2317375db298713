"""What can be taken away: the view as a page that opens offline, and the record's numbers."""

from __future__ import annotations

import re

import streamlit as st

from transformer.capture.export import record_bertviz, record_json, record_npz
from transformer.plots.page import record_page
from transformer.webapp.frame import View
from transformer.webapp.workbench.pictures import FORMATS


def show(view: View) -> None:
    """Draw the buttons. Each file is made when its button is pressed."""
    record, languages = view.record, view.card.languages
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{view.card.name}-{record.source_text[:40]}").strip("-")
    with st.expander("Take it away"):
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            st.download_button(
                "HTML, opens offline",
                lambda: record_page(record, languages),
                file_name=f"{stem}.html",
                mime="text/html",
                on_click="ignore",
            )
            st.download_button(
                "NPZ", lambda: record_npz(record), file_name=f"{stem}.npz", mime="application/zip", on_click="ignore"
            )
            st.download_button(
                "JSON",
                lambda: record_json(record),
                file_name=f"{stem}.json",
                mime="application/json",
                on_click="ignore",
            )
            st.download_button(
                "BertViz",
                lambda: record_bertviz(record),
                file_name=f"{stem}.bertviz.npz",
                mime="application/zip",
                on_click="ignore",
                help="The arrays under the names of BertViz's arguments: "
                "model_view(**{k: v.tolist() if v.ndim == 1 else list(torch.from_numpy(v)) "
                "for k, v in numpy.load(F).items()})",
            )
            st.radio(
                "A picture's camera saves", FORMATS, key="picture_format", horizontal=True, persist_state="session"
            )
        st.caption(
            "Every picture has a camera at its upper right. The files hold this sentence with the target above: all "
            "three kinds, all layers and heads, whole pieces, nothing hidden. The same files: python -m transformer "
            "inspect MODEL SENTENCE --out FILE."
        )
