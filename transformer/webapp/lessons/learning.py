"""The page /learning from top to bottom: the pair that it is about, and its sections in their order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from transformer.config import EOS_ID
from transformer.errors import InputError
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import (
    learning_forcing,
    learning_history,
    learning_paper,
    learning_past,
    learning_rate,
    learning_watch,
)
from transformer.webapp.lessons.learning_pair import Pair

SECTIONS: tuple[Callable[[View, Pair], None], ...] = (
    learning_forcing.forcing,
    learning_forcing.together,
    learning_forcing.cost,
    learning_rate.show,
    learning_history.show,
    learning_watch.show,
    learning_past.show,
    learning_paper.show,
)
SLOW = (learning_forcing.together, learning_rate.show, learning_past.show)
"""Those that compute for a second or more when a sentence is new; they are drawn after all others."""


def show(view: View) -> None:
    """Draw the page; every section runs again by itself when one of its own widgets is used."""
    pair = _pair(view)
    places = [st.container() for _ in SECTIONS]
    for section, place in sorted(zip(SECTIONS, places, strict=True), key=lambda one: one[0] in SLOW):
        with place:
            view.live(partial(section, view, pair))


def _pair(view: View) -> Pair:
    """The sentence and the translation that counts as right: the model's own, or one that was typed."""
    st.html(
        '<div class="under">How the weights behind every other page came about: from one guess and its loss to a whole '
        "training. All of it is shown on one pair: your sentence, and a translation that counts as right.</div>"
    )
    typed = st.text_input(
        "The right translation",
        key="learning_target",
        persist_state="session",
        placeholder="Empty: the model's own translation. Type another one to see what it costs.",
    )
    ids = tuple(piece.id for piece in view.record.target_output)
    own = Pair(view.sentence, ids, view.record.target_text, typed=False)
    text = (typed or "").strip()
    if not text:
        return own
    try:
        return Pair(view.sentence, (*view.translator.ids_of(text), EOS_ID), text, typed=True)
    except InputError as error:
        st.html(markup.notice("warning", f"{markup.sentence(str(error))} The model's own translation is used."))
        return own
