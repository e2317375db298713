"""Why attention: one vector against one a position, the length of paths, and what the layers cost."""

from __future__ import annotations

import numpy as np
import streamlit as st

from transformer.plots.costs import Curve, compared_bars, compared_width, growth
from transformer.plots.labels import visible
from transformer.webapp.frame import View
from transformer.webapp.lessons import looking_cached as cached
from transformer.webapp.lessons.looking_parts import (
    choose,
    heading,
    number,
    output_ids,
    probabilities,
    seconds,
    size,
    source_labels,
    told,
)
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.markup import table
from transformer.webapp.workbench.pictures import picture

AVERAGE = -1
"""In the list of vectors: the average of all."""
LENGTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
IDEA = (
    "A recurrent encoder reads a sentence piece by piece and hands the decoder **one vector**, however long the "
    "sentence was; what does not fit is lost, and a signal between two distant words passes every word between them. "
    "Attention keeps **one vector for each position** and connects any two of them in one step. The price is a table "
    "of n × n weights for a sentence of n pieces."
)


def show(view: View) -> None:
    """Draw the section."""
    with section(
        "why-attention",
        "Why attention, and not one vector that holds the whole sentence?",
        IDEA,
        r"\text{self-attention } O(n^2 \cdot d) \qquad \text{recurrent } O(n \cdot d^2) \qquad "
        r"\text{convolution } O(k \cdot n \cdot d^2)",
        "Section 4 and Table 1",
    ):
        view.live(lambda: _bottleneck(view))
        _paths(view)
        view.live(lambda: _measured(view))
        attempt(
            "Type a sentence twice as long: the fixed vector keeps its size, the other does not. Then let the decoder "
            "read one vector of each, and compare what it loses."
        )


def _bottleneck(view: View) -> None:
    names, ids = source_labels(view), output_ids(view)
    count, width = len(names), view.translator.config.d_model
    heading(
        "What is left if the decoder may read one vector only",
        f"This model hands over {count} vectors of {width} numbers for this sentence, {count * width:,} in all; a "
        f"fixed vector has {width}. Below, every cross-attention of every layer is made to look at one vector alone. "
        "The model was not trained for that, as a recurrent one would be: read it as what this one vector holds.",
    )
    position = choose(
        "The one vector",
        [count - 1, AVERAGE, *range(count - 1)],
        "looking_vector",
        count - 1,
        lambda place: (
            "the average of all positions"
            if place == AVERAGE
            else f"that of {place + 1}. {visible(names[place])}"
            if place < count
            else ""
        ),
        260,
    )
    found = cached.bottleneck(view.translator, view.sentence, ids, None if position == AVERAGE else int(position))
    written = [piece.label for piece in view.record.target_output]
    both = ("reading every position", "reading one vector")
    picture(
        compared_bars(
            written, probabilities(found.log_probs), probabilities(found.changed_log_probs), both, view.colours
        ),
        "looking_bottleneck",
        f"{view.card.name} one vector",
        "Bars: the probability of each piece of the translation, reading every position and reading one vector. "
        f"Perplexity {number(found.perplexity)} and {number(found.changed_perplexity)}.",
        compared_width(written),
    )
    told(found, *both, len(ids))


def _paths(view: View) -> None:
    from transformer.lessons.costs import KERNEL, layer_kinds

    count, width = len(view.record.source), view.translator.config.d_model
    here = f"this sentence: n = {count}"
    lengths = sorted({*LENGTHS, count})
    every = [layer_kinds(length, width) for length in lengths]
    heading(
        "How far two words are apart, and what a layer multiplies",
        f"Left: layers (steps, of a recurrent one) between the first and the last of n positions. Right: "
        f"multiplications of one layer of width d = {width}; self-attention needs fewer than a recurrent layer as long "
        f"as n < d. Convolutions read k = {KERNEL} positions.",
    )
    left, right = st.columns(2, gap="medium")
    with left:
        picture(
            growth(
                lengths,
                [Curve(kind.name, np.array([row[i].path for row in every])) for i, kind in enumerate(every[0])],
                view.colours,
                across="n, positions",
                ticks=LENGTHS,
                up="longest path",
                here=count,
                here_name=here,
            ),
            "looking_paths",
            "path lengths",
            "Lines: the longest path against the number of positions. Self-attention stays at 1, a recurrent layer "
            "grows with the length.",
            360,
        )
    with right:
        picture(
            growth(
                lengths,
                # dilated or not, a convolution multiplies the same
                [
                    Curve(kind.name, np.array([row[i].multiplications for row in every]))
                    for i, kind in enumerate(every[0][:3])
                ],
                view.colours,
                across="n, positions",
                ticks=LENGTHS,
                up="multiplications of a layer",
                here=count,
                here_name=here,
            ),
            "looking_costs",
            "multiplications",
            f"Lines: multiplications of one layer against the number of positions; self-attention and a recurrent "
            f"layer cross at n = {width}.",
            360,
        )
    st.html(
        table(
            f"For this sentence, n = {count}, d = {width}, k = {KERNEL}",
            ("layer", "multiplications", "here", "steps that wait for each other", "longest path", "here"),
            [
                (kind.name, kind.order, f"{kind.multiplications:,}", f"{kind.steps}", kind.path_order, f"{kind.path}")
                for kind in layer_kinds(count, width)
            ],
            numeric=(2, 3, 5),
        )
    )


def _measured(view: View) -> None:
    found = cached.measured(view.translator, view.sentence)
    heads, count = view.translator.config.heads, len(view.record.source)
    heading(
        "Measured on this model",
        "Self-attention of its first encoder layer, all projections included, on this computer and while others may "
        "use it, beside a recurrent layer of the same width with random weights, which has to take one step after the "
        f"other. Memory: the maps of one layer, {heads} heads × n × n numbers of 4 bytes, beside the vectors. Fused "
        "kernels, which this app uses when no map is asked for, never hold a whole map.",
    )
    st.button(
        "Measure again", key="looking_measure", on_click=lambda: cached.measure_again(view.translator), type="tertiary"
    )
    times = {"self-attention": found.attention_seconds, "recurrent": found.recurrent_seconds}
    bytes_taken = {"attention maps": found.map_bytes, "vectors": found.vector_bytes}
    sides = (
        (
            "looking_time",
            "milliseconds of one layer",
            [Curve(name, 1e3 * values, tuple(map(seconds, values))) for name, values in times.items()],
        ),
        (
            "looking_bytes",
            "bytes of one layer",
            [Curve(name, values, tuple(map(size, values))) for name, values in bytes_taken.items()],
        ),
    )
    for place, (key, up, curves) in zip(st.columns(2, gap="medium"), sides, strict=True):
        with place:
            picture(
                growth(
                    found.lengths,
                    curves,
                    view.colours,
                    across="n, positions",
                    up=up,
                    here=count,
                    here_name=f"this sentence: n = {count}",
                ),
                key,
                up,
                f"Lines: {up} against the number of positions. At {found.lengths[-1]}: "
                + ", ".join(f"{curve.name} {curve.said[-1]}" for curve in curves),
                360,
            )
