"""The page /writing from top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from transformer.webapp.frame import View
from transformer.webapp.lessons import writing_choosing, writing_steps
from transformer.webapp.lessons.section import next_page

SECTIONS: tuple[Callable[[View], None], ...] = (
    writing_steps.once,
    writing_steps.greedy,
    writing_choosing.flaw,
    writing_choosing.penalty,
)


def show(view: View) -> None:
    """Draw the page; every section runs again by itself when one of its own widgets is used."""
    for section in SECTIONS:
        view.live(partial(section, view))
    next_page("writing")
