"""The residual stream: how long it is, what each sublayer adds, and how far it turns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import streamlit as st

from transformer.plots.normalisation import length_lines
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import between_cached as cached
from transformer.webapp.lessons.between_parts import (
    checked,
    heading,
    named,
    number,
    output_ids,
    position_picker,
    stack_picker,
    under,
)
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.residual import Lengths


def show(view: View) -> None:
    """Draw the section."""
    config = view.translator.config
    first = config.norm_first
    with section(
        "residual",
        "What runs through all layers?",
        "A sublayer does not replace the vector of a position: what it computes is **added** to it. So one vector, the "
        "residual stream, runs from the embedding to the last layer, and each attention and each feed-forward network "
        "only writes into it. Gradients run back along the same sum, which is what lets many layers learn. "
        + (
            "This model normalises what each sublayer reads and leaves the stream itself alone, so that it grows."
            if first
            else "After each sum comes a layer normalisation, so the stream's length is brought back every time."
        ),
        r"x + \mathrm{Sublayer}(\mathrm{LayerNorm}(x))" if first else r"\mathrm{LayerNorm}(x + \mathrm{Sublayer}(x))",
        "Section 3.1" + (", with the normalisation first as in later models (Xiong et al. 2020)" if first else ""),
    ):
        with st.container(horizontal=True, key="between_stream_pickers"):
            stack = stack_picker("stream")
            position = position_picker(view, stack, "stream")
        found = cached.lengths(view.translator, view.sentence, output_ids(view), stack)
        heading(
            f"The stream of {named(view, stack, position)} through the {stack}",
            "Above: how long its vector is, and how long the one that each sublayer adds. Below: whether it still "
            "points where it pointed when it entered (1: the same way, 0: at right angles); faint lines are the other "
            "positions.",
        )
        left, right = st.columns(2, gap="medium")
        with left:
            picture(
                length_lines(
                    found.names,
                    found.added,
                    found.summed,
                    found.after,
                    found.likeness,
                    position,
                    stack,
                    view.colours,
                    normalised_last=not first,
                ),
                "between_lengths",
                f"{view.card.name} {stack} residual stream of position {position + 1}",
                f"Lines: length of the residual stream behind each of {len(found.names)} sublayers of the {stack}, "
                "and its cosine with the vector that entered.",
                420,
            )
        with right:
            st.html(_table(found, position, first))
            if not first:
                width = config.d_model
                under(
                    f"With mean 0 and variance 1 a vector of {width} numbers has length √{width} = "
                    f"{math.sqrt(width):.1f}; γ and β, which are learned, then lengthen or shorten it."
                )
            checked(found.check)
        attempt(
            "Choose the decoder and compare a position in the middle with the last one. Which sublayer adds more than "
            "the stream brought, and so overrules it?"
        )


def _table(found: Lengths, position: int, first: bool) -> str:
    """The lengths of one position, with a row for what enters."""
    columns = [found.added, found.summed, *([] if first else [found.after]), found.likeness]
    entering = number(float(found.before[0, position]))
    rows = [("what enters", *([""] * (len(columns) - 2)), entering, "1.00")]
    for row, name in enumerate(found.names):
        rows.append((name, *(number(float(values[row, position])) for values in columns)))
    heads = ("sublayer", "adds", "sum", *(() if first else ("normalised",)), "cosine")
    return markup.table("Lengths, and cosine with what entered", heads, rows, numeric=range(1, len(heads)))
