"""/attention : every question about the attention of a sentence and a translation of it."""

import streamlit as st

from transformer.plots.theme import kind_colour
from transformer.webapp import frame, markup
from transformer.webapp.choices import chosen_maps
from transformer.webapp.workbench import bipartite, every, forced, layers, masking, numbers, one, table, taking

MEANINGS = {
    "encoder": "Encoder self-attention: each {source} piece gathers what it needs from the whole {source} input.",
    "decoder": "Masked decoder self-attention: while writing a {target} piece the model looks back at the {target} "
    "pieces it has read; later ones are masked.",
    "cross": "Cross-attention: while writing a {target} piece the model looks at the {source} input.",
}

view = frame.require()
colour = kind_colour(view.kind, view.colours)
meaning = markup.escape(MEANINGS[view.kind].format(**view.card.languages))
said = f" <b>Shown: {markup.escape(view.choices.said())}.</b>" if view.choices.said() else ""
st.html(f'<div class="kind"><i style="background:{colour}"></i>{meaning}{said}</div>')
forced.show(view)

chosen = view.choices.view
if chosen in ("arithmetic", "mask", "figures", "across layers"):
    {"arithmetic": numbers, "mask": masking, "figures": table, "across layers": layers}[chosen].show(view)
else:
    maps = chosen_maps(view.record, view.kind, view.card.languages, view.choices)
    if 0 in maps.weights.shape:
        st.html(markup.notice("info", "Everything is hidden: this sentence has nothing else. Choose “Hide: nothing”."))
    else:
        {"one head": one, "all heads": every, "lines": bipartite}[chosen].show(view, maps)

taking.show(view)
with st.expander("How to read this"):
    st.markdown(
        "Each row is a query and sums to 1: it shows how one position divides its attention over the keys in the "
        "columns. A decoder or cross row is named by the piece that is being written there; the model has by then "
        "read only the pieces before it. Attention weights say where a head looked, not how much that "
        "mattered for the result (Jain and Wallace 2019, *Attention is not Explanation*; Wiegreffe and Pinter 2019, "
        "*Attention is not not Explanation*). Word level: weights are summed over the pieces of a key and averaged "
        "over those of a query, so that rows still sum to 1. Attention Is All You Need, Section 3.2."
    )
