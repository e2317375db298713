"""How every section of a lesson looks: heading with an anchor, the idea, the formula with its place in the paper, the
numbers, and one thing to try."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import streamlit as st

from transformer.webapp import markup
from transformer.webapp.frame import PAGES, page_file


@contextlib.contextmanager
def section(anchor: str, title: str, idea: str, formula: str = "", source: str = "") -> Iterator[None]:
    """Draw the head of a section; what is drawn inside the ``with`` is its body.

    Args:
        anchor: what a link to the section ends with, as in ``/looking#scaling``.
        title: the heading, a question that the section answers.
        idea: two or three sentences, Markdown.
        formula: LaTeX; none if empty.
        source: where the paper has it, as in "Section 3.2.1".
    """
    with st.container(key=f"section_{anchor}", gap="small"):
        st.subheader(title, anchor=anchor)
        st.markdown(idea)
        if formula:
            st.latex(formula)
        if source:
            st.html(f'<div class="under">Attention Is All You Need, {markup.escape(source)}</div>')
        yield


def attempt(text: str) -> None:
    """One thing to try, the last line of a section."""
    st.html(f'<div class="attempt"><b>Try</b> {markup.escape(text)}</div>')


def next_page(file: str) -> None:
    """A link to the lesson that comes after ``pages/<file>.py``; after the last, to the attention of one's sentence."""
    lessons = [spec for spec in PAGES if spec.group == "Understand"]
    place = next(number for number, spec in enumerate(lessons) if spec.file == file)
    if place + 1 < len(lessons):
        following = lessons[place + 1]
        st.page_link(page_file(following), label=f"Next: {following.name}")
    else:
        st.page_link(
            next(page_file(spec) for spec in PAGES if spec.file == "attention"),
            label="That was the last lesson. Go back to your sentence: what does every head look at?",
        )
