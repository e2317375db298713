"""What the page /learning computes with, kept between reruns; see ``transformer.webapp.resources``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from transformer.webapp.lessons import snapshots_cached as kept

if TYPE_CHECKING:
    from transformer.capture.record import AttentionRecord
    from transformer.engine import Translator
    from transformer.lessons.history import Course
    from transformer.lessons.schedule import AdamRun
    from transformer.lessons.snapshots import Look
    from transformer.lessons.teacher import LabelView, TeacherTable, Timing
    from transformer.webapp.resources import Card

Ids = tuple[int, ...]


def table(translator: Translator, text: str, ids: Ids) -> TeacherTable:
    """Every position of a pair under teacher forcing."""
    return _table(translator, translator.fingerprint, text, ids)


def trained_loss(translator: Translator, text: str, ids: Ids, smoothing: float) -> float:
    """The loss of a pair by the trainer's own function."""
    return _trained_loss(translator, translator.fingerprint, text, ids, smoothing)


def label_view(translator: Translator, text: str, ids: Ids, position: int, smoothing: float) -> LabelView:
    """What the model says at a position, and what the smoothed label wants."""
    return _label_view(translator, translator.fingerprint, text, ids, position, smoothing)


def timing(translator: Translator, text: str, ids: Ids, time: int) -> Timing:
    """How long the decoder takes all at once and step by step; another ``time`` measures anew."""
    return _timing(translator, translator.fingerprint, text, ids, time)


def adam(translator: Translator, text: str, ids: Ids, rates: tuple[float, ...], settings: Any) -> AdamRun:
    """Updates of a private copy of the model on a pair; ``settings`` as ``own_settings`` gives them."""
    return _adam(translator, translator.fingerprint, text, ids, rates, settings)


def history(card: Card) -> Course | None:
    """How the training of a checkpoint went; None if it does not say."""
    try:
        stat = (card.folder / "history.jsonl").stat()
    except OSError:
        return None
    return _history(str(card.folder), (stat.st_mtime_ns, stat.st_size))


def unreadable(card: Card) -> str:
    """Why the history of a checkpoint cannot be read; empty if it can, or there is none."""
    from transformer.lessons.history import unreadable as found

    return found(card.folder)


def look(card: Card, translator: Translator, step: int | None, text: str, ids: Ids) -> Look:
    """What a snapshot makes of a pair; without a step, what the finished model does.

    Raises:
        CheckpointError: the snapshot is damaged.
    """
    return _look(kept.stamp(card, step), translator.fingerprint, text, ids, card, translator)


def record(card: Card, translator: Translator, step: int | None, text: str, ids: Ids) -> AttentionRecord:
    """The attention of a snapshot while it is forced to write ``ids``; without a step, of the finished model.

    Raises:
        CheckpointError: the snapshot is damaged.
    """
    return _record(kept.stamp(card, step), translator.fingerprint, text, ids, card, translator)


@st.cache_data(max_entries=512, show_spinner=False)
def _look(stamp: kept.Stamp, fingerprint: str, text: str, ids: Ids, _card: Card, _translator: Translator) -> Look:
    from transformer.lessons.snapshots import look as look_at

    return look_at(kept.opened(stamp, _card, _translator), text, ids)


@st.cache_data(max_entries=64, show_spinner=False)
def _record(
    stamp: kept.Stamp, fingerprint: str, text: str, ids: Ids, _card: Card, _translator: Translator
) -> AttentionRecord:
    return kept.opened(stamp, _card, _translator).inspect(text, target_ids=ids)


@st.cache_data(max_entries=64, show_spinner=False)
def _table(_translator: Translator, fingerprint: str, text: str, ids: Ids) -> TeacherTable:
    from transformer.lessons.teacher import teacher_table

    return teacher_table(_translator, text, ids)


@st.cache_data(max_entries=256, show_spinner=False)
def _trained_loss(_translator: Translator, fingerprint: str, text: str, ids: Ids, smoothing: float) -> float:
    from transformer.lessons.teacher import trained_loss as measured

    return measured(_translator, text, ids, smoothing)


@st.cache_data(max_entries=256, show_spinner=False)
def _label_view(
    _translator: Translator, fingerprint: str, text: str, ids: Ids, position: int, smoothing: float
) -> LabelView:
    from transformer.lessons.teacher import label_view as view

    return view(_translator, text, ids, position, smoothing)


@st.cache_data(max_entries=64, show_spinner="Measuring …")
def _timing(_translator: Translator, fingerprint: str, text: str, ids: Ids, time: int) -> Timing:
    from transformer.lessons.teacher import timing as measured

    return measured(_translator, text, ids)


@st.cache_data(max_entries=64, show_spinner="Updating a copy of the model …")
def _adam(
    _translator: Translator, fingerprint: str, text: str, ids: Ids, rates: tuple[float, ...], settings: Any
) -> AdamRun:
    from transformer.lessons.schedule import adam_run

    return adam_run(_translator, text, ids, rates, settings)


@st.cache_data(max_entries=16, show_spinner=False)
def _history(folder: str, stamp: tuple[int, int]) -> Course | None:
    from transformer.lessons.history import course

    return course(Path(folder))
