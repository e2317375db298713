"""The beam page's main part: the tree with its choices, the story of a node, the translations that were found."""

from __future__ import annotations

import math

import streamlit as st

from transformer.analysis.beam import story
from transformer.analysis.tree import LAYOUTS, TreeLayout, tree_layout
from transformer.errors import InputError
from transformer.plots.labels import percent, visible
from transformer.plots.tree import ROW, least_width, ordinal, search_tree
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.search import choosing, computing, panel, telling
from transformer.webapp.search.found import Found
from transformer.webapp.workbench.pictures import picture

PRUNED: dict[str, int | None] = {"none": 0, "1 a step": 1, "2 a step": 2, "5 a step": 5, "all": None}
"""How many of the pruned candidates are drawn."""
HIGHEST, FITS = 560, 900
"""Pixels of height and width above which the tree scrolls in its frame."""


def show(view: View) -> None:
    """Draw it; it runs again with every choice."""
    prefix = choosing.forced()
    try:
        trace = computing.trace(view.translator, view.sentence, view.search, prefix)
    except InputError as error:
        st.html(markup.notice("warning", f"The forced beginning cannot be used. {markup.sentence(str(error))}"))
        choosing.free("Search without it")
        return
    if prefix:
        choosing.banner(view, trace)
    node = choosing.chosen(view, prefix, trace)
    found = Found(view, prefix, trace, story(trace, node))
    with st.container(horizontal=True, key="tree_choices", vertical_alignment="bottom", gap="small"):
        how = st.selectbox("Layout", LAYOUTS, key="tree_layout", persist_state="session", width=110, help=_LAYOUT)
        pruned = st.selectbox(
            "Pruned candidates", list(PRUNED), key="tree_pruned", persist_state="session", width=140, help=_PRUNED
        )
        layout = tree_layout(trace, PRUNED[pruned or "none"], node, how or LAYOUTS[0])
        choosing.picker(found, layout)
    st.html(telling.summary(view.search, trace, layout))
    _tree(found, layout)
    panel.show(found)
    _translations(found)


_LAYOUT = (
    "tree: no lines cross, and the best translation runs straight along the top. lanes: the row is the rank among the "
    "candidates of the step; where lines cross, one has overtaken another."
)
_PRUNED = "At each step the search looks at twice as many candidates as it keeps. Those not kept can be drawn, too."


def _tree(found: Found, layout: TreeLayout) -> None:
    view, trace = found.view, found.trace
    marked = [node for node, _ in found.told.displaced if layout.place(node) is not None]
    if least_width(trace, layout) > FITS or layout.height * ROW > HIGHEST:
        st.html('<div class="under">The tree is larger than its frame: scroll in it, to the right and down.</div>')
    best = " ".join(visible(trace.nodes[node].piece) for node in trace.path(trace.hypotheses[0])[1:])
    # one frame scrolls both ways, or the lower scroll bar would lie at the end of a high tree
    st.html(
        f"<style>.st-key-tree_frame {{ max-height: {HIGHEST}px; overflow: auto; }}"
        f".st-key-tree_frame .st-key-scroll_{choosing.TREE} {{ overflow: visible; }}</style>"
    )
    with st.container(key="tree_frame"):
        picture(
            search_tree(trace, layout, view.colours, selected=found.node, marked=marked),
            choosing.TREE,
            f"{view.card.name} beam {view.search.beam} tree",
            f"Tree of the search: {trace.steps} steps, {len(layout.nodes)} nodes drawn. Best translation: {best}",
            least_width(trace, layout),
            on_select=choosing.click,
            selection_mode="points",
        )


def _translations(found: Found) -> None:
    view, trace, search = found.view, found.trace, found.view.search
    rows = []
    for place, node in enumerate(trace.hypotheses, start=1):
        one = trace.nodes[node]
        row = [
            ordinal(place),
            found.text(node) or "(empty)",
            f"{one.total_log_prob:.2f}",
            percent(math.exp(one.total_log_prob)),
            str(one.step) + ("" if one.status == "finished" else " (cut off)"),
            f"{one.score:.3f}",
            percent(computing.covered(view.translator, view.sentence, trace.tokens(node))),
        ]
        rows.append([*row, f"{one.coverage:.3f}"] if search.coverage_penalty else row)
    heads = ["", view.card.target, "log-probability", "probability", "pieces", "score", "coverage"]
    heads += ["coverage penalty"] if search.coverage_penalty else []
    st.subheader("What did the search find?", anchor=False)
    st.html(
        markup.table(
            f"The {len(rows)} best translations, by score" if len(rows) > 1 else "The best translation",
            heads,
            rows,
            numeric=range(2, len(heads)),
        )
        + '<div class="under">Score: the log-probability divided by ((5 + pieces) / 6)'
        f"<sup>{search.length_penalty:g}</sup>"
        + (", plus the coverage penalty" if search.coverage_penalty else "")
        + ". Coverage: the attention that each source piece received from the whole translation, at most 100 %, on "
        "average over the pieces (mean over the heads of the last layer; Wu et al. 2016, Section 7).</div>"
    )
