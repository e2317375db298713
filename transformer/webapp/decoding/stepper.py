"""Which step is shown: previous, next, play, and a slider that the arrow keys move."""

from __future__ import annotations

import streamlit as st

from transformer.webapp import parameters

EVERY = 0.5
"""Seconds between two steps while playing."""
_PLAYING, _FRESH, _AT = "decoding_plays", "decoding_play_begins", "decoding_plays_at"


def interval() -> float | None:
    """How often the page's fragment is to run by itself: ``EVERY`` while playing."""
    return EVERY if st.session_state.get(_PLAYING) else None


def keep_time(every: float | None) -> None:
    """Start the whole page again if its fragment was told to run ``every`` so many seconds and that has changed.

    Only the whole page can start and stop the clock of its fragment.
    """
    if every != interval():
        st.rerun()


def advance(count: int) -> None:
    """Go one step on if it is playing; called once in each run, before the slider is drawn. Stops at the end."""
    if not st.session_state.get(_PLAYING):
        return
    here = int(st.session_state.get(_AT, 1))
    if st.session_state.pop(_FRESH, False):
        here -= 1
    if here >= count:
        _stop()
        st.rerun()
    # The count is kept here: a tick brings along what the browser's slider showed, which may be a step behind.
    st.session_state["step"] = st.session_state[_AT] = here + 1


def show(count: int) -> int:
    """Draw the controls.

    Args:
        count: how many steps there are.

    Returns:
        The step, from 1.
    """
    playing = bool(st.session_state.get(_PLAYING))
    step = min(parameters.step_slider(count, disabled=playing), count)
    with st.container(horizontal=True, key="stepper", vertical_alignment="bottom", gap="small", width="content"):
        st.button("Previous", key="step_back", on_click=_go, args=(step - 1,), disabled=step <= 1)
        st.button("Next", key="step_on", on_click=_go, args=(step + 1,), disabled=step >= count)
        label = "Pause" if playing else "Play"
        st.button(label, key="step_play", on_click=_toggle, args=(step, count), disabled=count == 1)
    return step


def _go(step: int) -> None:
    st.session_state["step"] = step
    _stop()


def _toggle(here: int, count: int) -> None:
    if st.session_state.get(_PLAYING):
        _go(int(st.session_state.get(_AT, here)))
        return
    st.session_state[_PLAYING] = st.session_state[_FRESH] = True
    st.session_state[_AT] = 1 if here >= count else here


def _stop() -> None:
    st.session_state[_PLAYING] = False
