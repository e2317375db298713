"""Parameters of the URL that belong to single pages: the step, the node of the search tree, how decoding goes on.

A bound widget that lives on one page only would lose its parameter on the others and come back empty after Back. So
each of these is drawn on every page: by the page that wants it (``PageSpec.own``, inside ``View.live``), else hidden by
``keep``. To change one from a button or a click, set ``st.session_state[name]`` in the callback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from transformer.webapp.widgets import keep_among, segments

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
    return segments("Strategy", STRATEGIES, STRATEGIES[0], "strategy")


def sampling_settings() -> tuple[float, int, float, int]:
    """Temperature, top-k (0 is off), top-p (1 is off) and seed."""
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


def keep(own: Sequence[str]) -> None:
    """Draw, hidden, all of these widgets that a page does not draw itself.

    Args:
        own: names of those that it draws; ``sampling`` stands for all of ``sampling_settings``.
    """
    hidden: dict[str, Callable[[], object]] = {
        "step": step_slider,
        "node": node_box,
        "prefix": prefix_box,
        "strategy": strategy_picker,
        "sampling": sampling_settings,
    }
    with st.container(key="hidden_parameters"):
        for name, draw in hidden.items():
            if name not in own:
                draw()


def begin_anew() -> None:
    """Forget what belongs to another sentence; a callback."""
    st.session_state.update(step=1, node="", prefix="")


def _slider(steps: Sequence[int], disabled: bool) -> int:
    keep_among("step", steps, steps[0])
    chosen = st.select_slider("Step", steps, steps[0], key="step", bind="query-params", disabled=disabled)
    return int(chosen)


def _hidden_text(name: str) -> str:
    with st.container(key=f"hidden_{name}"):
        return st.text_input(name, key=name, bind="query-params", label_visibility="collapsed") or ""
