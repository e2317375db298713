"""/decoding : the translation one step at a time, steered and changed by the user."""

import streamlit as st

from transformer.webapp import frame
from transformer.webapp.decoding import stage, stepper

view = frame.require()
every = stepper.interval()
view.live(lambda: stage.show(view, every), every=every)
with st.expander("How to read this"):
    st.markdown(
        "A decoder writes one piece at a time. At step t it reads ⟨SOS⟩ and the t − 1 pieces before, looks at the "
        "source by cross-attention, and gives every piece of the vocabulary a probability; one is written, and read "
        "at the next step. **Greedy** takes the most probable, **sampling** draws one, **beam search** keeps "
        "several beginnings and takes the translation that is best as a whole. Probabilities here are the model's "
        "own, whatever the strategy and before any filter. Keys and values of what has been read are kept, so each "
        "step computes one position only. Attention Is All You Need, Sections 3.1 and 3.2.3; the causal mask is in "
        "the latter.\n\nTo change where the model looks and see its choice change is a test of what attention does "
        "here, which the weights alone are not (Jain and Wallace 2019; Wiegreffe and Pinter 2019). A row that was "
        "changed by hand is unlike any that the model met in training: read small effects with care."
    )
