"""A small model trained from nothing while the visitor looks on: before, while and after it runs.

The training belongs to the server, not to a session: everybody on the page sees the one that is going on.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from transformer.errors import InputError, TransformerError
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import learning_watch_parts as parts
from transformer.webapp.lessons.learning_pair import Pair
from transformer.webapp.lessons.section import attempt, section

if TYPE_CHECKING:
    from transformer.lessons.toy_run import ToyRun
    from transformer.lessons.toy_runner import ToyRunner

EVERY = 1.0
"""Seconds between two looks at a training that is going on."""
USUAL = "a b c d e f g h"
_VISITOR, _SEEN, _SAID = "learning_watch_visitor", "learning_watch_seen", "learning_watch_said"


@st.cache_resource(show_spinner=False)
def runner() -> ToyRunner:
    """The trainings of this server."""
    from transformer.lessons.toy_runner import ToyRunner

    return ToyRunner()


def show(view: View, pair: Pair) -> None:
    """The section; what is seen depends on whether a training is going on, and whether this session saw the last."""
    st.session_state.setdefault(_VISITOR, secrets.token_hex(8))
    with section(
        "watch",
        "What does it look like when a model learns?",
        idea="Here a small Transformer is trained from nothing while you look on. It reads letters and has to write "
        "them backwards. What each output letter must look at is known: its mirror image in the input. So there is one "
        "right picture, the *other diagonal* of the cross-attention map. At first the attention lies everywhere alike, "
        "and nothing comes out right.",
    ):
        run = runner().run
        if run is None or not (run.running or run.number == st.session_state.get(_SEEN)):
            st.html(parts.intended(runner().plan))
            _refusal()
            _start_button("Train it now")
            return
        st.session_state[_SEEN] = run.number
        if run.running:
            letters, head = _choices(run)
            st.fragment(partial(_live, view, run, letters, head), run_every=EVERY)()
        else:
            _over(view, run)
        with st.expander("What is trained, and how to train it by hand"):
            st.html(parts.intended(run.plan))
            st.code(run.plan.command(run.number), language="bash", wrap_lines=True)
        attempt(
            "While it runs: do the first or the last letters of the answer come right first? When it has ended: go "
            "back with the slider to where the map turns, and compare the curves there. Then type nine letters or "
            "more, longer than any sequence of its training."
        )


def _start_button(label: str) -> None:
    st.button(label, key="learning_watch_start", on_click=_start)


def _start() -> None:
    try:
        run = runner().start(st.session_state[_VISITOR])
    except TransformerError as error:
        st.session_state[_SAID] = str(error)
    else:
        st.session_state[_SEEN] = run.number


def _stop(run: ToyRun, who: str) -> None:
    run.stop(who)


def _refusal() -> None:
    """Why the training that was just asked for has not begun, said once."""
    if said := st.session_state.pop(_SAID, ""):
        st.html(markup.notice("warning", said))


def _choices(run: ToyRun) -> tuple[tuple[str, ...], parts.Head]:
    """The sequence that is looked at, and whose attention."""
    from transformer.lessons.toy_glimpse import read_letters

    with st.container(horizontal=True, key="learning_watch_choices", gap="small"):
        typed = st.text_input("Letters it is asked to turn round", USUAL, key="learning_watch_letters", width=300)
        heads = parts.heads_of(run.plan)
        head = st.selectbox(
            "Cross-attention of",
            range(len(heads)),
            format_func=lambda place: heads[place][0],
            key=f"learning_watch_head_{len(heads)}",
            width=200,
        )
    try:
        letters = read_letters(typed or USUAL)
    except InputError as error:
        st.html(markup.notice("warning", f"{markup.sentence(str(error))} “{USUAL}” is shown."))
        letters = read_letters(USUAL)
    return letters, heads[int(head or 0)]


def _live(view: View, run: ToyRun, letters: tuple[str, ...], head: parts.Head) -> None:
    """The training as it is now; runs by itself until it has ended, then the page is drawn anew without a clock."""
    who = st.session_state[_VISITOR]
    run.heard(who)
    if not run.running:
        st.rerun()
    progress = run.progress()
    st.progress(parts.share(progress), text=parts.where(progress, run.plan))
    if who != run.owner:
        _refusal_of_one_at_a_time(run)
    with st.container(horizontal=True, key="learning_watch_buttons", gap="small", vertical_alignment="center"):
        if run.may_stop(who):
            st.button("Stop", key="learning_watch_stop", on_click=_stop, args=(run, who))
        if who == run.owner:
            st.html('<div class="under">As long as this page is open, nobody but you can stop it.</div>')
        else:
            st.button("Train one of your own", key="learning_watch_wait", disabled=True)
            if run.may_stop(who):
                st.html('<div class="under">Whoever started it has left the page, so anybody may stop it.</div>')
    parts.live_pictures(view, run, progress, letters, head)


def _refusal_of_one_at_a_time(run: ToyRun) -> None:
    st.session_state.pop(_SAID, None)
    st.html(
        markup.notice(
            "info",
            f"Another visitor's training is running ({run.seconds:.0f} s so far). Yours can start when it has ended.",
        )
    )


def _over(view: View, run: ToyRun) -> None:
    """What a training has come to, and a slider through its snapshots."""
    progress = run.progress()
    tone, said = parts.outcome(progress, run.plan)
    st.html(markup.notice(tone, said))
    _refusal()
    _start_button("Train again, with other random numbers")
    if not progress.kept:
        return
    letters, head = _choices(run)
    step = st.select_slider(
        "After how many updates",
        progress.kept,
        progress.kept[-1],
        key=f"learning_watch_step_{run.number}_{len(progress.kept)}",
        format_func=lambda place: f"{place:,}",
    )
    parts.pictures(view, run, progress, letters, head, int(step))
