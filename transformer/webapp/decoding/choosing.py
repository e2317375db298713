"""How decoding goes on: the strategy, and the beginning that the user forces, with its undo."""

from __future__ import annotations

import streamlit as st

from transformer.errors import InputError
from transformer.webapp import markup, parameters
from transformer.webapp.decoding import path as paths
from transformer.webapp.decoding.computing import Strategy
from transformer.webapp.frame import View

_TYPED, _REFUSED = parameters.BEGINNING, "decoding_refused"


def show(view: View) -> tuple[Strategy, paths.Path]:
    """Draw the controls; returns the strategy and the forced beginning, empty if nothing is forced."""
    path = paths.parse(parameters.prefix_box())
    name = parameters.strategy_picker()
    temperature, top_k, top_p, seed = parameters.sampling_settings(shown=name == "sampling")
    return Strategy(name, view.search, temperature, top_k, top_p, seed), path


def beginning(view: View, path: paths.Path) -> None:
    """Draw what forces a beginning and takes it back."""
    with st.container(horizontal=True, key="beginning", vertical_alignment="bottom", gap="small"):
        st.text_input(
            "Force a beginning",
            key=_TYPED,
            placeholder="Type it and press Enter",
            on_change=_type,
            args=(view,),
            width=300,
            help=f"The {view.card.target} translation is made to begin with this text; the model goes on from there.",
        )
        st.button("Undo", key="undo", on_click=_set, args=(paths.undone(path),), disabled=not path)
        st.button("Start over", key="start_over", on_click=_start_over, disabled=not path)
    refused = st.session_state.pop(_REFUSED, "")
    if refused:
        st.html(markup.notice("warning", refused))


def pick(path: paths.Path, before: tuple[int, ...], number: int) -> None:
    """Write the piece ``number`` behind ``before`` and decode on from there; a callback."""
    _set(paths.picked(path, before, number))


def _set(path: paths.Path) -> None:
    st.session_state["prefix"] = paths.written(path)
    st.session_state[_TYPED] = ""


def _start_over() -> None:
    _set(())
    st.session_state["step"] = 1


def _type(view: View) -> None:
    try:
        ids = view.translator.ids_of(st.session_state[_TYPED])
    except InputError as error:
        st.session_state[_REFUSED] = markup.sentence(str(error))
        return
    st.session_state["prefix"] = paths.written(paths.typed(ids))
    st.session_state["step"] = len(ids) + 1  # clamped to the last step
