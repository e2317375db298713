"""What the sections of /masks share: a picker for the piece being written, and a link to the attention page."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import numpy as np
import streamlit as st

from transformer.plots.labels import visible
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons.looking_parts import choose

if TYPE_CHECKING:
    from numpy.typing import NDArray


SEARCH = ("beam", "length_penalty", "coverage_penalty", "no_repeat_ngram", "max_extra")
"""What of the address decides which translation the model writes."""


def row_picker(view: View, key: str) -> int:
    """A position of the decoder, from 0, named by what is written there; at first one in the middle."""
    pieces = view.record.target_output
    chosen = choose(
        "When it writes",
        list(range(len(pieces))),
        f"masks_{key}_row",
        len(pieces) // 2,
        lambda row: f"{row + 1}. {visible(pieces[row].label)}" if row < len(pieces) else "",
        200,
    )
    return int(chosen)


def layer_and_head(view: View, kind: str, key: str, usual: tuple[int, int]) -> tuple[int, int]:
    """A layer of a kind of attention and one of its heads, both from 1; at first the usual ones."""
    layers, heads = range(1, view.card.layers(kind) + 1), range(1, view.card.heads + 1)
    layer = choose("Layer", list(layers), f"masks_{key}_layer", usual[0], width=90)
    head = choose("Head", list(heads), f"masks_{key}_head", usual[1], width=90)
    return int(layer), int(head)


def strongest(values: NDArray[np.floating], first: int = 1) -> tuple[int, int]:
    """The layer and head, from 1, with the largest of [L, H] numbers; ``first`` is the layer of the first row."""
    layer, head = np.unravel_index(int(np.argmax(values)), values.shape)
    return int(layer) + first, int(head) + 1


def attention_link(view: View, label: str, kind: str, layer: int, head: int, shown: str) -> None:
    """A link to one view of one head on the attention page, with sentence and model.

    It is the address of that view, as anyone could type it: the links of Streamlit cannot choose what the frame's
    pickers show, which keep what they hold.
    """
    search = {name: st.query_params[name] for name in SEARCH if name in st.query_params}
    values = {"sentence": view.sentence, "model": view.card.name, "kind": kind, "view": shown}
    address = "attention?" + urlencode({**search, **values, "layer": layer, "head": head})
    st.html(f'<a class="under" href="{markup.escape(address)}">{markup.escape(label)}</a>')


def shape(*sides: int) -> str:
    """A shape in words: "8 × 7 × 32"."""
    return " × ".join(f"{side:,}" for side in sides)
