"""Heads: how D is cut into slices and put together again, what that costs, and two heads that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from transformer.analysis.maps import kind_view
from transformer.plots.heatmap import attention_map, least_width
from transformer.plots.labels import percent, visible
from transformer.plots.projections import head_slices
from transformer.webapp import markup, resources
from transformer.webapp.frame import ROOT, View
from transformer.webapp.lessons import looking_cached as cached
from transformer.webapp.lessons.looking_parts import choose, heading, source_labels, source_piece
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.analysis.metrics import HeadFigures

IDEA = (
    "One softmax gives one set of weights, so one attention can follow one idea at a time. The model cuts its D "
    "dimensions into H **heads** of $d_k = D / H$ each, lets every head look where it wants, and puts their outputs "
    "one behind the other: D dimensions again. $W^O$ then mixes them into one vector."
)
SAID = {
    "previous": "of its attention lies on the piece before",
    "same": "of its attention lies on the piece itself",
    "next": "of its attention lies on the piece after",
    "sink": "of its attention rests on special pieces and punctuation",
    "evenness": "is how evenly it spreads, 100 % if all keys get the same",
    "diagonality": "is how closely it follows the diagonal, 0 % if no closer than an even spread",
}
"""What each figure means, behind its number in per cent."""
KINDS = ("encoder", "decoder", "cross")


def show(view: View) -> None:
    """Draw the section."""
    with section(
        "heads",
        "Why several heads?",
        IDEA,
        r"\mathrm{MultiHead}(Q, K, V) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_H)\,W^O",
        "Section 3.2.2",
    ):
        view.live(lambda: _slices(view))
        _counts(view)
        view.live(lambda: _two_heads(view))
        attempt(
            "Type a question, or a sentence with a word twice, and see whether the same two heads still differ most, "
            "and whether they still do the same."
        )


def _slices(view: View) -> None:
    with st.container(horizontal=True, key="looking_slices_choices", gap="small"):
        layers = list(range(1, view.card.encoder_layers + 1))
        layer = int(choose("Layer of the encoder", layers, "looking_slices_layer", layers[-1]))
        place = source_piece(view, "Piece", "looking_slices_piece")
    found = cached.slices(view.translator, view.sentence, layer - 1, place)
    heads, width = found.outputs.shape
    heading(
        f"'{visible(source_labels(view)[place])}' in layer {layer}: {heads} heads, one vector",
        f"What a head adds to the output is its part of the concatenation times its {width} rows of W^O. Grey is "
        "below zero, blue above.",
    )
    lengths = [float(length) for length in found.lengths]
    picture(
        head_slices(found.outputs, found.output, "encoder", view.colours),
        "looking_slices",
        f"{view.card.name} heads of layer {layer}",
        f"Strips of colour: the outputs of {heads} heads, the same one behind the other, and the {found.output.size} "
        "numbers that W^O makes of them.",
        420,
    )
    st.html(
        markup.table(
            "Length of what each head adds",
            [f"head {head + 1}" for head in range(heads)],
            [[f"{length:.2f}" for length in lengths]],
            numeric=range(heads),
        )
        + markup.checks_line(found.checks)
    )


def _counts(view: View) -> None:
    count, config = len(view.record.source), view.translator.config
    found = cached.multiplications(view.translator, count)
    heading(
        "Many heads cost no more than one",
        f"The matrices of this model's first encoder layer, cut into other numbers of heads, over the {count} "
        "positions of this sentence: all multiplications of matrices, counted while the layer runs. Only the softmax "
        "has more to do. (Cut otherwise, the same matrices compute something else: the model was trained with "
        f"{config.heads}.)",
    )
    st.html(
        markup.table(
            f"By formula 4nD² + 2n²D = {found[0].expected:,} for n = {count}, D = {config.d_model}",
            ("heads H", "width d_k", "multiplications counted", "exponentials of the softmax, H n²"),
            [
                (
                    f"{one.heads}, this model" if one.heads == config.heads else f"{one.heads}",
                    f"{one.width}",
                    f"{one.counted:,}",
                    f"{one.exponentials:,}",
                )
                for one in found
            ],
            numeric=(0, 1, 2, 3),
        )
    )


def _two_heads(view: View) -> None:
    from transformer.lessons.heads import different_heads

    heading(
        "Two heads that do different things with this sentence",
        "Of all pairs of one kind, the pair whose figures differ most: in self-attention the shares of attention on "
        "the piece before, on the piece itself and on the piece after; in cross-attention resting places, evenness and "
        "closeness to the diagonal.",
    )
    kind = str(choose("Attention", KINDS, "looking_pair_kind"))
    pair = different_heads(resources.figures(view.translator, view.record), kind)
    if pair is None:
        st.html(markup.notice("info", f"This sentence is too short to compare {kind} heads: no row has a choice."))
        return
    maps = kind_view(view.record, kind, view.card.languages)
    for column, head in zip(st.columns(2, gap="medium"), (pair.first, pair.second), strict=True):
        title = f"{kind} attention · layer {head.layer} · head {head.head}"
        with column:
            st.html(f"<b>{markup.escape(title)}</b><div class='under'>{markup.escape(_said(head, pair.by))}</div>")
            picture(
                attention_map(maps, head.layer - 1, head.head - 1, view.colours),
                f"looking_pair_{'first' if head is pair.first else 'second'}",
                f"{view.card.name} {title}",
                f"Attention map, {title}: {_said(head, pair.by)}",
                least_width(maps),
            )
    st.page_link(ROOT / "pages" / "attention.py", label="See every head of this sentence on the attention page")


def _said(head: HeadFigures, by: str) -> str:
    """What a head does, by the figure that tells the two apart and by its own strongest."""
    values = {name: getattr(head, name) for name in SAID}
    told = [f"{percent(values[by])} {SAID[by]}"]
    others = ("evenness", "sink") if head.kind == "cross" else ("previous", "same", "next", "sink")
    known = {name: values[name] for name in others if name != by and values[name] is not None}
    most = max(known, key=lambda name: known[name], default=None)
    if most is not None:
        told.append(f"{percent(known[most])} {SAID[most]}")
    return "; ".join(told) + "."
