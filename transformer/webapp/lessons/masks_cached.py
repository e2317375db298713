"""What the page /masks computes with, kept between reruns; see ``transformer.webapp.resources``.

The library of the lessons, and with it PyTorch, is imported only where it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from transformer.webapp.lessons.plain_cached import plain

if TYPE_CHECKING:
    from transformer.engine import Translator
    from transformer.lessons.causality import Influence, Unmasked
    from transformer.lessons.crossing import Assembly, Crossing
    from transformer.lessons.padding import PaddingOff

Ids = tuple[int, ...]


def assembly(translator: Translator, text: str, ids: Ids) -> Assembly:
    """What flows between encoder and decoder."""
    return _assembly(translator, translator.fingerprint, text, ids)


def influence(translator: Translator, text: str, ids: Ids) -> Influence:
    """Which prediction moves when which piece is replaced."""
    return _influence(translator, translator.fingerprint, text, ids)


def without_mask(translator: Translator, text: str, ids: Ids, layer: int | None) -> Unmasked:
    """The decoder without its causal mask; layer from 0, None for all."""
    return _without_mask(translator, translator.fingerprint, text, ids, layer)


def without_padding_mask(translator: Translator, text: str, ids: Ids, columns: int, place: str) -> PaddingOff:
    """The model with padding that it can see."""
    return _without_padding_mask(translator, translator.fingerprint, text, ids, columns, place)


def crossing(translator: Translator, text: str, ids: Ids, layer: int, head: int) -> Crossing:
    """Queries, keys and values of one head of cross-attention; layer and head from 0."""
    return _crossing(translator, translator.fingerprint, text, ids, layer, head)


@st.cache_data(max_entries=32, show_spinner=False)
def _assembly(_translator: Translator, fingerprint: str, text: str, ids: Ids) -> Assembly:
    from transformer.lessons.crossing import assembly as found

    return found(_translator, text, ids)


@st.cache_data(max_entries=32, show_spinner="Replacing piece after piece …")
def _influence(_translator: Translator, fingerprint: str, text: str, ids: Ids) -> Influence:
    from transformer.lessons.causality import influence as found

    return found(_translator, text, ids)


@st.cache_data(max_entries=32, show_spinner="Translating without the mask …")
def _without_mask(_translator: Translator, fingerprint: str, text: str, ids: Ids, layer: int | None) -> Unmasked:
    from transformer.lessons.causality import without_mask as found

    return found(_translator, text, ids, layer, plain(_translator, text))


@st.cache_data(max_entries=8, show_spinner="Translating with padding in sight …")
def _without_padding_mask(
    _translator: Translator, fingerprint: str, text: str, ids: Ids, columns: int, place: str
) -> PaddingOff:
    from transformer.lessons.padding import without_padding_mask as found

    return found(_translator, text, ids, columns, place, plain(_translator, text))


@st.cache_data(max_entries=64, show_spinner=False)
def _crossing(_translator: Translator, fingerprint: str, text: str, ids: Ids, layer: int, head: int) -> Crossing:
    from transformer.lessons.crossing import crossing as found

    return found(_translator, text, ids, layer, head)
