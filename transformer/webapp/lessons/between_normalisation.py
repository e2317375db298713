"""Layer normalisation: by hand, on a position of this sentence, what was learned, and why not over the batch."""

from __future__ import annotations

import numpy as np
import streamlit as st

from transformer.errors import InputError
from transformer.plots.labels import percent, visible
from transformer.plots.normalisation import padding_lines, parameter_histograms, value_histograms
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import between_cached as cached
from transformer.webapp.lessons.between_parts import (
    changed,
    checked,
    heading,
    layer_picker,
    named,
    number,
    output_ids,
    position_picker,
    segment,
    stack_picker,
    under,
)
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

PARTS = {
    "encoder": {"self-attention": "self_attn", "feed-forward": "feed_forward"},
    "decoder": {"self-attention": "self_attn", "cross-attention": "cross_attn", "feed-forward": "feed_forward"},
}
USUAL = "1, -1, 3"
EXTREMES = 4
"""Dimensions that are named at each end."""
OTHERS = 3
"""Example sentences that share the batch with the user's."""


def by_hand(view: View) -> None:
    """Draw the section with a handful of numbers."""
    eps = view.translator.config.layer_norm_eps
    with section(
        "normalisation",
        "What does a layer normalisation do to a vector?",
        "It takes **one vector** (one position of one sentence), subtracts the mean of its numbers and divides by "
        "their standard deviation: whatever its length was, the numbers now have mean 0 and variance 1. Then each of "
        "the d_model dimensions gets a gain γ and a bias β, which are learned. So later layers meet numbers of a "
        "familiar size, which keeps training steady.",
        r"\mathrm{LayerNorm}(x)_i = \gamma_i\, \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta_i, \qquad "
        r"\mu = \frac{1}{D}\sum_i x_i, \qquad \sigma^2 = \frac{1}{D}\sum_i (x_i - \mu)^2",
        "Section 3.1, after Ba et al. 2016",
    ):
        heading(
            "By hand", f"With γ = 1, β = 0 and this model's ε = {eps:g}, which only keeps the division from failing."
        )
        typed = st.text_input(
            "Numbers, two to twelve", USUAL, key="between_numbers", persist_state="session", width=320
        )
        _steps(typed or "", eps)
        attempt("Type 10, -10, 30, and then 101, 99, 103: what changes? Then type 2, 2, 2.")


def _steps(typed: str, eps: float) -> None:
    from transformer.lessons import normalisation

    try:
        found = normalisation.by_hand(normalisation.numbers_of(typed), eps)
    except InputError as error:
        st.html(markup.notice("warning", markup.sentence(str(error))))
        return
    exact = "{:,.10g}".format
    columns = [str(place) for place in range(1, len(found.values) + 1)]
    rows = [
        ("x", *map(exact, found.values)),
        ("x − μ", *(_short(value) for value in found.deviations)),
        ("(x − μ)²", *(_short(value**2) for value in found.deviations)),
        ("(x − μ) / √(σ² + ε)", *(f"{value:.4f}" for value in found.normalised)),
    ]
    under(f"Mean μ = {_short(found.mean)}, variance σ² = {_short(found.variance)}, √(σ² + ε) = {_short(found.root)}")
    st.html(markup.table("Step by step", ("", *columns), rows, numeric=range(1, len(columns) + 1)))


def of_a_position(view: View) -> None:
    """Draw the section with a vector of this sentence, and the learned gains and biases."""
    first = view.translator.config.norm_first
    with section(
        "vector",
        "What does it do to a vector of this sentence?",
        "The same, with d_model numbers: "
        + (
            "here the normalisation stands before a sublayer and reads the stream."
            if first
            else "the normalisation behind a sublayer reads the sum of the stream and what the sublayer added."
        )
        + " Mean and variance are those of this one vector alone; no other position, and no other sentence, has a part "
        "in them.",
    ):
        with st.container(horizontal=True, key="between_norm_pickers"):
            stack = stack_picker("norm")
            layer = layer_picker(view, stack, "norm")
            names = tuple(PARTS[stack])
            name = str(segment("Sublayer", names, f"between_norm_part_{stack}", names[0]))
            position = position_picker(view, stack, "norm")
        part = PARTS[stack][name]
        _histograms(view, stack, layer, part, position)
        _learned(view, stack, layer, part)
        attempt(
            "Go through layers and positions: the variance that comes in differs, after step 2 it is 1 each time, and "
            "γ and β then give it the size that was learned."
        )


def _histograms(view: View, stack: str, layer: int, part: str, position: int) -> None:
    from transformer.lessons.normalisation import mean_and_variance

    found = cached.normalised(view.translator, view.sentence, output_ids(view), stack, layer, part)
    vectors = (found.read[position], found.standard[position], found.given[position])
    names = ("1. what it reads", "2. standardised: less its mean, over its standard deviation", "3. times γ, plus β")
    where = named(view, stack, position)
    heading(
        f"The {len(vectors[0])} numbers of {where}",
        "Three histograms on one scale. The line is the mean, the band one standard deviation to either side.",
    )
    left, right = st.columns(2, gap="medium")
    with left:
        picture(
            value_histograms(vectors, names, stack, view.colours),
            "between_values",
            f"{view.card.name} {stack} layer {layer + 1} {part} normalisation of position {position + 1}",
            "Histograms: the numbers of one vector before the normalisation, standardised, and with gain and bias.",
            360,
        )
    with right:
        rows = []
        for step, vector in zip(("1. read", "2. standardised", "3. with γ and β"), vectors, strict=True):
            mean, variance = mean_and_variance(vector)
            figures = (mean, variance, vector.min(), vector.max(), np.linalg.norm(vector))
            rows.append((step, *(number(round(float(value), 6)) for value in figures)))
        st.html(
            markup.table(
                "The three vectors in numbers",
                ("", "mean", "variance", "smallest", "largest", "length"),
                rows,
                numeric=(1, 2, 3, 4, 5),
            )
        )
        means, variances = mean_and_variance(found.read)
        under(
            f"Over the {len(means)} positions of this sentence the mean before it runs from "
            f"{number(float(means.min()))} to {number(float(means.max()))}, the variance from "
            f"{number(float(variances.min()))} to {number(float(variances.max()))}."
        )
        checked(found.check)


