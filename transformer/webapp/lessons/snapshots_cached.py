"""The snapshots of a training, opened once for all pages and kept between reruns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from transformer.catalogue import snapshots
from transformer.webapp import resources

if TYPE_CHECKING:
    from transformer.engine import Translator
    from transformer.webapp.resources import Card

KEPT_NUMBERS = 150_000_000
"""Snapshots of a checkpoint are all kept in memory if together they hold at most so many numbers (of 4 bytes)."""

Stamp = tuple[str, int | None, int, int]
"""Folder, step, time of change and size of a snapshot; without a step, the finished model."""


def steps(card: Card) -> tuple[int, ...]:
    """After how many updates snapshots were kept, in their order."""
    return tuple(snapshots(card.folder))


def elsewhere() -> str:
    """A sentence that names the models whose snapshots were kept; empty if there are none."""
    names = [name for name, card in resources.cards().items() if steps(card)]
    if not names:
        return ""
    last = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    return f" Choose {last} above, {'which have' if len(names) > 1 else 'which has'} some."


def stamp(card: Card, step: int | None) -> Stamp:
    """What tells a snapshot from every other, and from itself once its file was replaced.

    Raises:
        OSError: it cannot be read.
    """
    if step is None:
        return (str(card.folder), None, 0, 0)
    stat = snapshots(card.folder)[step].stat()
    return (str(card.folder), step, stat.st_mtime_ns, stat.st_size)


def opened(mark: Stamp, card: Card, translator: Translator) -> Translator:
    """A snapshot, or, without a step, the finished model itself.

    Raises:
        CheckpointError: the snapshot is damaged.
    """
    if mark[1] is None:
        return translator
    numbers = translator.parameter_count * len(steps(card))
    found: Translator = (_many if numbers <= KEPT_NUMBERS else _one)(mark, translator.fingerprint)
    return found


@st.cache_resource(max_entries=16, show_spinner=False)
def _many(mark: Stamp, fingerprint: str) -> Translator:
    return _open(mark)


@st.cache_resource(max_entries=1, show_spinner=False)
def _one(mark: Stamp, fingerprint: str) -> Translator:
    return _open(mark)


def _open(mark: Stamp) -> Translator:
    from transformer.engine import load

    return load(Path(mark[0]), snapshot=mark[1])
