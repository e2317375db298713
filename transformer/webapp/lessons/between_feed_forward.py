"""The feed-forward network: which units act at which position, and that every position is on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.plots.activations import activation_map, share_bars, unit_map
from transformer.plots.labels import percent, visible
from transformer.webapp.frame import View
from transformer.webapp.lessons import between_cached as cached
from transformer.webapp.lessons.between_parts import (
    STACKS,
    axis,
    changed,
    heading,
    layer_picker,
    named,
    number,
    output_ids,
    position_picker,
    stack_picker,
    under,
)
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.markup import table
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHOWN = 10
"""Units that are shown of a position."""


def show(view: View) -> None:
    """Draw the section."""
    config = view.translator.config
    relu = config.activation == "relu"
    with section(
        "feed-forward",
        "What happens to a position after it has looked around?",
        "Attention carries things from position to position. Then a small network works on **each position alone**, "
        f"the same one at all positions: it widens the vector from d_model = {config.d_model} to "
        f"d_ff = {config.feed_forward} units, "
        + (
            "sets every negative one to zero (ReLU), "
            if relu
            else "lets hardly anything negative through (this model uses GELU in the place of ReLU), "
        )
        + "and brings it back. A unit that is above zero is *active*: it has recognised something in the vector and "
        "adds a vector of its own to the stream.",
        r"\mathrm{FFN}(x) = \max(0,\; x W_1 + b_1)\, W_2 + b_2"
        if relu
        else r"\mathrm{FFN}(x) = \mathrm{GELU}(x W_1 + b_1)\, W_2 + b_2",
        "Section 3.3",
    ):
        with st.container(horizontal=True, key="between_ff_pickers"):
            stack = stack_picker("ff")
            layer = layer_picker(view, stack, "ff")
            position = position_picker(view, stack, "ff")
        hidden = cached.activations(view.translator, view.sentence, output_ids(view), stack)
        _map(view, stack, layer, position, hidden[layer])
        _units(view, stack, layer, position, hidden[layer])
        left, right = st.columns(2, gap="medium")
        with left:
            _shares(view)
        with right:
            _alone(view, stack, layer, position)
        attempt(
            "Compare the first with the last layer of the decoder, and look at the pieces that the units of the last "
            "one point at. Then choose another position: other units act."
        )


def _map(view: View, stack: str, layer: int, position: int, hidden: NDArray[np.float32]) -> None:
    from transformer.lessons.feed_forward import active_share, busiest_first, never_active

    labels = axis(view, stack)
    shares, idle = active_share(hidden), never_active(hidden)
    heading(
        f"All units of {stack} layer {layer + 1} on this sentence",
        "One row a position, one column a unit; empty is zero, the stronger the colour the larger the activation."
        + (" Decoder positions are named by the piece that is written there." if stack == "decoder" else ""),
    )
    picture(
        activation_map(hidden, busiest_first(hidden), labels, stack, view.colours, position),
        "between_activations",
        f"{view.card.name} {stack} layer {layer + 1} activations",
        f"Map: the {hidden.shape[1]} units of {stack} layer {layer + 1} at {len(labels)} positions; "
        f"{percent(float(shares.mean()))} of the cells are active.",
        480,
    )
    under(
        f"At {named(view, stack, position)} {round(shares[position] * hidden.shape[1])} of {hidden.shape[1]} units are "
        f"active ({percent(float(shares[position]))}), on average {percent(float(shares.mean()))}; "
        f"{idle} are active nowhere in this sentence."
    )


def _units(view: View, stack: str, layer: int, position: int, hidden: NDArray[np.float32]) -> None:
    found = cached.units(view.translator, view.sentence, output_ids(view), stack, layer, position, SHOWN)
    heading(
        f"The most active units at {named(view, stack, position)}",
        "Each column is one unit along the sentence, the most active at the left. Some act at one kind of piece only, "
        "others nearly everywhere.",
    )
    if not found:
        under("No unit is above zero here: the network adds its bias and nothing else.")
        return
    numbers = [unit.number for unit, _ in found]
    labels = axis(view, stack)
    left, right = st.columns([5, 6], gap="medium")
    with left:
        picture(
            unit_map(hidden[:, numbers], numbers, labels, position, stack, view.colours),
            "between_units",
            f"{view.card.name} {stack} layer {layer + 1} units of position {position + 1}",
            f"Map: the {len(numbers)} most active units of the chosen position, along the sentence.",
            380,
        )
    tied = view.translator.config.tie_embeddings == "all"
    speaks = stack == "decoder" or tied
    with right:
        st.html(
            table(
                "The same units in numbers",
                ("unit", "activation", "adds length", "active at", "points at" if speaks else ""),
                [
                    (
                        str(unit.number),
                        number(unit.value),
                        number(unit.length),
                        f"{unit.active_at} of {len(labels)}",
                        " ".join(visible(piece) for piece in pieces) if speaks else "",
                    )
                    for unit, pieces in found
                ],
                numeric=(0, 1, 2, 3),
            )
        )
        under(
            "Adds length: how long the vector is that the unit adds to the stream."
            + (
                " Points at: the vocabulary pieces whose vectors that vector agrees with most, what it would make "
                "likelier if it reached the output as it is (Geva et al. 2022). It is telling in the decoder's last "
                "layers; before them, other layers still change it."
                if speaks
                else ""
            )
        )


def _shares(view: View) -> None:
    from transformer.lessons.feed_forward import active_share

    names, shares, kinds = [], [], []
    for stack in STACKS:
        hidden = cached.activations(view.translator, view.sentence, output_ids(view), stack)
        for layer, share in enumerate(active_share(hidden).mean(axis=-1)):
            names.append(f"{stack} layer {layer + 1}")
            shares.append(float(share))
            kinds.append(stack)
    heading(
        "How many units act at once?",
        "Share of the units above zero, mean over the positions. With random weights it would be about a half.",
    )
    picture(
        share_bars(names, shares, kinds, view.colours),
        "between_shares",
        f"{view.card.name} share of active units",
        "Bars: share of active units. " + "; ".join(f"{n} {percent(s)}" for n, s in zip(names, shares, strict=True)),
        320,
    )


def _alone(view: View, stack: str, layer: int, position: int) -> None:
    found = cached.alone(view.translator, view.sentence, output_ids(view), stack, layer, position)
    sizes = cached.sizes(view.translator)
    heading(
        "Each position is on its own",
        f"Take {named(view, stack, position)} out of the sentence and give its vector to {stack} layer {layer + 1} "
        "without the other positions. How much does what comes out change?",
    )
    st.html(
        table(
            "Change, as a share of the output's length",
            ("", "changes by"),
            [("feed-forward network", changed(found.feed_forward)), ("self-attention", changed(found.attention))],
            numeric=(1,),
        )
    )
    st.html(
        table(
            "Sizes of one network, beside one attention",
            ("", ""),
            [
                ("parameters, 2 · d_model · d_ff + d_ff + d_model", f"{sizes.parameters:,}"),
                ("parameters of one attention", f"{sizes.attention_parameters:,}"),
                ("multiplications for one position", f"{sizes.multiplications:,}"),
                ("share of all such networks in the whole model", percent(sizes.share)),
            ],
            numeric=(1,),
        )
    )
