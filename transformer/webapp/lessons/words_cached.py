"""What the page /words computes with, kept between reruns; see ``transformer.webapp.resources``.

The library of the lessons, and with it PyTorch, is imported only where it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from transformer.webapp.lessons import snapshots_cached as kept

if TYPE_CHECKING:
    from transformer.engine import Translator
    from transformer.lessons.embeddings import Neighbours, Organised, PieceMap
    from transformer.lessons.positions import OrderEffect, PositionTable, Products, Shift, Sliced
    from transformer.lessons.tokens import Lookup
    from transformer.text.tokenizer import Piece
    from transformer.webapp.resources import Card, Search

Ids = tuple[int, ...]


def pieces_of(translator: Translator, text: str) -> tuple[Piece, ...]:
    """The pieces of a text without ``<SOS>`` and ``<EOS>``; none for an empty text."""
    return translator.tokenizer.pieces(text)[1:-1]


def lookup(translator: Translator, text: str) -> Lookup:
    """How a sentence becomes vectors."""
    return _lookup(translator, translator.fingerprint, text)


def neighbours(translator: Translator, number: int) -> Neighbours:
    """The pieces nearest to the one with an id."""
    return _neighbours(translator, translator.fingerprint, number)


def piece_map(translator: Translator, ids: Ids, companions: int) -> PieceMap:
    """Pieces and their neighbours in a plane."""
    return _piece_map(translator, translator.fingerprint, ids, companions)


def organised(card: Card, translator: Translator, step: int, ids: Ids) -> Organised:
    """The same pieces in a snapshot and in the finished model.

    Raises:
        CheckpointError: the snapshot is damaged.
        OSError: it cannot be read.
    """
    return _organised(kept.stamp(card, step), translator.fingerprint, ids, card, translator)


def position_table(translator: Translator, length: int) -> PositionTable:
    """The first positions of the encoder."""
    return _position_table(translator, translator.fingerprint, length)


def products(translator: Translator, length: int) -> Products:
    """Dot products of the first positions."""
    return _products(translator, translator.fingerprint, length)


def shift(translator: Translator, offset: int) -> Shift:
    """The rotation that carries every position ``offset`` places on."""
    return _shift(translator, translator.fingerprint, offset)


def sliced(translator: Translator, text: str) -> Sliced:
    """What a sentence takes of the table of positions."""
    return _sliced(translator, translator.fingerprint, text)


def order_effect(translator: Translator, first: str, second: str, search: Search) -> OrderEffect:
    """Two sentences of the same pieces, with positions on and off.

    Raises:
        InputError: they do not have the same pieces.
    """
    return _order_effect(translator, translator.fingerprint, first, second, search)


@st.cache_data(max_entries=64, show_spinner=False)
def _lookup(_translator: Translator, fingerprint: str, text: str) -> Lookup:
    from transformer.lessons.tokens import look_up

    return look_up(_translator, text)


@st.cache_data(max_entries=256, show_spinner=False)
def _neighbours(_translator: Translator, fingerprint: str, number: int) -> Neighbours:
    from transformer.lessons.embeddings import neighbours as nearest

    return nearest(_translator, number)


@st.cache_data(max_entries=128, show_spinner=False)
def _piece_map(_translator: Translator, fingerprint: str, ids: Ids, companions: int) -> PieceMap:
    from transformer.lessons.embeddings import piece_map as lay_out

    return lay_out(_translator, ids, companions)


@st.cache_data(max_entries=128, show_spinner="Opening the snapshot …")
def _organised(stamp: kept.Stamp, fingerprint: str, ids: Ids, _card: Card, _translator: Translator) -> Organised:
    from transformer.lessons.embeddings import organised as compare

    return compare(kept.opened(stamp, _card, _translator), _translator, ids)


@st.cache_data(max_entries=32, show_spinner=False)
def _position_table(_translator: Translator, fingerprint: str, length: int) -> PositionTable:
    from transformer.lessons.positions import position_table as table

    return table(_translator, length)


@st.cache_data(max_entries=32, show_spinner=False)
def _products(_translator: Translator, fingerprint: str, length: int) -> Products:
    from transformer.lessons.positions import position_table as table
    from transformer.lessons.positions import products as multiplied

    return multiplied(table(_translator, length).table)


@st.cache_data(max_entries=64, show_spinner=False)
def _shift(_translator: Translator, fingerprint: str, offset: int) -> Shift:
    from transformer.lessons.positions import shift as rotation

    return rotation(_translator, offset)


@st.cache_data(max_entries=64, show_spinner=False)
def _sliced(_translator: Translator, fingerprint: str, text: str) -> Sliced:
    from transformer.lessons.positions import sliced as taken

    return taken(_translator, text)


@st.cache_data(max_entries=64, show_spinner="Reading both sentences with and without positions …")
def _order_effect(_translator: Translator, fingerprint: str, first: str, second: str, search: Search) -> OrderEffect:
    from transformer.lessons.positions import order_effect as effect

    return effect(_translator, first, second, search.options())
