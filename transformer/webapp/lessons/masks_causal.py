"""The causal mask, one row at a time: what a position may see while its piece is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.analysis.maps import kind_view
from transformer.plots.heatmap import attention_map, least_width
from transformer.plots.labels import percent, visible
from transformer.plots.masks import masked_row
from transformer.webapp import markup, resources
from transformer.webapp.frame import View
from transformer.webapp.lessons.between_parts import checked, heading, under
from transformer.webapp.lessons.masks_parts import attention_link, layer_and_head, row_picker, strongest
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.causality import CausalHead


NARROW = 12
"""Maps of more columns than this stand below, not beside."""


def show(view: View) -> None:
    """Draw the section."""
    with section(
        "causal",
        "What may it see while it writes a word?",
        "In training the whole translation is fed in at once, so that all positions learn in one pass. But when the "
        "model translates, what comes later is not written yet. The **causal mask** makes both the same: before the "
        "softmax, the scores of all later positions are set to −∞, and the softmax gives them exactly 0.",
        r"\mathrm{weights} = \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right), \qquad "
        r"M_{tj} = \begin{cases} 0 & j \le t \\ -\infty & j > t \end{cases}",
        "Section 3.2.3",
    ):
        with st.container(horizontal=True, key="masks_causal_pickers", gap="small"):
            row = row_picker(view, "causal")
            layer, head = layer_and_head(view, "decoder", "causal", _usual(view))
        found = _head(view, layer - 1, head - 1)
        _seen(view, row)
        if len(view.record.target_input) > NARROW:
            left, right = st.container(), st.container()
        else:
            left, right = st.columns([7, 4], gap="medium")
        with left:
            _row(view, found, row, layer, head)
        with right:
            _map(view, row, layer, head)
        checked(found.check)
        label = f"See the mask and all scores of layer {layer} · head {head} on the attention page"
        attention_link(view, label, "decoder", layer, head, "mask")
        attempt(
            "Choose the first position: it may look at one key only, and whatever its score is, the softmax makes it "
            "1. Then go down piece by piece and watch the grey end at one key after the other."
        )


def _head(view: View, layer: int, head: int) -> CausalHead:
    from transformer.lessons.causality import causal_head

    scores = resources.scores(view.translator, view.record, "decoder", layer)[head]
    return causal_head(scores, view.record.decoder[layer, head], view.record.causal_mask)


def _usual(view: View) -> tuple[int, int]:
    """The head of the last layer from which the mask takes most."""
    last, heads = view.card.decoder_layers, range(view.card.heads)
    return strongest(np.array([[_head(view, last - 1, head).future.mean() for head in heads]]), last)


def _seen(view: View, row: int) -> None:
    """The pieces that a position may see, and those that it may not."""
    chips = "".join(
        markup.chip(piece, name="" if place < row else "newest" if place == row else "later")
        for place, piece in enumerate(view.record.target_input)
    )
    written = markup.escape(visible(view.record.target_output[row].label))
    later = len(view.record.target_input) - row - 1
    st.html(
        f"<b>When it writes '{written}' it may see {_count(row + 1, 'piece')}"
        f"{f', and not the {later} pale ' + ('one' if later == 1 else 'ones') if later else ''}</b>"
        f'<div class="chips" dir="auto">{chips}</div><div class="under">Framed: the position itself, which reads the '
        "piece written just before.</div>"
    )


def _row(view: View, found: CausalHead, row: int, layer: int, head: int) -> None:
    names = [piece.label for piece in view.record.target_input]
    future = float(found.future[row])
    heading(
        f"The row of this query in layer {layer} · head {head}",
        "Left: the scores with all keys, also with later ones, which the model computes and then throws away. Middle: "
        "what the mask leaves. Right: the softmax of the middle, and pale that of the left.",
    )
    picture(
        masked_row(
            names,
            found.scores[row],
            found.allowed[row],
            found.weights[row],
            found.open_weights[row],
            view.colours,
        ),
        "masks_row",
        f"{view.card.name} decoder layer{layer} head{head} row {row + 1} mask",
        f"Bars for each of {len(names)} keys: score, score after the mask, and weight with and without the mask. "
        f"Without it {percent(future)} of the weight would lie on later keys.",
        560,
    )
    if row + 1 < len(names):
        under(
            f"Without the mask these scores would put {percent(future)} of the weight on pieces that are not written "
            "yet; with it the weight is shared out again among the others, so that they sum to 1."
        )
    else:
        under("This is the last position: nothing comes later, and the mask hides nothing from it.")


def _map(view: View, row: int, layer: int, head: int) -> None:
    maps = kind_view(view.record, "decoder", view.card.languages)
    heading(
        "Every row of this head",
        "Grey: hidden by the mask. In the framed row, and in every other, the weights sum to 1.",
    )
    picture(
        attention_map(maps, layer - 1, head - 1, view.colours, rows=(row,)),
        "masks_map",
        f"{view.card.name} decoder layer{layer} head{head}",
        f"Attention map of layer {layer}, head {head} of the decoder: nothing lies above the diagonal.",
        least_width(maps),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
