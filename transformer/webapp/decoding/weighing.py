"""What could come next: the candidates as bars, and choosing another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from transformer.plots.candidates import Bar, candidate_bars
from transformer.plots.labels import percent, visible
from transformer.webapp import markup
from transformer.webapp.decoding.choosing import pick
from transformer.webapp.decoding.walk import Walk
from transformer.webapp.workbench.pictures import clicked, picture

if TYPE_CHECKING:
    from transformer.engine import DecodingStep

SHOWN = (10, 20, 50)
"""How many candidates may be shown."""
_CHART = "candidates"


def show(walk: Walk, now: DecodingStep, changed: DecodingStep | None) -> tuple[list[Bar], float]:
    """Draw the candidates of a step; returns those that are shown, and the probability of all others.

    Args:
        walk: the translation and the step.
        now: the step as the model takes it.
        changed: the same with an intervention; it is shown then, and ``now`` in grey beside it.
    """
    with st.container(horizontal=True, key="candidates_head", vertical_alignment="bottom"):
        st.html("<b>What could be written next</b><br><span class='under'>click a row to write that piece</span>")
        count = st.selectbox("Candidates", SHOWN, key="candidates_shown", width=110)
    bars, rest = _bars(now, changed, int(count or SHOWN[0]))
    chosen = None if walk.chosen is None else walk.chosen.piece.id
    before = walk.before
    best = bars[0]
    figure = candidate_bars(bars, rest, walk.view.colours, chosen=chosen, compared=changed is not None)
    picture(
        figure,
        _CHART,
        f"{walk.view.card.name} step {walk.step + 1} candidates",
        f"Bars: the {len(bars)} most probable pieces of step {walk.step + 1}. First '{visible(best.label)}' with "
        f"{percent(best.probability)}; all others together {percent(rest)}.",
        440,
        on_select=lambda: _pick_clicked(walk, before),
        selection_mode="points",
    )
    key = f"write_instead_{walk.step}_{hash(before)}"
    labels = {bar.id: f"{bar.rank + 1}. {visible(bar.label)} · {percent(bar.probability)}" for bar in bars}
    st.selectbox(
        "Write another piece here",
        list(labels),
        index=None,
        format_func=lambda number: labels.get(number, ""),
        key=key,
        placeholder="choose one; decoding goes on from there",
        on_change=lambda: _pick_listed(walk, before, key),
    )
    return bars, rest


def table(bars: list[Bar], step: int) -> None:
    """The candidates in numbers."""
    st.html(
        markup.table(
            f"The candidates of step {step + 1} in numbers",
            ("rank", "piece", "id", "probability", "log-probability"),
            [
                (
                    str(bar.rank + 1),
                    visible(bar.label),
                    str(bar.id),
                    percent(bar.probability),
                    f"{bar.log_prob:.4f}",
                )
                for bar in bars
            ],
            numeric=(0, 2, 3, 4),
        )
    )


def _bars(now: DecodingStep, changed: DecodingStep | None, count: int) -> tuple[list[Bar], float]:
    """The bars, and what is left for all other pieces. A chosen piece that is not among the first is added."""
    step = changed or now
    unchanged = {one.piece.id: one.probability for one in now.candidates} if changed else {}
    shown = list(step.candidates[:count])
    rest = step.rest + sum(one.probability for one in step.candidates[count:])
    chosen = now.chosen
    if chosen is not None and chosen.piece.id not in [one.piece.id for one in shown]:
        later = next((one for one in step.candidates if one.piece.id == chosen.piece.id), None)
        if later is not None or changed is None:
            shown.append(later or chosen)
            rest -= (later or chosen).probability
    bars = [
        Bar(one.piece.id, one.piece.label, one.rank, one.probability, one.log_prob, unchanged.get(one.piece.id))
        for one in shown
    ]
    return bars, max(rest, 0.0)


def _pick_clicked(walk: Walk, before: tuple[int, ...]) -> None:
    data = clicked(_CHART)
    if data:
        pick(walk.path, before, int(data[0]))


def _pick_listed(walk: Walk, before: tuple[int, ...], key: str) -> None:
    number = st.session_state[key]
    if number is not None:
        pick(walk.path, before, int(number))
