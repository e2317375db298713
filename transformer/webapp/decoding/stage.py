"""The decoding page from top to bottom: choices, stepper, candidates and attention, maps, outcome."""

from __future__ import annotations

import streamlit as st

from transformer.errors import InputError
from transformer.webapp import markup, resources
from transformer.webapp.decoding import choosing, computing, growing, looking, stepper, telling, weighing
from transformer.webapp.decoding.walk import Walk
from transformer.webapp.frame import View


def show(view: View, every: float | None = None) -> None:
    """Draw the page; it runs again with every step, and by itself after ``every`` seconds while playing."""
    stepper.keep_time(every)
    strategy, path = choosing.show(view)
    prefix = tuple(choice.id for choice in path)
    try:
        hypothesis = computing.continued(view.translator, view.sentence, strategy, prefix)
        steps = computing.steps(view.translator, view.sentence, hypothesis.ids)
    except InputError as error:
        choosing.beginning(view, path)
        st.html(
            markup.notice("warning", f"{markup.sentence(str(error))}\nPress Start over, or type another beginning.")
        )
        return
    stepper.advance(len(steps))
    with st.container(horizontal=True, key="steering", vertical_alignment="bottom", gap="medium"):
        step = stepper.show(len(steps))
        choosing.beginning(view, path)
    layer, head = view.layer - 1, view.head - 1
    walk = Walk(view, strategy, path, hypothesis, steps, step - 1)
    st.html(telling.way(walk))
    left, right = st.columns([6, 5], gap="medium")
    with right, st.container(gap="small"):
        looked, notes = st.empty(), st.empty()
        change = looking.interventions(walk, layer, head)
        changed = None
        if not change.nothing:
            changed = computing.changed(view.translator, view.sentence, walk.before, change)
            notes.html(markup.notice("info", looking.said(walk, change)))
        shown = changed or walk.now
        title = (
            f"Where this step looks: {view.card.source} input, cross attention · layer {layer + 1} · head {head + 1}"
        )
        looked.html(looking.source(view.record.source, shown.cross[layer, head], change.muted, title))
        st.html(looking.mask_row(walk))
    with left, st.container(gap="xxsmall"):
        bars, rest = weighing.show(walk, walk.now, changed)
        st.html(telling.numbers(walk, shown, len(bars), rest))
    growing.show(
        walk, resources.record(view.translator, view.sentence, hypothesis.ids), layer, head, changed is not None
    )
    st.html(telling.outcome(walk) + telling.choices(walk))
    weighing.table(bars, walk.step)
