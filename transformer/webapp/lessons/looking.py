"""How attention works: the page's sections, in order."""

from __future__ import annotations

from transformer.webapp.frame import View
from transformer.webapp.lessons import looking_heads, looking_scaling, looking_vectors, looking_why
from transformer.webapp.lessons.section import next_page


def show(view: View) -> None:
    """Draw the page."""
    looking_why.show(view)
    looking_vectors.show(view)
    looking_scaling.show(view)
    looking_heads.show(view)
    next_page("looking")
