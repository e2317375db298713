"""Parameters of the URL that belong to single pages: the step, the node of the search tree, how decoding goes on.

A bound widget that lives on one page only would lose its parameter on the others and come back empty after Back; one
that moves from page to page loses it at the next change of page. So all of these are drawn on every page, each at the
same place, which ``placed`` makes: by the page that wants it (``PageSpec.own``, inside ``View.live``), else hidden. To
change one from a button or a click, set ``st.session_state[name]`` in the callback.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import streamlit as st

from transformer.webapp.widgets import keep_among, segments

BEGINNING = "decoding_beginning"
"""Key of the box in which the beginning of a translation is typed."""
LONGEST = 512
"""Steps that are offered where no page says how many there are."""
STRATEGIES = ("greedy", "sampling", "beam search")
TEMPERATURES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0)
TOP_KS = ("off", "2", "3", "5", "10", "20", "50", "100")
TOP_PS = ("off", "0.99", "0.95", "0.9", "0.8", "0.7", "0.5", "0.3")
SEEDS = tuple(range(100))
OPTIONS: dict[str, Sequence[object]] = {
    "strategy": STRATEGIES,
    "temperature": TEMPERATURES,
    "top_k": TOP_KS,
    "top_p": TOP_PS,
    "seed": SEEDS,
}
"""What these parameters of the URL may be."""


_places: ContextVar[dict[str, Any] | None] = ContextVar("places", default=None)


@contextlib.contextmanager
def placed(own: Sequence[str]) -> Iterator[None]:
    """Make the places of these widgets, draw those in which nothing is to be seen, and let the page draw the others.

    Args:
        own: names of those that the page draws; ``sampling`` stands for all of ``sampling_settings``.
    """
    hidden: dict[str, Callable[[], object]] = {
        "strategy": strategy_picker,
        "step": step_slider,
        "sampling": sampling_settings,
        "prefix": prefix_box,
        "node": node_box,
    }
    shown = {name: "shown" if name in own else "hidden" for name in hidden}
    line = "shown" if {"strategy", "step"} & set(own) else "hidden"
    with st.container(key="parameters", gap="small"):
        with st.container(horizontal=True, key=f"{line}_line", vertical_alignment="bottom", gap="medium"):
            places = {
                "strategy": st.container(key=f"{shown['strategy']}_strategy", width="content"),
                "step": st.container(key=f"{shown['step']}_step"),
            }
        places["sampling"] = st.container(key=f"{shown['sampling']}_sampling")
        places |= {name: st.container(key=f"hidden_{name}") for name in ("prefix", "node")}
    token = _places.set(places)
    try:
        for name, draw in hidden.items():
            if name not in own:
                draw()
        yield
        for name in [name for name in hidden if name in places]:  # a page that stopped early
            hidden[name]()
    finally:
        _places.reset(token)


def step_slider(count: int = LONGEST, disabled: bool = False) -> int:
    """The step, from 1 to ``count``."""
    steps = tuple(range(1, max(count, 1) + 1))
    if isinstance(st.session_state.get("step"), int):  # what was chosen for a longer translation
        st.session_state["step"] = min(max(st.session_state["step"], 1), steps[-1])
    if len(steps) == 1:  # a slider needs two ends
        st.session_state["step"] = 1
        return _slider((1, 2), disabled=True)
    return _slider(steps, disabled)


def node_box() -> int | None:
    """The index of the chosen node in ``trace.nodes``, or None; the box itself is for ``st.session_state`` to fill."""
    text = _hidden_text("node")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 7 else None


def prefix_box() -> str:
    """The beginning that is forced, as ``webapp.decoding.path`` writes it; the box is for ``st.session_state`` to
    fill."""
    return _hidden_text("prefix")


def strategy_picker() -> str:
    """How the next piece is chosen."""
    with _place("strategy"):
        return segments("Strategy", STRATEGIES, STRATEGIES[0], "strategy")


def sampling_settings(shown: bool = False) -> tuple[float, int, float, int]:
    """Temperature, top-k (0 is off), top-p (1 is off) and seed."""
    name = "shown_row" if shown else "hidden_row"
    with _place("sampling"), st.container(horizontal=True, key=name, vertical_alignment="bottom", gap="small"):
        return _sampling_row()


def _sampling_row() -> tuple[float, int, float, int]:
    temperature = st.select_slider(
        "Temperature",
        TEMPERATURES,
        1.0,
        key="temperature",
        bind="query-params",
        width=230,
        help="Log-probabilities are divided by it before they are made probabilities again: below 1 the likely pieces "
        "gain, above 1 the unlikely ones.",
    )
    top_k = st.selectbox(
        "Top-k",
        TOP_KS,
        key="top_k",
        bind="query-params",
        width=110,
        help="Draw among the k most probable pieces only (Fan et al. 2018).",
    )
    top_p = st.selectbox(
        "Top-p",
        TOP_PS,
        key="top_p",
        bind="query-params",
        width=110,
        help="Draw among the fewest pieces that together have probability p (Holtzman et al. 2020).",
    )
    seed = st.selectbox(
        "Seed", SEEDS, key="seed", bind="query-params", width=110, help="The same seed draws the same pieces again."
    )
    k = int(top_k) if top_k in TOP_KS[1:] else 0
    p = float(top_p) if top_p in TOP_PS[1:] else 1.0
    return float(temperature), k, p, int(seed or 0)


def begin_anew() -> None:
    """Forget what belongs to another sentence; a callback."""
    st.session_state.update({"step": 1, "node": "", "prefix": "", "hypothesis": 1, "target": "", BEGINNING: ""})


def _place(name: str) -> Any:
    """Where a widget is to be drawn; it is then no longer missing."""
    return (_places.get() or {}).pop(name, None) or contextlib.nullcontext()


def _slider(steps: Sequence[int], disabled: bool) -> int:
    keep_among("step", steps, steps[0])
    with _place("step"):
        chosen = st.select_slider("Step", steps, steps[0], key="step", bind="query-params", disabled=disabled)
    return int(chosen)


def _hidden_text(name: str) -> str:
    with _place(name):
        return st.text_input(name, key=name, bind="query-params", label_visibility="collapsed") or ""
