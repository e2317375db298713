"""Why the most probable next piece is not enough, and how hypotheses of unequal length are compared."""

from __future__ import annotations

import numpy as np
import streamlit as st

from transformer.analysis.beam import parting
from transformer.plots.writing import by_alpha
from transformer.webapp import markup
from transformer.webapp.frame import ROOT, View
from transformer.webapp.lessons import writing_cached as cached
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.search import against, computing
from transformer.webapp.search.examples import FLAWED
from transformer.webapp.workbench.pictures import picture

ALPHAS = tuple(round(0.1 * step, 1) for step in range(21))
PAPERS = 0.6


def flaw(view: View) -> None:
    """Greedy search beside the beam."""
    with section(
        "flaw",
        "What does greedy search miss?",
        "A translation's probability is the product of its pieces' probabilities, and the most probable first piece "
        "need not begin the most probable translation. *Beam search* keeps the M most probable beginnings instead of "
        "one. With M = 1 it is greedy search.",
        r"\ln p(y \mid x) = \sum_{t=1}^{T} \ln p(y_t \mid y_1, \dots, y_{t-1}, x)",
        "Section 6.1: a beam of 4 with a length penalty of 0.6",
    ):
        first = computing.greedy(view.translator, view.sentence, view.search).best
        found = cached.hypotheses(view.translator, view.sentence, view.search)
        best, width = found[0], max(view.search.beam, cached.WIDTH)
        place = parting(first.ids, best.ids)
        st.html(against.row("greedy search", first, place))
        st.html(against.row(f"beam of {width}", best, place))
        st.html(markup.notice("info", against.verdict(first, best, place, width)))
        examples = FLAWED.get(view.card.name, ())
        attempt(
            f"Type this sentence, on which greedy search goes wrong with this model: “{examples[0]}”"
            if examples and place is None and examples[0] != view.sentence
            else "Which piece would greedy search have had to pass over, and how much less probable was its rival?"
        )
        st.page_link(
            ROOT / "pages" / "beam.py", label="See every beginning that the beam kept or dropped on the beam page"
        )


def penalty(view: View) -> None:
    """The length penalty over its exponent."""
    from transformer.lessons.writing import scores_by_alpha

    with section(
        "penalty",
        "Why is the probability divided by a length?",
        "Every further piece multiplies by a number below one, so plain probability favours short translations. The "
        "*length penalty* divides the log-probability by a power of the length. At α = 0 nothing is divided; the "
        "larger α, the less a long translation is held back.",
        r"s(y, x) = \frac{\ln p(y \mid x)}{lp(y)}, \qquad lp(y) = \left(\frac{5 + |y|}{6}\right)^{\alpha}",
        "Section 6.1, after Wu et al. 2016, Section 7",
    ):
        found = cached.hypotheses(view.translator, view.sentence, view.search)
        alpha = float(
            st.select_slider("α", ALPHAS, PAPERS, key="writing_alpha", persist_state="session", width=420) or 0.0
        )
        totals, lengths = [one.total_log_prob for one in found], [len(one.ids) for one in found]
        scores = scores_by_alpha(totals, lengths, ALPHAS)
        texts = [one.text.strip() or "(empty)" for one in found]
        now = scores[:, ALPHAS.index(alpha)]
        order = sorted(range(len(found)), key=lambda place: -now[place])
        left, right = st.columns(2, gap="medium")
        with left:
            picture(
                by_alpha(
                    ALPHAS, scores, [f"{place + 1}. {text}" for place, text in enumerate(texts)], alpha, view.colours
                ),
                "writing_by_alpha",
                f"{view.card.name} length penalty",
                f"A line for each of {len(found)} hypotheses: its score for every exponent of the length penalty from "
                f"{ALPHAS[0]} to {ALPHAS[-1]}",
            )
        with right:
            st.html(
                markup.table(
                    f"What the beam of {max(view.search.beam, cached.WIDTH)} ended with, by score at α = {alpha:g}",
                    ("line", "translation", "pieces", "log-probability", "score"),
                    [
                        (
                            str(place + 1),
                            texts[place] + ("" if found[place].finished else " (cut off)"),
                            str(lengths[place]),
                            f"{totals[place]:.2f}",
                            f"{now[place]:.3f}",
                        )
                        for place in order
                    ],
                    numeric=(0, 2, 3, 4),
                )
            )
        winners = np.argmax(scores, axis=0)
        changes = [ALPHAS[at] for at in range(1, len(ALPHAS)) if winners[at] != winners[at - 1]]
        st.html(
            '<div class="under">'
            + (
                f"The best changes at α = {', '.join(f'{one:g}' for one in changes)}."
                if changes
                else "The same translation is best for every α shown."
            )
            + " Only what this one search ended with is compared; with another α the search itself may keep other "
            "beginnings (the decoding settings in the sidebar do that).</div>"
        )
        attempt("Move α to 0 and to 2. Does a longer translation come out on top?")
