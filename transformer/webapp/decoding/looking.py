"""Where a step looks: the source shaded by its cross-attention, the mask that applies, and interventions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.analysis.words import word_groups
from transformer.plots.labels import cell_weight, visible
from transformer.webapp import markup
from transformer.webapp.decoding.computing import Change
from transformer.webapp.decoding.walk import Walk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from transformer.text.tokenizer import Piece

REACHES = ("all layers and heads", "this layer", "this head")
"""Where an intervention takes hold."""
MASKED = 12
"""Masked positions that are drawn; more are only counted."""


def source(pieces: Sequence[Piece], weights: NDArray[np.float32], muted: Sequence[int], title: str) -> str:
    """The source as chips, each shaded by its weight [S] with the number under it; muted ones are struck out."""
    chips = []
    for place, (piece, weight) in enumerate(zip(pieces, weights, strict=True)):
        label = markup.escape(visible(piece.label))
        label = f"<u>{label}</u>" if piece.unknown else label
        gone = place in muted
        tip = markup.escape(f"{visible(piece.label)}: weight {weight:.4f}{', muted' if gone else ''}")
        number = cell_weight(float(weight)) if weight >= 0.005 else "0"
        chips.append(
            f'<span class="chip looked{" muted" if gone else ""}"{markup.own_direction(piece.special)} tabindex="0" '
            f'title="{tip}" style="--share:{100 * weight:.1f}%">{label}<small>{number}</small></span>'
        )
    return (
        f'<div class="under">{markup.escape(title)}</div>'
        f'<div class="chips sure" dir="auto" role="group" aria-label="{markup.escape(title)}">{"".join(chips)}</div>'
    )


def mask_row(walk: Walk) -> str:
    """The row of the causal mask that applies: the positions that this step may look at, and those it may not."""
    read = [("<SOS>", True), *((visible(one.label), one.special) for one in walk.hypothesis.pieces[: walk.step])]
    later = len(walk.steps) - len(read)
    chips = "".join(
        f'<span class="chip"{markup.own_direction(special)} title="may look">{markup.escape(label)}</span>'
        for label, special in read
    )
    chips += '<span class="chip closed" title="masked">&nbsp;</span>' * min(later, MASKED)
    chips += f'<span class="under">and {later - MASKED} more</span>' if later > MASKED else ""
    said = f"Row {walk.step + 1} of the causal mask: it may look at the {len(read)} " + (
        "position it has read" if len(read) == 1 else "positions it has read"
    )
    said += f"; the {later} after it {'is' if later == 1 else 'are'} masked" if later else ""
    return f'<div class="under">{said}.</div><div class="chips" dir="auto">{chips}</div>'


def interventions(walk: Walk, layer: int, head: int) -> Change:
    """Let the user force or mute the source for this step; layer and head from 0."""
    pieces = walk.view.record.source
    words = {group: _word(pieces, group) for group in word_groups(pieces)}
    # choices belong to one sentence: another has other places
    key = re.sub(r"\W", "_", walk.view.card.name) + f"_{hash(tuple(piece.id for piece in pieces)) & 0xFFFFFFFF:x}"
    with st.container(horizontal=True, key="interventions", gap="small"):
        forced = st.selectbox(
            "Force attention onto",
            range(len(pieces)),
            index=None,
            format_func=lambda place: f"{place + 1}. {visible(pieces[place].label)}",
            key=f"force_{key}",
            placeholder="nothing",
            width=190,
            help="This step gets all of its cross-attention from one source piece.",
        )
        muted = st.multiselect(
            "Mute source words",
            list(words),
            format_func=lambda group: f"{group[0] + 1}. {words.get(group, '')}",
            key=f"mute_{key}",
            placeholder="nothing",
            width=200,
            disabled=forced is not None,
        )
        reach = st.selectbox("In which heads", REACHES, key="intervention_reach", width=190)
    places = tuple(sorted(place for group in muted for place in group)) if forced is None else ()
    return Change(
        places,
        forced,
        None if reach == REACHES[0] else layer,
        head if reach == REACHES[2] else None,
    )


def said(walk: Walk, change: Change) -> str:
    """What an intervention does, in words; empty for none."""
    if change.nothing:
        return ""
    names = [visible(piece.label) for piece in walk.view.record.source]
    where = "in all layers and heads"
    if change.layer is not None:
        where = f"in layer {change.layer + 1}" + ("" if change.head is None else f", head {change.head + 1}")
    if change.forced is not None:
        what = f"all cross-attention of this step is put on '{names[change.forced]}'"
    else:
        what = "this step cannot look at " + ", ".join(f"'{names[place]}'" for place in change.muted)
        what += "; the rest of each row is brought back to a sum of one"
    return f"Intervention {where}: {what}. Grey bars: without it. Only this step is changed; the text stays as it is."


def _word(pieces: Sequence[Piece], group: Sequence[int]) -> str:
    return "".join(visible(pieces[place].label).removeprefix("·" if at else "") for at, place in enumerate(group))
