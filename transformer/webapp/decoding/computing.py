"""What the decoding page computes with, kept between reruns; see ``transformer.webapp.resources``.

Steps are kept as they are and shared, for nothing changes them: a copy of so many candidates would take longer than all
else that a step needs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from transformer.webapp.resources import Search

if TYPE_CHECKING:
    from transformer.engine import CacheSizes, DecodingStep, TranslationHypothesis, Translator

WEIGHED = 50
"""Candidates that are read of every step, shown or not."""


@dataclass(frozen=True)
class Strategy:
    """How the translation goes on behind a forced beginning."""

    name: str
    search: Search
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Change:
    """An intervention in the cross-attention of one step; all numbers from 0, as ``Intervention`` has them."""

    muted: tuple[int, ...] = ()
    forced: int | None = None
    layer: int | None = None
    head: int | None = None

    @property
    def nothing(self) -> bool:
        """Whether it changes nothing."""
        return not self.muted and self.forced is None


def continued(translator: Translator, text: str, strategy: Strategy, prefix: tuple[int, ...]) -> TranslationHypothesis:
    """The translation that begins with ``prefix`` and goes on as the strategy says.

    Raises:
        InputError: a prefix that no decoder could have written, or that is too long.
    """
    return _continued(translator, translator.fingerprint, text, strategy, prefix)


def steps(translator: Translator, text: str, ids: tuple[int, ...]) -> tuple[DecodingStep, ...]:
    """Every step of writing ``ids``, with the ``WEIGHED`` most probable candidates of each."""
    return _steps(translator, translator.fingerprint, text, ids)


def changed(translator: Translator, text: str, before: tuple[int, ...], change: Change) -> DecodingStep:
    """The step behind the pieces ``before`` with its cross-attention changed."""
    return _changed(translator, translator.fingerprint, text, before, change)


def cache(translator: Translator, source: int, read: int) -> CacheSizes:
    """Bytes of keys and values when ``read`` positions of the decoder have been computed."""
    from transformer.engine import cache_sizes

    return cache_sizes(translator.config, source, read)


@st.cache_data(max_entries=256, show_spinner="Decoding …")
def _continued(
    _translator: Translator, fingerprint: str, text: str, strategy: Strategy, prefix: tuple[int, ...]
) -> TranslationHypothesis:
    search = strategy.search
    if strategy.name == "sampling":
        from transformer.engine import SamplingOptions

        drawing = SamplingOptions(
            strategy.temperature,
            strategy.top_k,
            strategy.top_p,
            strategy.seed,
            search.max_extra,
            search.no_repeat_ngram,
        )
        return _translator.sample(text, drawing, prefix_ids=prefix)
    if strategy.name == "greedy":
        search = dataclasses.replace(search, beam=1, nbest=1)
    return _translator.translate(text, **search.options(), prefix_ids=prefix).best


@st.cache_resource(max_entries=64, show_spinner=False)
def _steps(_translator: Translator, fingerprint: str, text: str, ids: tuple[int, ...]) -> tuple[DecodingStep, ...]:
    return tuple(_translator.steps(text, ids, count=WEIGHED))


@st.cache_resource(max_entries=64, show_spinner=False)
def _changed(
    _translator: Translator, fingerprint: str, text: str, before: tuple[int, ...], change: Change
) -> DecodingStep:
    from transformer.engine import Intervention

    intervention = Intervention(change.muted, change.forced, change.layer, change.head)
    return _translator.steps(text, before, count=WEIGHED, intervention=intervention)[-1]
