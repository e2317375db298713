"""The arithmetic of one query of one head: from vectors to weights to what the head adds."""

from __future__ import annotations

import numpy as np
import streamlit as st

from transformer.analysis.maps import kind_view
from transformer.plots.arithmetic import arithmetic_bars
from transformer.webapp import markup, resources
from transformer.webapp.frame import View
from transformer.webapp.workbench.pictures import picture

SHOWN = 6
"""How many dimensions of a vector are written out."""


def show(view: View) -> None:
    """Draw the view; it is always of pieces, of one head, and of nothing hidden."""
    maps = kind_view(view.record, view.kind, view.card.languages)
    names = maps.columns.labels
    query = st.selectbox(
        "Query",
        range(len(maps.rows.labels)),
        format_func=lambda row: f"{row + 1}. {maps.phrases[row]}",
        key=f"query_{view.kind}_{len(maps.rows.labels)}",
        width=520,
    )
    found = resources.arithmetic(
        view.translator, view.record, view.kind, view.layer - 1, view.head - 1, int(query or 0)
    )
    st.html(
        f"<b>{view.kind} attention · layer {view.layer} · head {view.head}</b>: "
        f"<span class='under'>Attention(Q, K, V) = softmax(QK<sup>T</sup> / √d<sub>k</sub>) V, with "
        f"d<sub>k</sub> = {found.width}; Attention Is All You Need, Section 3.2.1. Numbers of this head for one query, "
        "of whole pieces, whatever is chosen above.</span>"
    )
    picture(
        arithmetic_bars(
            names, found.scores, found.weights, found.unscaled_weights, found.mask, view.kind, view.colours
        ),
        "arithmetic",
        f"{view.card.name} {view.kind} layer{view.layer} head{view.head} arithmetic",
        "Bars for each key: the scaled score, the weight, and the weight without the division",
        640,
    )
    st.html(
        markup.table(
            f"q and the keys: the first {min(SHOWN, found.width)} of {found.width} dimensions",
            ("", "vector", "length", "q·k", "q·k / √d_k", "weight"),
            [
                ("q", _vector(found.query), f"{found.query_norm:.2f}", "", "", ""),
                *(
                    (
                        f"k {index + 1}. {names[index]}",
                        _vector(found.keys[index]),
                        f"{found.key_norms[index]:.2f}",
                        f"{found.raw_scores[index]:.2f}" if found.mask[index] else "masked",
                        f"{found.scores[index]:.2f}" if found.mask[index] else "masked",
                        f"{found.weights[index]:.4f}",
                    )
                    for index in range(len(names))
                ),
            ],
            numeric=(2, 3, 4, 5),
        )
    )
    st.html(
        markup.table(
            "The weighted sum of the values, and what it becomes",
            ("", "vector", "length"),
            [
                ("Σ weight · v", _vector(found.weighted_sum), f"{np.linalg.norm(found.weighted_sum):.2f}"),
                ("times its rows of W^O: the head's share", _vector(found.share), f"{found.share_norm:.2f}"),
                ("the whole attention: all heads and the bias", _vector(found.whole), f"{found.whole_norm:.2f}"),
            ],
            numeric=(2,),
        )
        + '<div class="under">'
        + (
            ""
            if found.cosine is None
            else f"The head's share points {'with' if found.cosine >= 0 else 'against'} the whole: the cosine of the "
            f"angle between them is {found.cosine:.2f}."
        )
        + "</div>"
    )
    st.html(markup.checks_line(found.checks))


def _vector(values: np.ndarray) -> str:
    listed = ", ".join(f"{value:.2f}" for value in values[:SHOWN])
    return f"[{listed}{', …' if len(values) > SHOWN else ''}]"
