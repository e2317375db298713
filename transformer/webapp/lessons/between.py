"""The page /between from top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from transformer.webapp.frame import View
from transformer.webapp.lessons import (
    between_feed_forward,
    between_normalisation,
    between_residual,
    between_vocabulary,
)
from transformer.webapp.lessons.section import next_page

SECTIONS: tuple[Callable[[View], None], ...] = (
    between_feed_forward.show,
    between_residual.show,
    between_normalisation.by_hand,
    between_normalisation.of_a_position,
    between_normalisation.over_the_batch,
    between_vocabulary.softmax,
    between_vocabulary.lens,
)


def show(view: View) -> None:
    """Draw the page; every section runs again by itself when one of its own widgets is used."""
    for section in SECTIONS:
        view.live(partial(section, view))
    next_page("between")
