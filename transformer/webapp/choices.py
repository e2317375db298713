"""How maps are shown: which view, what the numbers are, words or pieces, what is hidden, which heads, which colours.

Like all shared widgets they are bound to the URL and drawn by the frame on every page, hidden where no map needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from transformer.analysis.maps import QUANTITIES, KindView, kind_view
from transformer.analysis.words import combine, hidden_keys, hidden_queries, to_words, without
from transformer.capture.record import AttentionRecord
from transformer.webapp.widgets import choose, segments

VIEWS = ("one head", "all heads", "lines", "arithmetic", "mask", "figures", "across layers")
LEVELS = ("pieces", "words")
HIDDEN = ("nothing", "specials", "specials and punctuation")
SETS = ("one head", "mean of layer", "maximum of layer", "mean of all", "maximum of all")
SCALES = ("0 to 1", "stretched")
OPTIONS: dict[str, tuple[str, ...]] = {
    "view": VIEWS,
    "quantity": QUANTITIES,
    "level": LEVELS,
    "hide": HIDDEN,
    "combine": SETS,
    "scale": SCALES,
}
"""What each parameter of the URL may be; the first is the usual one."""


@dataclass(frozen=True)
class MapChoices:
    """What was chosen; each field is one of ``OPTIONS``."""

    view: str = VIEWS[0]
    quantity: str = QUANTITIES[0]
    level: str = LEVELS[0]
    hide: str = HIDDEN[0]
    combine: str = SETS[0]
    scale: str = SCALES[0]

    def said(self) -> str:
        """What is not at its usual value, in words; empty if nothing is."""
        parts = [
            "word by word" if self.level != LEVELS[0] else "",
            "weight × norm of the value" if self.quantity != QUANTITIES[0] else "",
            f"{self.hide} hidden" if self.hide != HIDDEN[0] else "",
            self.combine if self.combine != SETS[0] else "",
            "colours stretched to the strongest cell" if self.stretched else "",
        ]
        return ", ".join(part for part in parts if part)

    @property
    def stretched(self) -> bool:
        """Whether the strongest cell of a map has the full colour."""
        return self.scale == SCALES[1]


def view_picker() -> str:
    """The view of the page, as a row of segments."""
    with st.container(key="views"):
        return segments("View", VIEWS, VIEWS[0], "view")


def map_choices(view: str) -> MapChoices:
    """The choices that go for all views, behind a button."""
    with st.popover("Words, norms, hiding, several heads"), st.container(horizontal=True, key="choices"):
        level = segments("Tokens", LEVELS, LEVELS[0], "level")
        quantity = segments(
            "Numbers",
            QUANTITIES,
            QUANTITIES[0],
            "quantity",
            help="Weights: what the softmax gives. Norms: each weight times the length of what it multiplies, the "
            "value vector carried through W^O, as a share of the row (Kobayashi et al. 2020). A large weight on a "
            "short vector moves little. Neither explains a choice: Jain and Wallace 2019, Wiegreffe and Pinter 2019.",
        )
        scale = segments("Colours", SCALES, SCALES[0], "scale")
        hide = choose("Hide", HIDDEN, "hide", help="Rows are brought back to a sum of one; what was removed is shown.")
        combine_how = choose("Heads", SETS, "combine", help="Show one head, or several as one map.")
    return MapChoices(view, quantity, level, hide, combine_how, scale)


def chosen_maps(record: AttentionRecord, kind: str, languages: dict[str, str], choices: MapChoices) -> KindView:
    """The maps of one kind as the choices want them; heads are still apart."""
    return finish(kind_view(record, kind, languages, choices.quantity), record, choices)


def finish(maps: KindView, record: AttentionRecord, choices: MapChoices) -> KindView:
    """Maps of a record without what is to be hidden, and word by word if that is wanted."""
    kind = maps.kind
    if choices.hide != HIDDEN[0]:
        punctuation = choices.hide == HIDDEN[2]
        maps = without(
            maps, hidden_keys(record, kind, True, punctuation), hidden_queries(record, kind, True, punctuation)
        )
    return to_words(maps, record) if choices.level == LEVELS[1] else maps


def chosen_heads(maps: KindView, layer: int, head: int, choices: MapChoices) -> list[tuple[int, int]]:
    """The heads of the chosen set as (layer, head), all from 0."""
    if choices.combine == SETS[0]:
        return [(layer, head)]
    layers: Sequence[int] = [layer] if choices.combine in SETS[1:3] else range(maps.layers)
    return [(at, other) for at in layers for other in range(maps.heads)]


def as_one(maps: KindView, layer: int, head: int, choices: MapChoices) -> tuple[KindView, int, int]:
    """The map to be drawn large: a view, and the layer and head in it, from 0."""
    if choices.combine == SETS[0]:
        return maps, layer, head
    how = "max" if choices.combine.startswith("maximum") else "mean"
    return combine(maps, chosen_heads(maps, layer, head, choices), how), 0, 0


def map_name(kind: str, layer: int, head: int, choices: MapChoices) -> str:
    """What the large map is called; layer and head from 1."""
    of = {
        SETS[0]: f"layer {layer} · head {head}",
        SETS[1]: f"mean of all heads of layer {layer}",
        SETS[2]: f"largest of all heads of layer {layer}, cell by cell",
        SETS[3]: "mean of all heads of all layers",
        SETS[4]: "largest of all heads of all layers, cell by cell",
    }[choices.combine]
    return f"{kind} attention · {of}"
