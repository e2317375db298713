"""Attention followed through the layers: rollout, for the encoder and for what the decoder writes."""

from __future__ import annotations

import dataclasses

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from transformer.analysis.maps import KindView, kind_view
from transformer.analysis.rollout import decoder_rollout, encoder_rollout
from transformer.plots.heatmap import attention_map, least_width
from transformer.webapp import markup
from transformer.webapp.choices import MapChoices, finish
from transformer.webapp.frame import View
from transformer.webapp.workbench.pictures import picture

HALF = 0.5
RESIDUALS = ("measured", "one half")


def show(view: View) -> None:
    """Draw the view for the kind and the layer that are chosen: what has come together up to there."""
    encoder, decoder, cross = (
        kind_view(view.record, kind, view.card.languages, view.choices.quantity)
        for kind in ("encoder", "decoder", "cross")
    )
    st.html(
        '<div class="under">Attention rollout (Abnar and Zuidema 2020): the heads of a layer are averaged, mixed with '
        "what the residual connection keeps, and the layers are multiplied. It says where information may have come "
        "from, not that it was used: attention is not explanation (Jain and Wallace 2019; Wiegreffe and Pinter 2019)."
        "</div>"
    )
    kept = _kept(view)
    flow = encoder_rollout(encoder.weights, kept["encoder"])
    if view.kind == "encoder":
        _draw(view, "rollout_encoder", encoder, flow[view.layer - 1], f"encoder, layers 1 to {view.layer}")
        return
    source, target = decoder_rollout(flow[-1], decoder.weights, cross.weights, kept["decoder"], kept["cross"])
    upto = f"decoder, layers 1 to {view.layer}"
    shares = source[view.layer - 1].sum(axis=-1)
    share = f"the input has {shares.mean():.2f} of it on average"
    measured = f"Here {share}, from {shares.min():.2f} to {shares.max():.2f} by row."
    fixed = (
        f"That {share} follows from counting each residual connection as one half, not from this sentence; what is "
        "worth reading is how each part is spread."
    )
    st.html(
        '<div class="under">Each row is split between the input and the output read so far, and both together sum to '
        f"one. {fixed if kept['cross'] is HALF else measured}</div>"
    )
    left, right = st.columns(2, gap="medium")
    with left:
        _draw(view, "rollout_source", cross, source[view.layer - 1], f"{upto}: from the input")
    with right:
        _draw(view, "rollout_target", decoder, target[view.layer - 1], f"{upto}: from the output read so far")


def _kept(view: View) -> dict[str, NDArray[np.float32] | float]:
    """By kind, what the residual connection keeps, as the user wants it counted."""
    known = view.record.kept_shares
    how = st.segmented_control(
        "Residual connection",
        RESIDUALS,
        default=RESIDUALS[0],
        key="residual",
        required=True,
        persist_state="session",
        help="Measured: at each position the length of what the residual connection carries, as a share of that and "
        "the length of what the attention adds (in the manner of Kobayashi et al. 2021). One half: as Abnar and "
        "Zuidema count it.",
    )
    means = ", ".join(f"{kind} {known[kind].mean():.2f}" for kind in known)
    if how == RESIDUALS[0]:
        st.html(f'<div class="under">Kept on average over positions and layers: {means}.</div>')
    return {kind: shares if how == RESIDUALS[0] else HALF for kind, shares in known.items()}


def _draw(view: View, key: str, like: KindView, values: NDArray[np.float32], title: str) -> None:
    maps = finish(
        dataclasses.replace(like, weights=values[None, None]),
        view.record,
        # a row of one part does not sum to one, so nothing is hidden and brought back to one
        MapChoices(level=view.choices.level),
    )
    st.html(f"<b>Rollout · {markup.escape(title)}</b>")
    picture(
        attention_map(maps, 0, 0, view.colours, stretched=view.choices.stretched),
        key,
        f"{view.card.name} rollout {title}",
        f"Attention rollout, {title}",
        least_width(maps),
    )
