"""Which step is shown: previous, next, play, and a slider that the arrow keys move."""

from __future__ import annotations

import streamlit as st

from transformer.webapp import parameters

EVERY = 0.5
"""Seconds between two steps while playing."""
_PLAYING, _HELD, _FRESH, _AT = "decoding_plays", "decoding_holds", "decoding_fresh", "decoding_plays_at"
# While the clock runs, the step is kept under _AT: a tick brings along what the browser's slider showed when it was
# sent, and on a busy machine that is a step behind. So whoever stops the clock has to wait until the browser has shown
# the step it stopped at: a tick that comes after the stop would else turn the page back by one.


def interval() -> float | None:
    """How often the page's fragment is to run by itself: ``EVERY`` while playing, and until the stop is known."""
    return EVERY if _ticking() else None


def keep_time(every: float | None) -> None:
    """Start the whole page again if its fragment was told to run ``every`` so many seconds and that has changed.

    Only the whole page can start and stop the clock of its fragment.
    """
    if every != interval():
        st.rerun()


def advance(count: int) -> None:
    """Go one step on if it is playing; called once in each run, before the slider is drawn. Stops at the end."""
    if not _ticking():
        return
    here = min(int(st.session_state.get(_AT, 1)), count)
    fresh = st.session_state.pop(_FRESH, False)
    playing = bool(st.session_state.get(_PLAYING))
    if playing and not fresh and here < count:
        here += 1
    elif not fresh and st.session_state.get("step") == here:  # the browser knows where it stopped
        st.session_state[_PLAYING] = st.session_state[_HELD] = False
        st.rerun()
    st.session_state["step"] = st.session_state[_AT] = here


def show(count: int) -> int:
    """Draw the controls.

    Args:
        count: how many steps there are.

    Returns:
        The step, from 1.
    """
    playing = bool(st.session_state.get(_PLAYING))
    step = min(parameters.step_slider(count, disabled=_ticking()), count)
    with st.container(horizontal=True, key="stepper", vertical_alignment="bottom", gap="small", width="content"):
        st.button("Previous", key="step_back", on_click=_go, args=(step - 1,), disabled=step <= 1)
        st.button("Next", key="step_on", on_click=_go, args=(step + 1,), disabled=step >= count)
        # Two buttons, not one with two labels: a press may reach the server twice, or when the label has just changed.
        if playing:
            st.button("Pause", key="step_pause", on_click=_pause)
        else:
            st.button("Play", key="step_play", on_click=_play, args=(step, count), disabled=count == 1)
    return step


def _go(step: int) -> None:
    st.session_state["step"] = step
    if _ticking():
        st.session_state[_PLAYING] = False
        st.session_state[_HELD] = st.session_state[_FRESH] = True
        st.session_state[_AT] = step


def _pause() -> None:
    _go(int(st.session_state[_AT]))


def _play(here: int, count: int) -> None:
    st.session_state[_PLAYING] = st.session_state[_FRESH] = True
    st.session_state[_HELD] = False
    st.session_state[_AT] = 1 if here >= count else here


def _ticking() -> bool:
    return bool(st.session_state.get(_PLAYING) or st.session_state.get(_HELD))
