"""What the beam page computes with, kept between reruns; see ``transformer.webapp.resources``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.analysis.beam import coverage
from transformer.webapp import resources
from transformer.webapp.controls import BEAMS
from transformer.webapp.resources import Search

if TYPE_CHECKING:
    from transformer.decoding.trace import BeamTrace
    from transformer.engine import Translation, Translator


def trace(translator: Translator, text: str, search: Search, prefix: tuple[int, ...]) -> BeamTrace:
    """The tree of a search whose translations all begin with ``prefix``.

    Raises:
        InputError: the text, or a prefix that no decoder could have written.
    """
    return _trace(translator, translator.fingerprint, text, search, prefix)


def covered(translator: Translator, text: str, ids: tuple[int, ...]) -> float:
    """How far a translation has looked at its source: the mean of Wu's coverage over the source pieces, 0 to 1.

    As in the search, attention is the mean over the heads of the last layer, and <SOS> and <EOS> do not count.
    """
    return _covered(translator, translator.fingerprint, text, ids)


def greedy(translator: Translator, text: str, search: Search) -> Translation:
    """The translation by greedy search under the other settings of ``search``."""
    return resources.translation(translator, text, dataclasses.replace(search, beam=1, nbest=1))


def widths(translator: Translator, text: str, search: Search) -> list[Translation]:
    """The best translation for each beam size on offer."""
    return _widths(translator, translator.fingerprint, text, dataclasses.replace(search, beam=1, nbest=1))


@st.cache_resource(max_entries=32, show_spinner="Searching …")
def _trace(_translator: Translator, fingerprint: str, text: str, search: Search, prefix: tuple[int, ...]) -> BeamTrace:
    return _translator.trace_beams(text, **search.options(), prefix_ids=prefix)


@st.cache_data(max_entries=512, show_spinner=False)
def _covered(_translator: Translator, fingerprint: str, text: str, ids: tuple[int, ...]) -> float:
    record = resources.record(_translator, text, ids)
    real = np.array([not piece.special for piece in record.source])
    return float(coverage(record.cross[-1].mean(axis=0))[real].mean())


@st.cache_data(max_entries=64, show_spinner="Searching with every beam size …")
def _widths(_translator: Translator, fingerprint: str, text: str, search: Search) -> list[Translation]:
    options = search.options()
    del options["beam_size"], options["nbest"]
    return _translator.beam_widths(text, BEAMS, **options)
