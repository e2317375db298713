"""Cross-attention for one word: the decoder's query against the encoder's keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.analysis.maps import kind_view
from transformer.plots.heatmap import attention_map, least_width
from transformer.plots.labels import percent, visible
from transformer.plots.masks import heads_view
from transformer.plots.projections import retrieval
from transformer.webapp import markup, resources
from transformer.webapp.frame import View
from transformer.webapp.lessons import masks_cached as cached
from transformer.webapp.lessons.between_parts import heading, output_ids, under
from transformer.webapp.lessons.masks_parts import attention_link, layer_and_head, row_picker, shape, strongest
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.crossing import Crossing


def show(view: View) -> None:
    """Draw the section."""
    with section(
        "cross",
        "How does a word of the output ask the input?",
        "In **cross-attention** the query comes from the decoder, from the position that is about to write; the keys "
        "and values come from the encoder's output. The query meets every key, the softmax makes weights, and the "
        "values come back mixed by them. The input does not change while the output grows: keys and values are "
        "computed **once**, and every step asks the same ones with a query of its own.",
        r"\mathrm{softmax}\left(\frac{q\,K^\top}{\sqrt{d_k}}\right) V, \qquad q = x_{\text{decoder}} W^Q,\ "
        r"K = X_{\text{encoder}} W^K,\ V = X_{\text{encoder}} W^V",
        "Section 3.2.3",
    ):
        with st.container(horizontal=True, key="masks_cross_pickers", gap="small"):
            row = row_picker(view, "cross")
            layer, head = layer_and_head(view, "cross", "cross", _usual(view, row))
        _look_up(view, row, layer, head)
        left, right = st.columns([6, 5], gap="medium")
        with left:
            _heads(view, row, layer, head)
        with right:
            _once(view, cached.crossing(view.translator, view.sentence, output_ids(view), layer - 1, head - 1))
        label = f"See the whole map of layer {layer} · head {head} on the attention page"
        attention_link(view, label, "cross", layer, head, "one head")
        attempt(
            "Go through the words one by one: which head looks at the input word that the output word translates? Then "
            "choose <EOS>, the sign that the translation is complete."
        )


def _usual(view: View, row: int) -> tuple[int, int]:
    """The head of the last layer that looks most at one piece of the text, from this position."""
    words = np.array([not piece.special for piece in view.record.source])
    return strongest(view.record.cross[-1:, :, row][:, :, words].max(axis=-1), view.card.decoder_layers)


def _look_up(view: View, row: int, layer: int, head: int) -> None:
    numbers = resources.arithmetic(view.translator, view.record, "cross", layer - 1, head - 1, row)
    names = [piece.label for piece in view.record.source]
    best = int(numbers.weights.argmax())
    heading(
        f"Layer {layer} · head {head}, {_phrase(view, row)}",
        f"The query meets the key of each of {len(names)} input pieces (1); the softmax makes weights that sum to 1 "
        "(2); each value counts by its weight, and the sum in the frame is what the head gives out (3). Most comes "
        f"from '{visible(names[best])}', {percent(float(numbers.weights[best]))}.",
    )
    picture(
        retrieval(names, numbers, "cross", view.colours),
        "masks_retrieval",
        f"{view.card.name} cross layer{layer} head{head} row {row + 1}",
        "For each input piece its score, its weight and its weighted value; the last row is their sum. Most weight: "
        f"'{names[best]}' {numbers.weights[best]:.2f}",
        680,
    )
    st.html(markup.checks_line(numbers.checks))


def _heads(view: View, row: int, layer: int, head: int) -> None:
    columns = kind_view(view.record, "cross", view.card.languages).columns
    weights = view.record.cross[layer - 1, :, row]
    shown = heads_view("cross", weights, columns, _phrase(view, row))
    heading(f"All heads of layer {layer} for this word", "Each row is one head's softmax over the input; it sums to 1.")
    picture(
        attention_map(shown, 0, 0, view.colours, rows=(head - 1,)),
        "masks_heads",
        f"{view.card.name} cross layer{layer} row {row + 1} all heads",
        f"Map: where each of {len(weights)} heads of layer {layer} looks while this word is written.",
        least_width(shown),
    )


def _once(view: View, found: Crossing) -> None:
    length, width = found.keys.shape
    steps, full = len(found.queries), found.memory.shape[1]
    heading("The shapes, and what is computed once")
    rows = [
        ("q", "the decoder, at this step", shape(1, width)),
        ("K", "the encoder's output", shape(length, width)),
        ("q Kᵀ / √d_k, and its softmax", "one number for each input piece", shape(1, length)),
        ("V", "the encoder's output", shape(length, width)),
        ("weights × V", "the output of the head", shape(1, width)),
        (f"{view.card.heads} heads side by side, times W^O", "added to the decoder's stream", shape(1, full)),
    ]
    st.html(markup.table("One head, one step", ("", "made of", "shape"), rows, numeric=(2,)))
    tables = "one and the same table" if found.tables == 1 else f"{found.tables} tables"
    under(
        f"Decoding this translation takes {steps} {'step' if steps == 1 else 'steps'}"
        f"{'' if found.steps == steps else f'; its first {found.steps} were taken here'}, and all of them read "
        f"{tables} of keys in memory. Keys and values of all heads of this layer cost 2 · S · D² = "
        f"{found.multiplications:,} multiplications, once; computed anew at every step they would have cost "
        f"{steps * found.multiplications:,}."
    )
    st.html(markup.checks_line(found.checks))


def _phrase(view: View, row: int) -> str:
    read, written = view.record.target_input[row], view.record.target_output[row]
    return f"writing '{visible(written.label)}', having just read '{visible(read.label)}'"
