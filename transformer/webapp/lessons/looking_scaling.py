"""Scaling: what the division by sqrt(d_k) does to random vectors, to this model's heads, and to its translation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.plots.costs import Curve, growth
from transformer.plots.scaling import HeadPoint, head_points
from transformer.webapp.frame import View
from transformer.webapp.lessons import looking_cached as cached
from transformer.webapp.lessons.looking_parts import heading, number, output_ids, told
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.markup import table
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.scaling import Spread

IDEA = (
    r"A score adds up $d_k$ products, so the wider a head, the further its scores lie apart: their variance grows like "
    r"$d_k$. A softmax of scores far apart gives one key nearly everything and hardly moves when the scores do, and "
    r"then there is little to learn from. Dividing by $\sqrt{d_k}$ brings the variance back to where it was."
)


def show(view: View) -> None:
    """Draw the section."""
    with section(
        "scaling",
        r"Why divide by the square root of $d_k$?",
        IDEA,
        r"q \cdot k = \sum_{i=1}^{d_k} q_i k_i, \qquad \mathrm{Var}(q \cdot k) = d_k, \qquad "
        r"\mathrm{Var}\left(\frac{q \cdot k}{\sqrt{d_k}}\right) = 1",
        "Section 3.2.1 and its footnote 4",
    ):
        _drawn(view)
        _heads(view)
        view.live(lambda: _translation(view))
        attempt(
            "Type a longer sentence: with more keys an even spread has a higher entropy, ln n. See which points climb "
            "with it, and how far below the dotted line they stay."
        )


def _drawn(view: View) -> None:
    found = cached.random_scores(len(view.record.source))
    width = view.translator.config.head_width
    heading(
        "Random vectors, as in the paper's footnote",
        f"Queries and {found.keys} keys (as many as this sentence has) with components drawn from a normal "
        "distribution of mean 0 and variance 1. Left: the variance of their scores. Right: how much the weights of the "
        "softmax move when the scores do, the trace 1 − Σp² of its derivative; gradients shrink with it.",
    )
    here, here_name = float(width), f"this model: d_k = {width}"
    left, right = st.columns(2, gap="medium")
    with left:
        picture(
            growth(
                found.widths,
                [Curve("divided by √d_k", found.variance), Curve("not divided", found.undivided_variance)],
                view.colours,
                across="d_k, width of a head",
                up="variance of the scores",
                here=here,
                here_name=here_name,
            ),
            "looking_variance",
            "variance of random scores",
            "Lines: the variance of random scores against the width of a head; it grows with the width unless divided.",
            360,
        )
    with right:
        picture(
            growth(
                found.widths,
                [Curve("divided by √d_k", found.slope), Curve("not divided", found.undivided_slope)],
                view.colours,
                across="d_k, width of a head",
                up="how much the weights move",
                here=here,
                here_name=here_name,
                logarithmic=False,
            ),
            "looking_slope",
            "slope of the softmax",
            "Lines: the slope of the softmax against the width of a head; without the division it falls towards zero.",
            360,
        )


def _heads(view: View) -> None:
    found = cached.spreads(view.translator, view.sentence, output_ids(view))
    heading(
        "Every head of this model on this sentence",
        "Entropy of the weights, mean over the rows that have a choice: 0 if each row looks at one key only, ln n if "
        "it looks at n keys alike. On the dotted line the division would change nothing; the further below it, the "
        "more narrowly the same queries and keys would look without it.",
    )
    left, right = st.columns([5, 4], gap="medium")
    with left:
        points = [HeadPoint(head.kind, head.layer, head.head, head.entropy, head.undivided_entropy) for head in found]
        picture(
            head_points(points, "entropy in nats", view.colours),
            "looking_entropy",
            f"{view.card.name} entropy with and without scaling",
            "Points: the entropy of every head with the division across, without it up; none lies above the diagonal.",
            360,
        )
    with right:
        st.html(
            table(
                "Medians over the heads of each kind, with the division and undivided",
                ("", "variance", "undivided", "entropy", "undivided"),
                [_row(kind, [head for head in found if head.kind == kind]) for kind in ("encoder", "decoder", "cross")],
                numeric=(1, 2, 3, 4),
            )
            + '<div class="under">The footnote supposes queries and keys whose numbers have variance 1. Training does '
            "not keep to that: a head that looks at one key alone, whatever the sentence, has scores far apart, so the "
            "means lie far above these medians where a model has such heads.</div>"
        )


def _translation(view: View) -> None:
    ids = output_ids(view)
    heading(
        "The whole model without the division",
        "Every score of every layer multiplied by √d_k again. The model was trained with the division; one trained "
        "without it would have found other queries and keys. If a finished model still translates well here, that does "
        "not speak against the division: the paper's argument is about gradients, that is, about learning.",
    )
    found = cached.without_division(view.translator, view.sentence, ids)
    told(found, "as trained", "without the division", len(ids))


def _row(kind: str, heads: list[Spread]) -> tuple[str, ...]:
    fields: tuple[Callable[[Spread], float], ...] = (
        lambda head: head.variance,
        lambda head: head.undivided_variance,
        lambda head: head.entropy,
        lambda head: head.undivided_entropy,
    )
    return (kind, *(_median([field(head) for head in heads]) for field in fields))


def _median(values: list[float]) -> str:
    known = [value for value in values if np.isfinite(value)]
    return number(float(np.median(known))) if known else "no row has a choice"
