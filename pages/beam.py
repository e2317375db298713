"""/beam : the whole search as a tree, the story of each node, and greedy search beside it."""

import streamlit as st

from transformer.webapp import frame
from transformer.webapp.search import against, stage

view = frame.require()
view.live(lambda: stage.show(view))
view.live(lambda: against.show(view))
with st.expander("How to read this"):
    st.markdown(
        "Beam search writes several translations side by side. At each step every beginning in the beam is continued "
        "with every piece of the vocabulary; the beginnings with the highest log-probability are kept, as many as the "
        "beam is wide, and those that end with ⟨EOS⟩ wait among the finished ones (squares). The fill of a node is the "
        "probability of its piece. When nothing in the beam can still win, the finished ones are ranked by score: the "
        "log-probability divided by ((5 + n) / 6)^α for n pieces, so that long translations are not at a "
        "disadvantage. Attention Is All You Need, Section 6.1; Wu et al. 2016, Section 7.\n\nA lost beginning may have "
        "led to a better translation: beam search promises nothing, and a wider beam finds more probable translations, "
        "which need not be better ones (Koehn and Knowles 2017, Section 3.6)."
    )
