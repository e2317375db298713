"""Padding masks switched off: real words look at padding, and what that does to the translation."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.analysis.maps import Axis, KindView, kind_view
from transformer.plots.costs import compared_bars, compared_width
from transformer.plots.heatmap import attention_map, least_width
from transformer.plots.labels import percent, visible
from transformer.plots.padding import share_grids
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import masks_cached as cached
from transformer.webapp.lessons.between_parts import checked, heading, output_ids, segment, under
from transformer.webapp.lessons.looking_parts import choose, probabilities, told
from transformer.webapp.lessons.masks_parts import layer_and_head, strongest
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.padding import PaddingOff

COLUMNS = (1, 2, 4, 8, 16, 32)
USUAL = 8
PLACES = ("encoder and cross-attention", "encoder", "cross-attention")
PAD = "<PAD>"


def show(view: View) -> None:
    """Draw the section."""
    with section(
        "padding-off",
        "What happens without the padding mask?",
        "`<PAD>` has an embedding like any other piece, and so a key and a value. If nothing hides them, real words "
        "give weight to padding, its values are mixed into theirs, and the same sentence means something else "
        "depending on **how long its neighbours in the batch** are. With the mask, padding changes nothing. (Padding "
        "of a target lies behind its end, where the causal mask hides it anyway.)",
        r"\mathrm{softmax}(s)_j = \frac{m_j\, e^{s_j}}{\sum_i m_i\, e^{s_i}}, \qquad m_j = 0 \text{ at padding}",
    ):
        room = view.translator.max_source_pieces - len(view.record.source)
        options = [columns for columns in COLUMNS if columns <= room]
        if not options:
            st.html(
                markup.notice("info", "This sentence fills all positions of the model: there is no room for padding.")
            )
            return
        with st.container(horizontal=True, key="masks_off_pickers", gap="small"):
            usual = min(USUAL, options[-1])
            columns = int(choose("Columns of padding", options, "masks_off_columns", usual, width=140))
            place = str(choose("Mask switched off in", PLACES, "masks_off_place", width=240))
        found = cached.without_padding_mask(view.translator, view.sentence, output_ids(view), columns, place)
        _shares(view, found)
        _maps(view, found)
        _output(view, found)
        attempt(
            "Choose 1 column, then 32: with the mask on nothing changes, with the mask off the same sentence is read "
            "in another way each time. Then switch it off in the encoder only, and in cross-attention only."
        )


def _shares(view: View, found: PaddingOff) -> None:
    encoder, cross = found.encoder_shares, found.cross_shares
    heading(
        f"How much weight goes to {found.columns} columns of padding, in per cent",
        "One cell a head: the mean over all real queries, masks off as chosen.",
    )
    picture(
        share_grids(
            [("encoder self-attention", "encoder", encoder), ("cross-attention", "cross", cross)], view.colours
        ),
        "masks_off_shares",
        f"{view.card.name} weight on padding",
        f"Two grids of numbers: weight on padding of each head. Encoder {percent(float(encoder.mean()))} on average, "
        f"cross-attention {percent(float(cross.mean()))}.",
        520,
    )
    even = found.columns / found.encoder_maps.shape[3]
    under(
        f"Encoder {percent(float(encoder.mean()))} on average and {percent(float(encoder.max()))} at most, "
        f"cross-attention {percent(float(cross.mean()))} and {percent(float(cross.max()))}; a head that looked at all "
        f"positions alike would give {percent(even)}."
    )


def _maps(view: View, found: PaddingOff) -> None:
    heading("One head, with the mask and without it")
    with st.container(horizontal=True, key="masks_off_head", gap="small", vertical_alignment="bottom"):
        kind = str(segment("Attention", ("encoder", "cross"), "masks_off_kind", "encoder"))
        shares = found.encoder_shares if kind == "encoder" else found.cross_shares
        layer, head = layer_and_head(view, kind, f"off_{kind}", strongest(shares))
    opened, masked = (
        (found.encoder_maps, found.masked_encoder_maps)
        if kind == "encoder"
        else (found.cross_maps, found.masked_cross_maps)
    )
    left, right = st.columns(2, gap="medium")
    for place, title, key, weights, hidden in (
        (left, "Mask on: the columns of padding are hidden", "on", masked, True),
        (right, "Mask off, as chosen above", "off", opened, False),
    ):
        shown = _padded_view(view, kind, weights, found.columns, hidden)
        on = weights[layer - 1, head - 1, :, -found.columns :].sum(axis=-1)
        with place:
            st.html(f"<b>{title}</b>")
            picture(
                attention_map(shown, layer - 1, head - 1, view.colours),
                f"masks_off_{key}",
                f"{view.card.name} {kind} layer{layer} head{head} padding mask {key}",
                f"Attention map of layer {layer}, head {head}, padding mask {key}: {percent(float(on.mean()))} of the "
                "weight lies on padding.",
                least_width(shown),
            )


def _padded_view(view: View, kind: str, weights: np.ndarray, columns: int, hidden: bool) -> KindView:
    """The maps of a kind with columns of padding at the end of the keys."""
    base = kind_view(view.record, kind, view.card.languages)
    keys = base.columns
    axis = Axis(keys.title, (*keys.labels, *[PAD] * columns), (*keys.unknown, *[False] * columns), keys.right_to_left)
    real = np.arange(weights.shape[3]) < weights.shape[3] - columns
    allowed = np.broadcast_to(real, weights.shape[2:]) if hidden else None
    return dataclasses.replace(base, weights=weights, columns=axis, allowed=allowed)


def _output(view: View, found: PaddingOff) -> None:
    from transformer.lessons.changing import Changed

    names = ("the sentence alone", f"with {found.columns} columns of padding, mask off")
    heading(
        "What becomes of the translation",
        "Each piece of the translation on top of the page, given the sentence alone and the sentence with padding in "
        "sight. With the mask on, both would be the same.",
    )
    written = [piece.label for piece in view.record.target_output]
    picture(
        compared_bars(
            written,
            probabilities(found.log_probs),
            probabilities(found.changed_log_probs),
            names,
            view.colours,
        ),
        "masks_off_bars",
        f"{view.card.name} padding in sight",
        "Bars: the probability of each piece of the translation, from the sentence alone and with padding in sight.",
        compared_width(written),
    )
    changed = Changed(
        found.log_probs,
        found.changed_log_probs,
        found.text,
        found.changed_text,
        found.finished,
        found.changed_finished,
    )
    told(changed, *names, len(written))
    most = int(found.moved.argmax())
    before, after = probabilities(found.log_probs), probabilities(found.changed_log_probs)
    hit = int((before - after).argmax())
    under(
        (
            f"Hit hardest: '{visible(written[hit])}', from {percent(float(before[hit]))} to "
            f"{percent(float(after[hit]))}. "
            if before[hit] > after[hit]
            else ""
        )
        + f"The encoder's output moves by {percent(float(found.moved.mean()))} of its length on average, most at "
        f"'{visible(view.record.source[most].label)}': {percent(float(found.moved[most]))}."
    )
    for check in found.checks:
        checked(check)
