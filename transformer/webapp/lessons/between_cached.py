"""What the page /between computes with, kept between reruns; see ``transformer.webapp.resources``.

The library of the lessons, and with it PyTorch, is imported only where it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from transformer.engine import Translator
    from transformer.lessons.feed_forward import Alone, Sizes, Unit
    from transformer.lessons.normalisation import NormParameters, PaddedBatch
    from transformer.lessons.residual import Lengths, Normalised
    from transformer.lessons.vocabulary import Choice, Lens

Ids = tuple[int, ...]


def activations(translator: Translator, text: str, ids: Ids, stack: str) -> NDArray[np.float32]:
    """What every unit of a stack gives, [L, T, F]."""
    found: NDArray[np.float32] = _activations(translator, translator.fingerprint, text, ids, stack)
    return found


def units(
    translator: Translator, text: str, ids: Ids, stack: str, layer: int, position: int, count: int
) -> list[tuple[Unit, list[str]]]:
    """The most active units of a position and the pieces that each points at; layer and position from 0."""
    return _units(translator, translator.fingerprint, text, ids, stack, layer, position, count)


def alone(translator: Translator, text: str, ids: Ids, stack: str, layer: int, position: int) -> Alone:
    """A position given to the sublayers of a layer without the others; layer and position from 0."""
    return _alone(translator, translator.fingerprint, text, ids, stack, layer, position)


def sizes(translator: Translator) -> Sizes:
    """What one feed-forward network holds."""
    return _sizes(translator, translator.fingerprint)


def lengths(translator: Translator, text: str, ids: Ids, stack: str) -> Lengths:
    """The lengths of the residual stream through a stack."""
    return _lengths(translator, translator.fingerprint, text, ids, stack)


def normalised(translator: Translator, text: str, ids: Ids, stack: str, layer: int, part: str) -> Normalised:
    """One normalisation at every position; layer from 0."""
    return _normalised(translator, translator.fingerprint, text, ids, stack, layer, part)


def parameters(translator: Translator) -> tuple[NormParameters, ...]:
    """Gamma and beta of every normalisation."""
    return _parameters(translator, translator.fingerprint)


def padded_batch(translator: Translator, texts: tuple[str, ...], position: int) -> PaddedBatch:
    """A batch with more and more padding, normalised in both ways; position of the first text, from 0."""
    return _padded_batch(translator, translator.fingerprint, texts, position)


def choice(translator: Translator, text: str, ids: Ids, position: int) -> Choice:
    """The logits of one position, from 0."""
    return _choice(translator, translator.fingerprint, text, ids, position)


def lens(translator: Translator, text: str, ids: Ids) -> Lens:
    """What every layer would have said."""
    return _lens(translator, translator.fingerprint, text, ids)


@st.cache_data(max_entries=16, show_spinner=False)
def _activations(_translator: Translator, fingerprint: str, text: str, ids: Ids, stack: str) -> NDArray[np.float32]:
    from transformer.lessons.feed_forward import activations as found

    return found(_translator, text, ids, stack)


@st.cache_data(max_entries=64, show_spinner=False)
def _units(
    _translator: Translator, fingerprint: str, text: str, ids: Ids, stack: str, layer: int, position: int, count: int
) -> list[tuple[Unit, list[str]]]:
    from transformer.lessons.feed_forward import outward, promoted, strongest

    hidden = activations(_translator, text, ids, stack)[layer]
    best = strongest(hidden, position, outward(_translator, stack, layer), count)
    return list(zip(best, promoted(_translator, stack, layer, [unit.number for unit in best], 4), strict=True))


@st.cache_data(max_entries=64, show_spinner=False)
def _alone(
    _translator: Translator, fingerprint: str, text: str, ids: Ids, stack: str, layer: int, position: int
) -> Alone:
    from transformer.lessons.feed_forward import alone as found

    return found(_translator, text, ids, stack, layer, position)


@st.cache_data(max_entries=8, show_spinner=False)
def _sizes(_translator: Translator, fingerprint: str) -> Sizes:
    from transformer.lessons.feed_forward import sizes as found

    return found(_translator)


@st.cache_data(max_entries=32, show_spinner=False)
def _lengths(_translator: Translator, fingerprint: str, text: str, ids: Ids, stack: str) -> Lengths:
    from transformer.lessons.residual import lengths as found

    return found(_translator, text, ids, stack)


@st.cache_data(max_entries=32, show_spinner=False)
def _normalised(
    _translator: Translator, fingerprint: str, text: str, ids: Ids, stack: str, layer: int, part: str
) -> Normalised:
    from transformer.lessons.residual import normalised as found

    return found(_translator, text, ids, stack, layer, part)


@st.cache_data(max_entries=4, show_spinner=False)
def _parameters(_translator: Translator, fingerprint: str) -> tuple[NormParameters, ...]:
    from transformer.lessons.normalisation import parameters as found

    return found(_translator)


@st.cache_data(max_entries=32, show_spinner=False)
def _padded_batch(_translator: Translator, fingerprint: str, texts: tuple[str, ...], position: int) -> PaddedBatch:
    from transformer.lessons.normalisation import padded_batch as found

    return found(_translator, texts, position)


@st.cache_data(max_entries=64, show_spinner=False)
def _choice(_translator: Translator, fingerprint: str, text: str, ids: Ids, position: int) -> Choice:
    from transformer.lessons.vocabulary import choice as found

    return found(_translator, text, ids, position)


@st.cache_data(max_entries=16, show_spinner=False)
def _lens(_translator: Translator, fingerprint: str, text: str, ids: Ids) -> Lens:
    from transformer.lessons.vocabulary import lens as found

    return found(_translator, text, ids)
