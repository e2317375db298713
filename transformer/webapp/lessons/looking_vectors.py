"""Queries, keys and values: three projections of one vector, a look-up, and scores with and without the matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.analysis.maps import kind_view
from transformer.plots.heatmap import least_width
from transformer.plots.labels import percent, visible
from transformer.plots.projections import retrieval, strips
from transformer.plots.scores import score_map
from transformer.webapp import markup, resources
from transformer.webapp.frame import View
from transformer.webapp.lessons import looking_cached as cached
from transformer.webapp.lessons.looking_parts import choose, heading, source_labels, source_piece
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.projections import Projections

IDEA = (
    "Each position asks a question, its **query**; shows what it can be found by, its **key**; and holds what it has "
    "to give, its **value**. All three are the same vector multiplied by three learned matrices. A query is compared "
    "with every key, the softmax turns the scores into weights, and the values come back mixed by these weights."
)


def show(view: View) -> None:
    """Draw the section."""
    with section(
        "queries-keys-values",
        "What are queries, keys and values?",
        IDEA,
        r"\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V, \qquad "
        r"Q = XW^Q,\ K = XW^K,\ V = XW^V",
        "Sections 3.2.1 and 3.2.2, Equation 1",
    ):
        view.live(lambda: _draw(view))
        attempt(
            "Choose a head whose asymmetry is high, then look for a pair of pieces in the right map where one looks at "
            "the other but is not looked at in return. The left map never shows such a pair."
        )


def _draw(view: View) -> None:
    card, names = view.card, source_labels(view)
    usual = _usual(view)
    with st.container(horizontal=True, key="looking_choices", gap="small"):
        layer = int(choose("Encoder layer", list(range(1, card.encoder_layers + 1)), "looking_layer", usual[0]))
        head = int(choose("Its head", list(range(1, card.heads + 1)), "looking_head", usual[1]))
        place = source_piece(view, "The piece that asks", "looking_piece")
    found = cached.projections(view.translator, view.sentence, layer - 1, head - 1)
    _one_piece(view, found, names, place, layer, head)
    _look_up(view, names, place, layer, head)
    _with_and_without(view, found, layer, head)


def _usual(view: View) -> tuple[int, int]:
    """The layer and head to begin with: one that looks for a place, as the two heads of the last section do."""
    from transformer.lessons.heads import different_heads

    pair = different_heads(resources.figures(view.translator, view.record), "encoder")
    return (pair.first.layer, pair.first.head) if pair else (1, 1)


def _one_piece(view: View, found: Projections, names: list[str], place: int, layer: int, head: int) -> None:
    vectors = {"q": found.queries[place], "k": found.keys[place], "v": found.values[place]}
    lengths = ", ".join(f"{name} {np.linalg.norm(vector):.2f}" for name, vector in vectors.items())
    width = found.entering.shape[1]
    before = "its embedding and position" if layer == 1 else f"what layer {layer - 1} made of it"
    if view.translator.config.norm_first:
        before += ", normalised"
    heading(
        f"'{visible(names[place])}' in layer {layer}, head {head}: one vector, three projections",
        f"What enters is {before}: {width} numbers, of length {np.linalg.norm(found.entering[place]):.2f}. Each matrix "
        f"of this head has {width} × {found.width} numbers, so that q, k and v have {found.width}. Lengths: {lengths}. "
        "Grey is below zero, blue above.",
    )
    picture(
        strips(list(vectors), np.stack(list(vectors.values())), "encoder", view.colours),
        "looking_strips",
        f"{view.card.name} q k v",
        f"Strips of colour: the {found.width} numbers of the query, the key and the value. Lengths: {lengths}",
        420,
    )
    st.html(markup.checks_line(found.checks))


def _look_up(view: View, names: list[str], place: int, layer: int, head: int) -> None:
    numbers = resources.arithmetic(view.translator, view.record, "encoder", layer - 1, head - 1, place)
    best = int(numbers.weights.argmax())
    heading(
        f"What '{visible(names[place])}' looks up",
        f"Its query meets the key of every piece (1); the softmax makes weights that sum to 1 (2); each value counts "
        f"by its weight, and the sum in the frame is what the head gives out (3). Here most comes from "
        f"'{visible(names[best])}', {percent(float(numbers.weights[best]))}.",
    )
    picture(
        retrieval(names, numbers, "encoder", view.colours),
        "looking_retrieval",
        f"{view.card.name} retrieval",
        "For each key its score, its weight and its weighted value; the last row is their sum. Most weight: "
        f"'{names[best]}' {numbers.weights[best]:.2f}",
        680,
    )
    st.html(markup.checks_line(numbers.checks))


def _with_and_without(view: View, found: Projections, layer: int, head: int) -> None:
    from transformer.lessons.projections import learned_scores, raw_scores

    raw, learned = raw_scores(found), learned_scores(found)
    heading(
        "Why not compare the vectors as they are?",
        "Without the matrices a pair of pieces scores the same whichever asks, and a vector is mostly most like "
        "itself. Two different matrices let a piece look for what is unlike it, and not be looked at in return. In "
        "layer 1 these vectors are the embeddings with their positions.",
    )
    maps = kind_view(view.record, "encoder", view.card.languages)
    left, right = st.columns(2, gap="medium")
    sides = (
        (left, "raw", "x·x / √D, the vectors as they are", raw),
        (right, "learned", f"q·k / √d_k, layer {layer} · head {head}", learned),
    )
    for place, key, title, scores in sides:
        with place:
            st.html(f"<b>{markup.escape(title)}</b>")
            picture(
                score_map(maps, scores.scores.astype(np.float32), view.colours),
                f"looking_{key}",
                f"{view.card.name} {key} scores",
                f"Map of scores, {title}: asymmetry {scores.asymmetry:.2f}",
                least_width(maps),
            )
    st.html(
        markup.table(
            "Both maps in figures",
            ("", "asymmetry", "rows whose own position scores highest", "weight on the own position, mean"),
            [
                (title, f"{one.asymmetry:.2f}", percent(one.own_largest), percent(one.own_weight))
                for _, _, title, one in sides
            ],
            numeric=(1, 2, 3),
        )
        + "<div class='under'>Asymmetry is the length of the part of the scores that changes its sign when the two "
        "sides are swapped, as a share of the whole: 0 if nobody can tell who asked, about 0.7 for large random "
        "matrices, 1 at most.</div>"
    )
