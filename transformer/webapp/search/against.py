"""Greedy search beside the beam, sentences on which greedy search goes wrong, and the beam size from 1 to 10."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import streamlit as st

from transformer.analysis.beam import parting
from transformer.plots.labels import percent, visible
from transformer.plots.widths import beam_widths
from transformer.webapp import controls, markup, parameters
from transformer.webapp.frame import View
from transformer.webapp.search import computing
from transformer.webapp.search.examples import FLAWED
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.engine import TranslationHypothesis

_ANEW = "search_example_anew"


def show(view: View) -> None:
    """Draw it."""
    if st.session_state.pop(_ANEW, False):
        st.rerun()  # the whole app: it has another sentence now
    st.subheader("Where do greedy search and the beam part?", anchor=False)
    greedy = computing.greedy(view.translator, view.sentence, view.search).best
    best = view.translation.best
    place = parting(greedy.ids, best.ids)
    st.html(row("greedy search", greedy, place))
    st.html(row(f"beam of {view.search.beam}", best, place))
    st.html(markup.notice("info", verdict(greedy, best, place, view.search.beam)))
    examples = FLAWED.get(view.card.name, ())
    if examples:
        st.html(
            "<style>.st-key-examples_flawed button { padding: 0; min-height: 1.4rem; text-align: left; }</style>"
            '<div class="under">Sentences on which greedy search goes wrong with this model, found by trial:</div>'
        )
        with st.container(horizontal=True, key="examples_flawed", gap="small"):
            for number, example in enumerate(examples):
                st.button(
                    controls.button_label(example),
                    key=f"flawed_{number}",
                    type="tertiary",
                    on_click=_choose,
                    args=(example,),
                    disabled=example == view.sentence,
                )
    more = st.expander("Score and length for each beam size from 1 to 10", key="widths", on_change="rerun")
    if more.open:
        with more:
            _widths(view)


def verdict(greedy: TranslationHypothesis, best: TranslationHypothesis, place: int | None, beam: int) -> str:
    """What the comparison shows, in words."""
    if place is None:
        said = "Both write the same."
        return said + (
            " A beam of 1 is greedy search: choose a wider one in the decoding settings." if beam == 1 else ""
        )
    begun = (
        f"At piece {place + 1} greedy search takes {_taken(greedy, place)}, the most probable there; the beam's "
        f"translation goes on with {_taken(best, place)}."
    )
    gain = best.total_log_prob - greedy.total_log_prob
    ends = f"The whole has a log-probability of {greedy.total_log_prob:.2f} against {best.total_log_prob:.2f}"
    if gain > 0:
        return (
            f"{begun} {ends}: the beam's translation is {math.exp(min(gain, 700.0)):.3g} times as probable. Greedy "
            "search cannot see that: it never takes a less probable piece for the sake of what comes after."
        )
    return (
        f"{begun} {ends}: the beam's is less probable as a whole and only scores better by the penalties "
        f"({best.score:.3f} against {greedy.score:.3f})."
    )


def _taken(one: TranslationHypothesis, place: int) -> str:
    if place >= len(one.pieces):
        return "nothing"
    return f"'{visible(one.pieces[place].label)}' ({percent(math.exp(one.log_probs[place]))})"


def row(name: str, one: TranslationHypothesis, place: int | None) -> str:
    chips = "".join(
        markup.chip(
            piece,
            name="newest" if at == place else "",
            probability=math.exp(log_prob),
            number=True,
        )
        for at, (piece, log_prob) in enumerate(zip(one.pieces, one.log_probs, strict=True))
    )
    return (
        f'<div class="under"><b>{markup.escape(name)}</b>: log-probability {one.total_log_prob:.2f}, score '
        f'{one.score:.3f}, {len(one.ids)} pieces</div><div class="chips sure" dir="auto">{chips}</div>'
    )


def _widths(view: View) -> None:
    found = computing.widths(view.translator, view.sentence, view.search)
    texts = [one.text.strip() or "(empty)" for one in found]
    picture(
        beam_widths(
            controls.BEAMS,
            [one.score for one in found],
            [len(one.ids) for one in found],
            texts,
            view.colours,
            view.search.beam,
        ),
        "widths_picture",
        f"{view.card.name} beam sizes",
        "Score and number of pieces of the best translation for each beam size from 1 to 10",
        420,
    )
    st.html(
        '<div class="under">Score and length of the best translation for each beam size; a hollow mark has the same '
        "text as the one before it. A wider beam need not score better: it may drop early what a narrow one kept."
        "</div>"
    )


def _choose(example: str) -> None:
    st.session_state["sentence"] = example
    st.session_state[_ANEW] = True
    parameters.begin_anew()
