"""How far each update goes: the warm-up schedule, and Adam on this model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from transformer.plots.curves import Line, Panel, panels
from transformer.plots.schedule import Rate, rate_curves
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import learning_cached as cached
from transformer.webapp.lessons.learning_pair import Pair
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.schedule import AdamRun, Followed

WIDTHS = (64, 128, 256, 512, 1024)
WARM_UPS = (1, 10, 100, 400, 1000, 2000, 4000, 8000, 16000)
UPDATES = 5


def show(view: View, pair: Pair) -> None:
    """The schedule, chosen; the model's own; and the first updates by it."""
    from transformer.lessons.schedule import USUAL, own_schedule, own_settings, schedule

    with section(
        "rate",
        "How far does each update go, and why does it begin so carefully?",
        idea="*Adam* keeps for every weight a running mean m of its gradient g and a running mean v of g², and moves "
        "the weight by the learning rate times m̂ / √v̂. In the first update that quotient is +1 or −1, however small "
        "the gradient is: nearly all weights move by the whole rate, on the evidence of one batch. So the rate starts "
        "near zero, grows for some thousand *warm-up* steps, and then falls with the inverse square root of the step.",
        formula=r"\mathit{lrate} = d_{\text{model}}^{-0.5} \cdot \min(\mathit{step}^{-0.5},\ \mathit{step} \cdot "
        r"\mathit{warmup}^{-1.5}), \qquad \Delta w = -\mathit{lrate}\, \frac{m / (1-\beta_1^t)}{\sqrt{v / "
        r"(1-\beta_2^t)} + \epsilon}",
        source="Section 5.3 (β₁ = 0.9, β₂ = 0.98, ε = 10⁻⁹, 4,000 warm-up steps); Kingma and Ba 2015, Algorithm 1",
    ):
        with st.container(horizontal=True, key="learning_rate_choices", gap="medium"):
            width = int(_slider("Width d_model", WIDTHS, 512, "learning_width"))
            warmup = int(_slider("Warm-up steps", WARM_UPS, 4000, "learning_warmup"))
        own = own_schedule(view.translator.meta, view.translator.config.d_model)
        last = max(4 * warmup, int(own.steps[-1]) if own else 0, 1000)
        chosen = schedule(warmup, last, d_model=width)
        rates = [Rate(f"chosen: d_model {width}, warm-up {warmup:,}", chosen.steps, chosen.rates, chosen=True)]
        if own:
            rates.append(Rate(f"as {view.card.name} was trained", own.steps, own.rates))
        picture(
            rate_curves(rates, view.colours),
            "learning_rates",
            f"{view.card.name} learning rate",
            f"Curve of the learning rate: it grows to {chosen.peak:.2e} at step {warmup:,}, then falls",
            420,
        )
        if own is None:
            st.html(
                '<div class="under">This checkpoint does not say by which schedule it was trained; the chosen one is '
                "drawn alone.</div>"
            )
        settings = own_settings(view.translator.meta) or USUAL
        _updates(view, pair, tuple(float(rate) for rate in schedule(warmup, UPDATES, d_model=width).rates), settings)
        attempt(
            "Set the warm-up to 1: the very first updates move nearly every weight by several hundredths, and the loss "
            "of this pair goes up at once. Then raise it: from some place on the updates help, and further up they are "
            f"too small to do much in {UPDATES} steps."
        )


def _slider(label: str, options: tuple[int, ...], usual: int, key: str) -> int:
    return st.select_slider(label, options, usual, key=key, persist_state="session", width=300)


def _updates(view: View, pair: Pair, rates: tuple[float, ...], settings: Any) -> None:
    from transformer.lessons.schedule import LARGEST

    st.html(f"<b>The first {UPDATES} updates by this schedule, made just now on a copy of this model</b>")
    if view.translator.parameter_count > LARGEST:
        st.html(
            markup.notice(
                "info",
                f"This model has {view.translator.parameter_count / 1e6:.0f} million parameters: a copy with its "
                f"gradients and averages is too large to update here. Choose one of at most {LARGEST // 10**6} "
                "million.",
            )
        )
        return
    run = cached.adam(view.translator, pair.source, pair.ids, rates, settings)
    st.html(
        f'<div class="under">The training data is one pair, {markup.escape(pair.called)}; Adam starts with empty '
        f"averages. Loss with label smoothing {settings.label_smoothing:g}: {run.losses[0]:.5f} before the first "
        f"update, <b>{run.losses[-1]:.5f}</b> after the last. Two weights are followed: the one with the largest "
        f"gradient, and one beside it with a middling one. Their gradients differ {_times(run)}, their first moves do "
        "not. As long as the steps are small and every update sees this one pair, g hardly changes and Δw stays near "
        "the whole rate; batches that disagree bring it down.</div>"
    )
    left, right = st.columns([2, 5], gap="medium")
    steps = np.arange(len(run.losses))
    with left:
        picture(
            panels(
                [Panel("loss of this pair, nats", (Line("loss", steps, run.losses, points=True),), decimals=5)],
                view.colours,
                height=230,
                named=False,
            ),
            "learning_adam",
            f"{view.card.name} updates",
            f"Curve: the loss of the pair goes from {run.losses[0]:.3f} to {run.losses[-1]:.3f}",
        )
    with right:
        for number, weight in enumerate(run.followed):
            st.html(_story(run, weight, ("largest gradient", "middling gradient")[number]))


def _times(run: AdamRun) -> str:
    large, middling = (abs(weight.gradients[0]) for weight in run.followed)
    return f"by a factor of {large / middling:,.0f}" if middling else "by more than can be said"


def _story(run: AdamRun, weight: Followed, what: str) -> str:
    return markup.table(
        f"{weight.name}, {what}",
        ("t", "learning rate", "g", "m", "v", "Δw", "Δw / rate", "w after"),
        [
            (
                str(t + 1),
                f"{rate:.2e}",
                f"{weight.gradients[t]:+.2e}",
                f"{weight.first[t]:+.2e}",
                f"{weight.second[t]:.2e}",
                f"{weight.moves[t]:+.2e}",
                f"{weight.moves[t] / rate:+.2f}",
                f"{weight.values[t + 1]:+.7f}",
            )
            for t, rate in enumerate(run.rates)
        ],
        numeric=range(8),
    )
