"""A translation being written: what is computed once, what at every step, and what each step weighs."""

from __future__ import annotations

import numpy as np
import streamlit as st

from transformer.plots.curves import Line, Panel, panels
from transformer.plots.labels import percent, visible
from transformer.plots.writing import weighed
from transformer.webapp import markup
from transformer.webapp.frame import ROOT, View
from transformer.webapp.lessons import writing_cached as cached
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.search import computing
from transformer.webapp.workbench.pictures import picture


def once(view: View) -> None:
    """The encoder once, the decoder step by step."""
    from transformer.engine import cache_sizes
    from transformer.lessons.writing import work

    with section(
        "once",
        "What is computed once, and what again for every word?",
        "The encoder reads the source **once**; every decoder layer turns what it gives into keys and values **once**. "
        "The decoder then runs once for every piece, because a piece must be written before it can be read. Keys and "
        "values of earlier pieces never change, since the causal mask lets nobody look ahead: they are kept, and only "
        "the newest position is computed.",
        r"\text{step } t:\quad (y_1, \dots, y_{t-1}) \;\longrightarrow\; p(y_t \mid y_1, \dots, y_{t-1}, x)",
        "Section 3: the model is auto-regressive",
    ):
        config = view.translator.config
        source, steps = len(view.record.source), len(view.record.target_output)
        found = work(config, source, steps)
        places = np.arange(1, steps + 1)
        picture(
            panels(
                [
                    Panel(
                        "multiplications of each step, millions",
                        (
                            Line("kept", places, found.kept / 1e6, points=steps <= 40),
                            Line("nothing kept", places, found.anew / 1e6, quiet=True, points=steps <= 40),
                        ),
                    )
                ],
                view.colours,
                height=230,
                axis="piece that is written",
            ),
            "writing_work",
            f"{view.card.name} work of each step",
            f"Two lines over {steps} steps: millions of multiplications with and without kept keys and values",
            420,
        )
        sizes, mapping = cache_sizes(config, source, steps), config.d_model * config.vocab_size * steps
        st.html(
            markup.table(
                f"This sentence: {source} source pieces, {steps} written pieces",
                ("what", "how often", "multiplications", "kept in memory"),
                [
                    (
                        "encoder, keys and values of the source",
                        "once",
                        f"{found.once:,}",
                        _kilobytes(sizes.cross_bytes),
                    ),
                    (
                        "decoder, newest position",
                        f"{steps} times",
                        f"{int(found.kept.sum()):,} in all",
                        f"{_kilobytes(sizes.self_bytes)} at the end",
                    ),
                    (
                        "decoder, if nothing were kept",
                        f"{steps} times",
                        f"{int(found.anew.sum()):,} in all",
                        "nothing",
                    ),
                ],
                numeric=(2, 3),
            )
        )
        st.html(
            f'<div class="under">Keeping saves a factor of <b>{found.saved:.1f}</b> for this sentence. Counted from '
            f"the model's shape; {percent(mapping / float(found.kept.sum()))} of the "
            f"decoder's work is the map to the {config.vocab_size:,} pieces of the vocabulary.</div>"
        )
        attempt("Type a sentence twice as long. One line hardly rises from left to right; the other does.")
        _link("decoding", "Go through the steps of this sentence one by one on the decoding page")


def greedy(view: View) -> None:
    """What each step weighs, and when it ends."""
    with section(
        "greedy",
        "How does it choose the next word, and how does it know when to stop?",
        "Each step gives every piece of the vocabulary a probability. *Greedy search* takes the most probable one and "
        "goes on from there. There is no rule for the length: `<EOS>` is a piece like any other, and the sentence ends "
        "when it is the most probable.",
        r"y_t = \arg\max_{k}\; p(k \mid y_1, \dots, y_{t-1}, x) \quad\text{until}\quad y_t = \texttt{<EOS>}",
        "Section 3.4 (softmax); Section 6.1 for what the paper does instead",
    ):
        best = computing.greedy(view.translator, view.sentence, view.search).best
        found = cached.weighing(view.translator, view.sentence, best.ids)
        names = [piece.label for piece in best.pieces]
        picture(
            weighed(names, found.chosen, [piece.label for piece in found.rivals], found.rival, found.end, view.colours),
            "writing_weighed",
            f"{view.card.name} greedy search",
            "Bars: the probability of each piece that greedy search writes; diamonds: the most probable other piece; "
            "a dotted line: the probability of <EOS>",
            120 + 30 * len(names),
        )
        close = int(np.argmin(found.chosen - found.rival))
        before = percent(float(found.end[:-1].max())) if len(names) > 1 else ""
        end = (
            f"<EOS> is at {percent(float(found.end[-1]))} when it is written"
            + (f", and before that never above {before}." if before else ".")
            if best.finished
            else f"<EOS> never won, at {before or 'no step'} at most: the translation was cut off."
        )
        st.html(
            f'<div class="under">The closest choice is at piece {close + 1}: '
            f"“{markup.escape(visible(names[close]))}” with {percent(float(found.chosen[close]))} against "
            f"“{markup.escape(visible(found.rivals[close].label))}” with {percent(float(found.rival[close]))}. "
            f"{markup.escape(end)}</div>"
        )
        attempt(
            "Take the full stop off the end of your sentence, or break it off in the middle. When does <EOS> rise now?"
        )


def _kilobytes(size: int) -> str:
    return f"{size / 1000:,.1f} kB"


def _link(page: str, label: str) -> None:
    st.page_link(ROOT / "pages" / f"{page}.py", label=label)
