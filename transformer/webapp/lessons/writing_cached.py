"""What the page /writing computes with, kept between reruns; see ``transformer.webapp.resources``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import streamlit as st

from transformer.webapp import resources
from transformer.webapp.resources import Search

if TYPE_CHECKING:
    from transformer.engine import TranslationHypothesis, Translator
    from transformer.lessons.writing import Weighing

Ids = tuple[int, ...]


def weighing(translator: Translator, text: str, ids: Ids) -> Weighing:
    """What the model weighed at each step of a translation."""
    return _weighing(translator, translator.fingerprint, text, ids)


def hypotheses(translator: Translator, text: str, search: Search) -> tuple[TranslationHypothesis, ...]:
    """Everything that a beam search of at least ``WIDTH`` ends with, best first."""
    width = max(search.beam, WIDTH)
    return resources.translation(translator, text, dataclasses.replace(search, beam=width, nbest=width)).hypotheses


WIDTH = 5


@st.cache_data(max_entries=64, show_spinner=False)
def _weighing(_translator: Translator, fingerprint: str, text: str, ids: Ids) -> Weighing:
    from transformer.lessons.writing import weighing as found

    return found(_translator, text, ids)
