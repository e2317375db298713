"""/ : the translation, its alternatives, and how sure the model is of each piece."""

import math

import streamlit as st

from transformer.plots.labels import percent
from transformer.webapp import frame, markup

UNSURE = 0.45
"""Geometric mean of the pieces' probabilities below which the page says so."""

view = frame.require()
translation, card = view.translation, view.card

text = translation.text.strip()
st.html(
    f'<div class="translation" dir="auto">{markup.escape(text)}</div>'
    if text
    else markup.notice("info", "The model ends at once: its translation of this sentence is empty.")
)
found = len(translation.hypotheses)
st.html(
    f'<div class="under">{markup.escape(card.direction)} · beam size {view.search.beam} · computed in '
    f"{translation.seconds:.2f} s when first asked · the whole translation has probability "
    f"{percent(math.exp(translation.total_log_prob))}</div>"
)
mean = math.exp(translation.total_log_prob / max(len(translation.ids), 1))
if mean < UNSURE:
    st.html(
        markup.notice(
            "info",
            f"The model is unsure: its pieces have a probability of {percent(mean)} on average (geometric mean). "
            + (f"It was trained on one kind of text: {card.about}." if card.about else ""),
        )
    )
if not translation.best.finished:
    st.html(
        markup.notice(
            "warning",
            "This translation was cut off: the model did not come to an end within the longest allowed length.",
        )
    )

st.subheader("How sure is it of each piece?", anchor=False)
chips = "".join(
    markup.chip(piece, probability=math.exp(log_prob), number=True)
    for piece, log_prob in zip(translation.pieces, translation.log_probs, strict=True)
)
st.html(
    f'<div class="chips sure" dir="auto">{chips}</div>'
    '<div class="under">Under each piece: its probability, given the input and the pieces before it. '
    "The stronger the shade, the surer. A leading · continues a word.</div>"
)

st.subheader("What else did the search find?", anchor=False)
st.html(
    markup.table(
        f"The {found} best translations, by score"
        if found > 1
        else "The best translation" + (": a beam of 1 keeps no other" if view.search.beam == 1 else ""),
        ("", card.target, "score", "log-probability", "pieces"),
        [
            (
                str(rank),
                hypothesis.text or "(empty)",
                f"{hypothesis.score:.2f}",
                f"{hypothesis.total_log_prob:.2f}",
                str(len(hypothesis.ids)),
            )
            for rank, hypothesis in enumerate(translation.hypotheses, start=1)
        ],
        numeric=(0, 2, 3, 4),
    )
)

st.subheader("What did the model read?", anchor=False)
unknown = [piece for piece in translation.source if piece.unknown]
st.html(f'<div class="chips" dir="auto">{"".join(markup.chip(piece) for piece in translation.source)}</div>')
st.html(
    f'<div class="under">{len(translation.source)} pieces, {markup.escape("<SOS>")} and {markup.escape("<EOS>")} '
    f"included; the model takes at most {view.translator.max_source_pieces}. Point at a piece for its id.</div>"
)
if unknown:
    letters = " ".join(dict.fromkeys(piece.label.lstrip("·") for piece in unknown))
    st.html(
        markup.notice(
            "warning",
            f"The model does not know these signs (underlined above): {letters}. In the place of each it reads the "
            "same piece <UNK>, so it cannot tell them apart and has to guess from the rest of the sentence.",
        )
    )

with st.expander("How to read this"):
    st.markdown(
        "The model writes one piece at a time and gives every piece of its vocabulary a probability; shown are those "
        "of the pieces it chose. Beam search keeps several beginnings side by side and ranks the finished ones by "
        "log-probability divided by the length penalty ((5 + n) / 6)^α, n pieces long: the higher (closer to 0), the "
        "better. Attention Is All You Need, Section 6.1, and Wu et al. 2016, Section 7.\n\nA model trained with label "
        "smoothing (the paper, Section 5.4; 0.1 for the models that come with this app) learns to leave a tenth of the "
        "probability to other pieces: about 90 % is as sure as it gets, and a long translation has a small probability "
        "even if every piece is right."
    )
