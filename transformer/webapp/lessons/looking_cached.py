"""What the page /looking computes with, kept between reruns; see ``transformer.webapp.resources``.

The library of the lessons, and with it PyTorch, is imported only where it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from transformer.webapp.lessons.plain_cached import plain

if TYPE_CHECKING:
    from transformer.engine import Translator
    from transformer.lessons.changing import Changed
    from transformer.lessons.costs import Measured
    from transformer.lessons.heads import Multiplications, Slices
    from transformer.lessons.projections import Projections
    from transformer.lessons.scaling import RandomScores, Spread


def bottleneck(translator: Translator, text: str, ids: tuple[int, ...], position: int | None) -> Changed:
    """The model with one vector for the whole source; position from 0, None for the average."""
    return _bottleneck(translator, translator.fingerprint, text, ids, position)


def measured(translator: Translator, text: str) -> Measured:
    """Time and memory of one layer at several lengths, measured once for each model."""
    return _measured(translator, translator.fingerprint, text)


def measure_again(translator: Translator) -> None:
    """Forget what was measured."""
    _measured.clear()


def projections(translator: Translator, text: str, layer: int, head: int) -> Projections:
    """Queries, keys and values of one head; layer and head from 0."""
    return _projections(translator, translator.fingerprint, text, layer, head)


def spreads(translator: Translator, text: str, ids: tuple[int, ...]) -> tuple[Spread, ...]:
    """Variance and entropy of every head, with and without the division by sqrt(d_k)."""
    return _spreads(translator, translator.fingerprint, text, ids)


def without_division(translator: Translator, text: str, ids: tuple[int, ...]) -> Changed:
    """The whole model without the division."""
    return _without_division(translator, translator.fingerprint, text, ids)


@st.cache_data(max_entries=32, show_spinner=False)
def random_scores(keys: int) -> RandomScores:
    """Scores of random queries and keys, which need no model."""
    from transformer.lessons.scaling import random_scores as drawn

    return drawn(keys)


def slices(translator: Translator, text: str, layer: int, position: int) -> Slices:
    """The heads of one position of one layer; both from 0."""
    return _slices(translator, translator.fingerprint, text, layer, position)


def multiplications(translator: Translator, length: int) -> tuple[Multiplications, ...]:
    """Multiplications of one layer over so many positions, for several numbers of heads."""
    return _multiplications(translator, translator.fingerprint, length)


@st.cache_data(max_entries=64, show_spinner="Translating through one vector …")
def _bottleneck(
    _translator: Translator, fingerprint: str, text: str, ids: tuple[int, ...], position: int | None
) -> Changed:
    from transformer.lessons.costs import bottleneck

    return bottleneck(_translator, text, ids, position, plain(_translator, text))


@st.cache_data(max_entries=8, show_spinner="Measuring …")
def _measured(_translator: Translator, fingerprint: str, _text: str) -> Measured:
    from transformer.lessons.costs import measure

    return measure(_translator, _text)


@st.cache_data(max_entries=64, show_spinner=False)
def _projections(_translator: Translator, fingerprint: str, text: str, layer: int, head: int) -> Projections:
    from transformer.lessons.projections import projections

    return projections(_translator, text, layer, head)


@st.cache_data(max_entries=32, show_spinner=False)
def _spreads(_translator: Translator, fingerprint: str, text: str, ids: tuple[int, ...]) -> tuple[Spread, ...]:
    from transformer.lessons.scaling import spreads

    return spreads(_translator, text, ids)


@st.cache_data(max_entries=32, show_spinner="Translating without the division …")
def _without_division(_translator: Translator, fingerprint: str, text: str, ids: tuple[int, ...]) -> Changed:
    from transformer.lessons.scaling import without_division

    return without_division(_translator, text, ids, plain(_translator, text))


@st.cache_data(max_entries=64, show_spinner=False)
def _slices(_translator: Translator, fingerprint: str, text: str, layer: int, position: int) -> Slices:
    from transformer.lessons.heads import slices

    return slices(_translator, text, layer, position)


@st.cache_data(max_entries=32, show_spinner=False)
def _multiplications(_translator: Translator, fingerprint: str, length: int) -> tuple[Multiplications, ...]:
    from transformer.lessons.heads import multiplications

    return multiplications(_translator, length)
