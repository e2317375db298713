"""Encoder and decoder put together: which part reads what, with this model's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from transformer.plots.plan import Plan, assembly_plan
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import masks_cached as cached
from transformer.webapp.lessons.between_parts import checked, output_ids, segment, under
from transformer.webapp.lessons.masks_parts import shape
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.crossing import Assembly

PARTS = {
    "cross-attention": "cross",
    "masked self-attention": "decoder",
    "encoder self-attention": "encoder",
}
READS = {
    "encoder": ("encoder self-attention", "the layer's own input", "the layer's own input"),
    "decoder": ("masked self-attention", "the layer's own input", "the layer's own input"),
    "cross": ("cross-attention", "the decoder's stream", "the encoder's output"),
}
"""The name of each attention, and where its queries, and its keys and values, come from."""


def show(view: View) -> None:
    """Draw the section."""
    with section(
        "assembled",
        "Which part of the model reads what?",
        "The **encoder** reads the input once and leaves one vector for each piece. The **decoder** reads what has "
        "been written so far, one position for each piece, and every one of its layers asks the encoder's vectors as "
        "well: queries from the decoder, keys and values from the encoder. That is the only way from one language to "
        "the other. Around every box stand a residual connection and a layer normalisation.",
        r"\mathrm{MultiHead}(Q, K, V): \quad Q = X_{\text{decoder}}, \quad K = V = X_{\text{encoder output}}",
        "Figure 1, Sections 3.1 and 3.2.3",
    ):
        found = cached.assembly(view.translator, view.sentence, output_ids(view))
        chosen = PARTS[str(segment("In full colour", tuple(PARTS), "masks_part", next(iter(PARTS))))]
        config = view.translator.config
        plan = Plan(
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            source=found.source,
            target=found.target,
            width=config.d_model,
            vocabulary=config.vocab_size,
            heads=config.heads,
            feed_forward=config.feed_forward,
            languages=(view.card.source, view.card.target),
        )
        picture(
            assembly_plan(plan, chosen, view.colours),
            "masks_plan",
            f"{view.card.name} plan",
            f"Plan: {config.encoder_layers} encoder layers turn {found.source} pieces into {found.source} vectors of "
            f"{config.d_model} numbers; lines lead from there into the cross-attention of each of "
            f"{config.decoder_layers} decoder layers, which end in {found.target} rows of probabilities.",
            640,
        )
        st.html(_table(found))
        under(
            "Shapes are those of this sentence: heads × positions × width of a head, and of a score table heads × "
            "queries × keys. A target is read shifted right: <SOS> first, and each position writes the next piece."
        )
        checked(found.check)
        attempt(
            "Type a longer sentence: which shapes grow, which do not? The weights, and all that a layer has learned, "
            "have the same size for any length."
        )


def _table(found: Assembly) -> str:
    rows = []
    for one in found.attentions:
        name, queries, keys = READS[one.kind]
        cells = one.scores[1] * one.scores[2]
        hides = f"{one.hidden:,} of {cells:,} cells" if one.hidden else "nothing but padding"
        rows.append(
            (
                name if one.kind != "decoder" else f"{name} of the decoder",
                str(one.layers),
                queries,
                keys,
                shape(*one.queries),
                shape(*one.keys),
                shape(*one.scores),
                "nothing: there is one cell" if one.kind == "decoder" and cells == 1 else hides,
            )
        )
    heads = ("attention", "layers", "queries from", "keys, values from", "Q", "K, V", "scores", "its mask hides")
    return markup.table("The three attentions on this sentence", heads, rows, numeric=(1, 4, 5, 6))
