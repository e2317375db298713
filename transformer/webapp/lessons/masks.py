"""The page /masks from top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from transformer.webapp.frame import View
from transformer.webapp.lessons import masks_assembled, masks_causal, masks_cross, masks_leak, masks_off, masks_padding
from transformer.webapp.lessons.section import next_page

SECTIONS: tuple[Callable[[View], None], ...] = (
    masks_assembled.show,
    masks_causal.show,
    masks_leak.show,
    masks_padding.show,
    masks_off.show,
    masks_cross.show,
)


def show(view: View) -> None:
    """Draw the page; every section runs again by itself when one of its own widgets is used."""
    for section in SECTIONS:
        view.live(partial(section, view))
    next_page("masks")