def _learned(view: View, stack: str, layer: int, part: str) -> None:
    from transformer.lessons.normalisation import extremes

    one = next(
        one for one in cached.parameters(view.translator) if (one.stack, one.layer, one.part) == (stack, layer, part)
    )
    heading(
        f"Gain and bias that this normalisation has learned ({one.name})",
        "γ began as 1 and β as 0 in every dimension (dotted). A small γ means that what stands in that dimension "
        "hardly counts for what follows.",
    )
    left, right = st.columns([6, 5], gap="medium")
    with left:
        picture(
            parameter_histograms(one.gain, one.bias, stack, view.colours),
            "between_parameters",
            f"{view.card.name} {one.name} gain and bias",
            f"Histograms: the gains from {one.gain.min():.2f} to {one.gain.max():.2f} and the biases from "
            f"{one.bias.min():.2f} to {one.bias.max():.2f} of {len(one.gain)} dimensions.",
            420,
        )
    with right:
        gains, biases = extremes(one.gain, EXTREMES), extremes(one.bias, EXTREMES)
        st.html(
            markup.table(
                "The largest, and the smallest from the smallest up; dimensions count from 0",
                ("dimension", "γ", "dimension", "β"),
                [
                    (str(at), f"{gain:.3f}", str(other), f"{bias:.3f}")
                    for (at, gain), (other, bias) in zip(gains, biases, strict=True)
                ],
                numeric=(0, 1, 2, 3),
            )
        )


def over_the_batch(view: View) -> None:
    """Draw the section that sets batch normalisation beside layer normalisation."""
    with section(
        "batch-norm",
        "Why not normalise over the batch?",
        "Batch normalisation (Ioffe and Szegedy 2015) takes mean and variance of **each dimension over all vectors of "
        "a batch**. Sentences of a batch have different lengths and are padded to one; so padding, and whoever else is "
        "in the batch, would change what happens to your sentence. Layer normalisation takes them from one vector "
        "alone and does not notice.",
        r"\mathrm{BatchNorm}(x)_i = \frac{x_i - \mu_i}{\sqrt{\sigma_i^2 + \epsilon}}, \qquad "
        r"\mu_i,\, \sigma_i^2 \text{ over all vectors of the batch}",
    ):
        position = position_picker(view, "encoder", "batch")
        texts = _batch(view)
        found = cached.padded_batch(view.translator, texts, position)
        longest = max(found.lengths)
        heading(
            f"{named(view, 'encoder', position)}, with more and more padding behind the batch",
            "The vectors are those that the encoder's first normalisation reads, no γ and β in either. Up: how far the "
            "normalised vector is from that in the batch without further padding, as a share of its length.",
        )
        left, right = st.columns([6, 5], gap="medium")
        with left:
            picture(
                padding_lines(
                    found.padding_shares,
                    found.columns,
                    found.batch_moved,
                    found.layer_moved,
                    "encoder",
                    view.colours,
                ),
                "between_padding",
                f"{view.card.name} batch and layer normalisation with padding",
                "Lines: with more padding the result of batch normalisation moves by up to "
                f"{changed(float(found.batch_moved.max()))}, that of layer normalisation by "
                f"{changed(float(found.layer_moved.max()))}.",
                360,
            )
            st.html(
                markup.table(
                    f"The batch: your sentence and the model's examples, padded to {longest} pieces at least",
                    ("sentence", "pieces", "<PAD> behind it"),
                    [
                        (visible(text), str(length), str(longest - length))
                        for text, length in zip(found.texts, found.lengths, strict=True)
                    ],
                    numeric=(1, 2),
                )
            )
        with right:
            dimension = int(np.argmax(np.ptp(found.batch_means, axis=0)))
            st.html(
                markup.table(
                    f"Statistics; over the batch: those of dimension {dimension}, whose mean moves most",
                    ("columns", "padding", "batch: μ", "σ²", "layer: μ", "σ²"),
                    [
                        (
                            str(count),
                            percent(float(found.padding_shares[at])),
                            f"{found.batch_means[at, dimension]:.3f}",
                            f"{found.batch_variances[at, dimension]:.3f}",
                            f"{found.layer_means[at]:.3f}",
                            f"{found.layer_variances[at]:.3f}",
                        )
                        for at, count in enumerate(found.columns)
                    ],
                    numeric=(0, 1, 2, 3, 4, 5),
                )
            )
            if len(found.columns) == 1:
                under("The longest sentence fills the model's whole length: there is no room for padding.")
        attempt("Type a sentence much longer, or much shorter, than the others of the batch.")


def _batch(view: View) -> tuple[str, ...]:
    """The sentence and some examples of the model that fit it."""
    most, tokenizer = view.translator.max_source_pieces, view.translator.tokenizer
    others = [text for text in dict.fromkeys(view.card.examples) if text != view.sentence]
    fitting = [text for text in others if 2 < len(tokenizer.encode(text)) <= most]
    return (view.sentence, *fitting[:OTHERS])


def _short(value: float) -> str:
    return f"{float(f'{value:.5g}'):,.10g}"
