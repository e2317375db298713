"""The greedy translation of the model as it is, which several sections compare with one of a changed model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from transformer.engine import Translator
    from transformer.lessons.changing import Written


def plain(translator: Translator, text: str) -> Written:
    """What greedy search writes, cut off at ``changing.MOST`` pieces."""
    return _plain(translator, translator.fingerprint, text)


@st.cache_data(max_entries=64, show_spinner=False)
def _plain(_translator: Translator, fingerprint: str, text: str) -> Written:
    from transformer.lessons.changing import greedy

    return greedy(_translator, text)
