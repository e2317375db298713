"""Figures of every head, in a table that can be sorted; a chosen row opens its head."""

from __future__ import annotations

from typing import Any

import streamlit as st

from transformer.webapp import resources
from transformer.webapp.frame import View

KEY = "figures_table"
COLUMNS: dict[str, tuple[str, str, str]] = {
    "entropy": ("entropy", "%.2f", "Mean entropy of a row, in nats: how spread out the attention is."),
    "evenness": ("evenness", "%.2f", "Entropy as a share of the largest possible: 1 gives every key the same."),
    "confidence": ("confidence", "%.2f", "Mean of the largest weight of a row (Voita et al. 2019)."),
    "distance": ("distance", "%.1f", "Mean distance between query and key, in pieces; self-attention only."),
    "previous": ("previous", "%.2f", "Mean weight on the piece before the query; self-attention only."),
    "same": ("same", "%.2f", "Mean weight on the query's own piece; self-attention only."),
    "next": ("next", "%.2f", "Mean weight on the piece after the query; encoder only."),
    "sink": ("sink", "%.2f", "Mean share on special pieces and punctuation, what “Hide” can take away."),
    "diagonality": ("diagonality", "%.2f", "1 on the line from corner to corner, 0 as far from it as even attention."),
}


def show(view: View) -> None:
    """Draw the view. The figures are of the plain weights over pieces."""
    st.html(
        "<b>Figures of every head</b> <span class='under'>of the plain weights over pieces, for this sentence; a "
        "click on a column's name sorts by it, a row's box opens that head. Rows of a map with a single key to look at "
        "do not count.</span>"
    )
    figures = resources.figures(view.translator, view.record)
    rows: list[dict[str, Any]] = [
        {"kind": one.kind, "layer": one.layer, "head": one.head, **{name: getattr(one, name) for name in COLUMNS}}
        for one in figures
    ]
    st.dataframe(
        rows,
        key=KEY,
        hide_index=True,
        height=560,
        on_select=lambda: _open(rows),
        selection_mode="single-row",
        column_config={
            name: st.column_config.NumberColumn(title, format=form, help=meaning)
            for name, (title, form, meaning) in COLUMNS.items()
        },
    )


def _open(rows: list[dict[str, Any]]) -> None:
    chosen = st.session_state[KEY]["selection"]["rows"]
    if chosen:
        row = rows[chosen[0]]
        st.session_state["kind"], st.session_state["layer"], st.session_state["head"] = (
            row["kind"],
            row["layer"],
            row["head"],
        )
        st.session_state["view"] = "one head"
