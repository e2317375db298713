"""From words to vectors: the page's sections, in order."""

from __future__ import annotations

from functools import partial

from transformer.webapp.frame import View
from transformer.webapp.lessons import words_positions, words_vectors
from transformer.webapp.lessons.section import next_page

SECTIONS = (
    words_vectors.pieces,
    words_vectors.lookup,
    words_vectors.neighbours,
    words_vectors.map_and_training,
    words_positions.order,
    words_positions.table,
    words_positions.clock,
    words_positions.distance,
    words_positions.shift,
    words_positions.once,
)


def show(view: View) -> None:
    """Draw the page; a section runs again by itself when one of its own widgets is used."""
    for draw in SECTIONS:
        view.live(partial(draw, view))
    next_page("words")
