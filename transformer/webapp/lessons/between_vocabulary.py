"""The output layer: logits, softmax and temperature at one position, and the logit lens."""

from __future__ import annotations

import math

import numpy as np
import streamlit as st

from transformer.plots.labels import percent, visible
from transformer.plots.vocabulary import lens_map, lens_width, logit_histogram, temperature_bars
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import between_cached as cached
from transformer.webapp.lessons.between_parts import checked, heading, named, output_ids, position_picker, under
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

SHOWN, MARKED, SAID = 10, 3, 5
"""Pieces in the bars, in the histogram, and of each layer in the table."""
TEMPERATURES = tuple(round(step / 10, 1) for step in range(1, 31))


def softmax(view: View) -> None:
    """Draw the section about logits, softmax and temperature."""
    from transformer.lessons.vocabulary import best, entropy, label, output_layer
    from transformer.lessons.vocabulary import softmax as over

    wide, pieces, tied = output_layer(view.translator)
    with section(
        "softmax",
        "How does a vector become a piece?",
        "The last vector of a decoder position is multiplied with a matrix that has one row for each piece of the "
        f"vocabulary: {pieces:,} numbers, the **logits**. "
        + ("The rows are the embeddings themselves, used a second time. " if tied else "")
        + "The softmax makes them positive and lets them sum to one. A **temperature** divides the logits first: below "
        "1 the likeliest pieces gain, above 1 all become more alike, and the order never changes.",
        r"z = W h, \qquad p_i = \frac{e^{z_i / t}}{\sum_j e^{z_j / t}}",
        "Section 3.4",
    ):
        with st.container(horizontal=True, key="between_softmax_pickers"):
            position = position_picker(view, "decoder", "softmax")
            with st.container(width=320):
                temperature = float(
                    st.select_slider(
                        "Temperature", TEMPERATURES, 1.0, key="between_temperature", persist_state="session"
                    )
                )
        found = cached.choice(view.translator, view.sentence, output_ids(view), position)
        usual, now = over(found.logits), over(found.logits, temperature)
        top = best(found.logits, SHOWN)
        labels = [label(view.translator, number) for number in top]
        heading(
            f"{wide} numbers become {pieces:,} at {named(view, 'decoder', position)}",
            "The histogram has all logits; mind its logarithmic height, nearly all pieces stand in the middle. The "
            f"bars are the likeliest pieces after the softmax at temperature {temperature:g}"
            + ("." if temperature == 1.0 else ", grey at temperature 1."),
        )
        left, right = st.columns(2, gap="medium")
        with left:
            marks = [(text, float(found.logits[at])) for text, at in zip(labels[:MARKED], top, strict=False)]
            picture(
                logit_histogram(found.logits, marks, view.colours),
                "between_logits",
                f"{view.card.name} logits of position {position + 1}",
                f"Histogram: the logits of {pieces:,} pieces, from {found.logits.min():.1f} to "
                f"{found.logits.max():.1f}; the largest is that of '{visible(labels[0])}'.",
                360,
            )
            st.html(_entropies(entropy(now), entropy(usual), temperature, pieces))
        with right:
            rest = (max(0.0, 1.0 - float(now[top].sum())), max(0.0, 1.0 - float(usual[top].sum())))
            picture(
                temperature_bars(
                    labels,
                    [float(now[at]) for at in top],
                    [float(usual[at]) for at in top],
                    rest,
                    top.index(found.written) if found.written in top else None,
                    view.colours,
                ),
                "between_probabilities",
                f"{view.card.name} probabilities of position {position + 1}",
                f"Bars: the {len(top)} likeliest pieces at temperature {temperature:g}; first '{visible(labels[0])}' "
                f"with {percent(float(now[top[0]]))}, all others together {percent(rest[0])}.",
                360,
            )
        st.html(
            markup.table(
                "From logit to probability",
                ("piece", "logit z", "z / t", "e^(z/t − largest)", "probability"),
                [
                    (
                        visible(text),
                        f"{found.logits[at]:.3f}",
                        f"{found.logits[at] / temperature:.3f}",
                        f"{math.exp((float(found.logits[at]) - float(found.logits[top[0]])) / temperature):.3g}",
                        percent(float(now[at])),
                    )
                    for text, at in list(zip(labels, top, strict=True))[:MARKED]
                ],
                numeric=(1, 2, 3, 4),
            )
        )
        attempt("Lower the temperature to 0.1, then raise it to 3, at a position where the model was unsure.")


def _entropies(now: float, usual: float, temperature: float, pieces: int) -> str:
    rows = [("temperature 1", usual), ("all pieces alike", math.log(pieces))]
    if temperature != 1.0:
        rows.insert(0, (f"temperature {temperature:g}", now))
    return markup.table(
        "How unsure that is",
        ("", "entropy, nats", "as between … equally likely pieces"),
        [(name, f"{value:.2f}", _count(math.exp(value))) for name, value in rows],
        numeric=(1, 2),
    )


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def lens(view: View) -> None:
    """Draw the section about the logit lens."""
    with section(
        "logit-lens",
        "When does the model know what it will write?",
        "Only the last layer's vector is meant for the output layer. But every layer writes into the same stream, so "
        "each can be asked: **what would you say if you were the last?** Often the answer comes step by step: at first "
        "the piece that was read, then one of the right kind, and only at the end the one that is written.",
        r"p^{(\ell)} = \mathrm{softmax}\left(W h^{(\ell)}\right), \qquad \ell = 0 \ldots L",
    ):
        position = position_picker(view, "decoder", "lens")
        found = cached.lens(view.translator, view.sentence, output_ids(view))
        said = [[found.labels[int(number)] for number in row] for row in found.top_ids[:, :, 0]]
        written = [found.labels[number] for number in found.written]
        right = found.top_ids[:, :, 0] == np.array(found.written)
        heading(
            "What each layer of the decoder would have said",
            "In each cell the likeliest piece of that layer at that position, the stronger the colour the surer; bold "
            "where it is the one that is written in the end. First row: the stream that enters, before any layer.",
        )
        picture(
            lens_map(said, found.top_probabilities[:, :, 0], right, written, position, view.colours),
            "between_lens",
            f"{view.card.name} logit lens",
            f"Map: the likeliest piece of {len(said) - 1} decoder layers at {len(written)} positions.",
            lens_width(len(written)),
        )
        count = found.top_ids.shape[2]
        st.html(
            markup.table(
                f"Layer by layer at {named(view, 'decoder', position)}",
                (
                    "",
                    *(f"{place}." for place in range(1, count + 1)),
                    f"'{visible(written[position])}' has",
                    "and is",
                ),
                [
                    (
                        "what enters" if row == 0 else f"layer {row}",
                        *(
                            f"{visible(found.labels[int(number)])} {percent(float(share))}"
                            for number, share in zip(
                                found.top_ids[row, position], found.top_probabilities[row, position], strict=True
                            )
                        ),
                        percent(float(found.written_probabilities[row, position])),
                        f"rank {int(found.written_ranks[row, position]) + 1:,}",
                    )
                    for row in range(len(said))
                ],
                numeric=(count + 1, count + 2),
            )
        )
        checked(found.check)
        under(
            "The logit lens (nostalgebraist 2020) is a way to look, not what the model does: the layers before the "
            "last were never trained to speak through the output matrix, and a low probability there may only mean "
            "that they use the stream in another way."
        )
        attempt("Look for a position where the piece that is written comes first only in the last layer.")
