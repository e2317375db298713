"""How one pair is learned: teacher forcing, all positions in one pass, and what a guess costs."""

from __future__ import annotations

import numpy as np
import streamlit as st

from transformer.plots.labels import percent, visible
from transformer.plots.losses import loss_bars, smoothing_curve, time_bars
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import learning_cached as cached
from transformer.webapp.lessons.learning_pair import Pair
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

SMOOTHINGS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
PAPERS = 0.1


def forcing(view: View, pair: Pair) -> None:
    """Teacher forcing: what is read, what shall be written, and what each piece costs."""
    with section(
        "forcing",
        "What does the model do with one training pair?",
        idea="The decoder reads the right translation, shifted right by one position behind `<SOS>`, and has to say at "
        "every position which piece comes next. It goes on with the right piece even where it would have written "
        "another one: that is *teacher forcing*. The loss of a piece is the negative logarithm of the probability that "
        "the model gave it.",
        formula=r"\mathcal{L} = -\frac{1}{T} \sum_{t=1}^{T} \ln p(y_t \mid y_1, \dots, y_{t-1}, x)",
        source="Sections 3.1 (outputs shifted right) and 5",
    ):
        table = cached.table(view.translator, pair.source, pair.ids)
        worst = max(table.rows, key=lambda row: row.loss)
        st.html(
            f'<div class="under">Of {markup.escape(pair.called)}: mean loss <b>{table.loss:.3f}</b> nats per piece, '
            f"perplexity exp({table.loss:.3f}) = <b>{table.perplexity:.2f}</b>: on average the model is as unsure as "
            f"between so many equally likely pieces. Guessing among its {table.vocab_size:,} pieces would cost "
            f"{np.log(table.vocab_size):.2f}. The costliest piece is "
            f"“{markup.escape(visible(worst.label.label))}”.</div>"
        )
        picture(
            loss_bars(
                [row.label.label for row in table.rows], np.array([row.loss for row in table.rows]), view.colours
            ),
            "learning_losses",
            f"{view.card.name} losses",
            f"Bars: the loss of each of {len(table.rows)} pieces; the largest is {worst.loss:.2f}, of "
            f"'{visible(worst.label.label)}'",
            120 + 26 * len(table.rows),
        )
        st.html(
            markup.table(
                "The pair as the training sees it: each row reads the label of the row above",
                ("", "newest piece read", "label: shall write", "its probability", "loss", "would have written"),
                [
                    (
                        str(row.position + 1),
                        visible(row.read.label),
                        visible(row.label.label),
                        percent(row.probability),
                        f"{row.loss:.3f}",
                        "the label"
                        if row.rank == 0
                        else f"{visible(row.best.label)} ({percent(row.best_probability)}); the label is number "
                        f"{row.rank + 1}",
                    )
                    for row in table.rows
                ],
                numeric=(0, 3, 4),
            )
        )
        attempt(
            "Type a translation of your own above, with one wrong word in it. That word is costly, and the row after "
            "it reads it as if it were right: while it trains, the model never goes its own way."
        )


def together(view: View, pair: Pair) -> None:
    """All positions in one pass against one after the other."""
    with section(
        "together",
        "Why is training so much quicker than translating?",
        idea="The causal mask hides from each position what comes after it, so all positions of the right translation "
        "can be computed in one pass, as if each had been computed alone. To translate, the model must wait for every "
        "piece before it can read it: T steps instead of one. A recurrent network has to take the T steps in training "
        "too.",
        formula=r"\text{sequential operations: } O(1) \text{ self-attention}, \quad O(n) \text{ recurrent}",
        source="Sections 3.2.3 and 4, Table 1",
    ):
        time = int(st.session_state.get("learning_time", 0))
        found = cached.timing(view.translator, pair.source, pair.ids, time)
        names = (
            "all positions in one pass",
            "one by one, keys and values kept",
            "one by one, every prefix anew",
        )
        seconds = (found.together, found.cached, found.anew)
        first = "first " if found.positions < len(pair.ids) else ""
        picture(
            time_bars(names, seconds, view.colours),
            "learning_times",
            f"{view.card.name} times",
            "Bars: " + "; ".join(f"{name} {1000 * one:.1f} ms" for name, one in zip(names, seconds, strict=True)),
            480,
        )
        st.html(
            f'<div class="under">Measured on this computer just now: the decoder over the {first}{found.positions} '
            f"positions of {markup.escape(pair.called)}, the shortest of {found.rounds} rounds; the encoder is the "
            f"same in all three and left out. The hidden states agree to {found.difference:.1e}.</div>"
        )
        st.button("Measure again", key="learning_measure", on_click=_measure_again)
        attempt("Choose a longer sentence: one pass hardly takes longer, one by one it grows with every piece.")


