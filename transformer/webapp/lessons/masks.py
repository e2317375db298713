"""The page /masks from top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

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


SLOW = (masks_off.show, masks_leak.show)
"""Those that compute longest when a sentence is new; they are drawn after all others, in this order."""


def show(view: View) -> None:
    """Draw the page; every section runs again by itself when one of its own widgets is used."""
    places = [st.container() for _ in SECTIONS]
    order = sorted(range(len(SECTIONS)), key=lambda at: SLOW.index(SECTIONS[at]) if SECTIONS[at] in SLOW else -1)
    for at in order:
        with places[at]:
            view.live(partial(SECTIONS[at], view))
    next_page("masks")
