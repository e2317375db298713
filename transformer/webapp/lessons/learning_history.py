"""How this checkpoint's own training went, from its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from transformer.plots.curves import Line, Panel, panels
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import learning_cached as cached
from transformer.webapp.lessons import snapshots_cached
from transformer.webapp.lessons.learning_pair import Pair
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.history import Course, Curve

SAMPLES = 8
"""Stages of a sample sentence that are listed."""


def show(view: View, pair: Pair) -> None:
    """The curves and what became of a few sentences."""
    from transformer.lessons.schedule import own_settings

    with section(
        "history",
        "How did the training of this model go?",
        idea="An *update* changes all weights once, by the gradient of the mean loss over a batch of pairs. The loss "
        "on the training pairs is that with dropout and label smoothing, which the updates lower; the loss on *dev* "
        "sentences, which are never trained on, says whether what is learned holds elsewhere. BLEU compares whole "
        "translations with a reference.",
        source="Sections 5.1 to 5.4",
    ):
        course = cached.history(view.card)
        if course is None:
            st.html(_nothing(cached.unreadable(view.card)))
            return
        if course.unread:
            lines = "1 line" if course.unread == 1 else f"{course.unread:,} lines"
            are = "is" if course.unread == 1 else "are"
            said = f"{lines} of history.jsonl could not be read and {are} left out."
            st.html(markup.notice("warning", said))
        settings = own_settings(view.translator.meta)
        exact = settings is not None and settings.select == "exact"
        shown = _panels(course, exact)
        marks = snapshots_cached.steps(view.card)
        picture(
            panels(shown, view.colours, marks=marks),
            "learning_history",
            f"{view.card.name} history",
            "Curves over the updates: " + ", ".join(panel.title for panel in shown),
            420,
        )
        notes = []
        if marks:
            notes.append("Dotted lines: where a snapshot of the weights was kept.")
        if course.signature and len(course.dev_bleu) and not exact:
            notes.append(f"BLEU on dev: {course.signature}.")
        if course.best_step is not None:
            notes.append(f"The best evaluation was after {course.best_step:,} updates.")
        st.html(f'<div class="under" style="overflow-wrap:anywhere">{markup.escape(" ".join(notes))}</div>')
        if course.samples:
            _samples(view, course)
        attempt(
            "Find the end of the warm-up in the third panel and look at the loss above it: how much was learned while "
            "the steps were still small?"
        )


def _nothing(why: str) -> str:
    """What is said instead of curves: that the history cannot be read, and why, or that there is none."""
    if why:
        return markup.notice(
            "warning",
            f"history.jsonl of this checkpoint cannot be read: {why}. So there are no curves to show. Copy the file "
            "anew from where the checkpoint comes from.",
        )
    return markup.notice(
        "info",
        "This checkpoint has no history of its training (a file history.jsonl beside its weights), so there are no "
        "curves to show. Choose a model that was trained by this program.",
    )


def _panels(course: Course, exact: bool) -> list[Panel]:
    """``exact``: each sentence has one right answer, so exact matches are counted; otherwise BLEU."""
    losses = [
        _line("train, smoothed", course.train_loss, quiet=True),
        _line("train, plain", course.train_likelihood),
        _line("dev, plain", course.dev_loss, points=True),
    ]
    score = _line("exact match" if exact else "BLEU", course.dev_exact if exact else course.dev_bleu, points=True)
    found = [
        Panel("loss, nats per piece", tuple(losses), decimals=3),
        Panel("dev: sentences exactly right, per cent" if exact else "dev: BLEU", (score,)),
        Panel("learning rate", (_line("rate", course.rate),), scientific=True),
        Panel("gradient norm before clipping", (_line("norm", course.gradient_norm, quiet=True),), logarithmic=True),
    ]
    return [panel for panel in found if any(len(line.steps) for line in panel.lines)]


def _line(name: str, curve: Curve, quiet: bool = False, points: bool = False) -> Line:
    return Line(name, curve.steps, curve.values, quiet, points)


def _samples(view: View, course: Course) -> None:
    from transformer.lessons.history import spread

    key = f"learning_sample_{len(course.samples)}"
    number = st.selectbox(
        "What became of a dev sentence",
        range(len(course.samples)),
        format_func=lambda place: course.samples[place][0].source,
        key=key,
        persist_state="session",
    )
    several = course.samples[int(number or 0)]
    st.html(
        markup.table(
            f"What the model wrote on the way, for: {several[0].source}",
            ("updates", view.card.target),
            [
                *((f"{one.step:,}", one.output or "(empty)") for one in spread(several, SAMPLES)),
                ("reference", several[0].reference),
            ],
            numeric=(0,),
        )
    )