def cost(view: View, pair: Pair) -> None:
    """Cross-entropy and label smoothing."""
    with section(
        "cost",
        "What does a guess cost, and why may the model not be certain?",
        idea="Cross-entropy compares the model's distribution p with a wanted one, q. Without smoothing q has all its "
        "weight on the right piece, and the loss can always be lowered by being more certain. *Label smoothing* leaves "
        "a share ε to all V pieces alike: the loss is lowest at a probability just below 1, and certainty is punished. "
        "The training pushes each logit by p − q.",
        formula=r"q_k = (1-\varepsilon)\,[k = y] + \frac{\varepsilon}{V}, \qquad \mathcal{L} = -\sum_k q_k \ln p_k, "
        r"\qquad \frac{\partial \mathcal{L}}{\partial z_k} = p_k - q_k",
        source="Section 5.4; Szegedy et al. 2016, Section 7",
    ):
        table = cached.table(view.translator, pair.source, pair.ids)
        rows = table.rows
        with st.container(horizontal=True, key="learning_cost_choices", gap="medium", vertical_alignment="bottom"):
            smoothing = float(
                st.select_slider(
                    "Label smoothing ε",
                    SMOOTHINGS,
                    PAPERS,
                    key="learning_smoothing",
                    persist_state="session",
                    width=260,
                )
            )
            key = f"learning_position_{len(rows)}"
            position = int(
                st.selectbox(
                    "Position",
                    range(len(rows)),
                    format_func=lambda place: f"{place + 1}. {visible(rows[place].label.label)}",
                    key=key,
                    persist_state="session",
                    width=220,
                )
                or 0
            )
        found = cached.label_view(view.translator, pair.source, pair.ids, position, smoothing)
        trained = cached.trained_loss(view.translator, pair.source, pair.ids, smoothing)
        st.html(
            f'<div class="under">The whole pair: plain loss <b>{table.loss:.3f}</b>, with ε = {smoothing:g} '
            f"<b>{table.smoothed(smoothing):.3f}</b> nats per piece (the trainer's own function gives "
            f"{trained:.3f}). The least possible is {found.floor:.3f}, where p = q.</div>"
        )
        left, right = st.columns(2, gap="medium")
        with left, st.container(gap="xxsmall"):
            st.html(
                "<b>Loss against the probability of the right piece</b><br><span class='under'>one point a piece. The "
                "line is the least loss that its probability allows: with all other pieces equally likely</span>"
            )
            grid, least, plain = _curves(table.vocab_size, smoothing)
            picture(
                smoothing_curve(
                    grid,
                    least,
                    plain,
                    np.array([row.probability for row in rows]),
                    np.array([row.smoothed(smoothing) for row in rows]),
                    [row.label.label for row in rows],
                    view.colours,
                ),
                "learning_smoothing_curve",
                f"{view.card.name} label smoothing",
                f"Curve of the least loss over the probability of the right piece, with ε = {smoothing:g}, and the "
                f"{len(rows)} pieces of the pair as points",
            )
        with right:
            st.html(
                markup.table(
                    f"Position {position + 1}, label “{visible(found.label.label)}”: plain loss {found.loss:.3f}, "
                    f"smoothed {found.smoothed:.3f}",
                    ("piece", "p: the model", "q: wanted", "p − q", "its logit is"),
                    [
                        *(
                            (
                                visible(one.piece.label) + (" (label)" if one.piece.id == found.label.id else ""),
                                percent(one.probability),
                                percent(one.wanted),
                                f"{one.gradient:+.2e}",
                                "lowered" if one.gradient > 0 else "raised",
                            )
                            for one in found.shown
                        ),
                        (
                            f"{found.others:,} others",
                            percent(found.others_probability),
                            percent(found.others_wanted),
                            f"{found.others_probability - found.others_wanted:+.2e}",
                            "",
                        ),
                    ],
                    numeric=(1, 2, 3),
                )
            )
        attempt(
            "Set ε to 0: the least possible loss is 0, and the logit of the label is raised for ever. At 0.1 look for "
            "a piece that is more than 90 % sure: its own logit is lowered."
        )


def _curves(vocab_size: int, smoothing: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from transformer.lessons.teacher import least_loss

    grid = np.unique(np.concatenate([np.geomspace(0.002, 0.5, 80), 1.0 - np.geomspace(1e-5, 0.5, 120)]))
    return grid, least_loss(grid, vocab_size, smoothing), least_loss(grid, vocab_size, 0.0)


def _measure_again() -> None:
    st.session_state["learning_time"] = int(st.session_state.get("learning_time", 0)) + 1
