"""A batch of sentences that the user types: padding, its mask, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.config import PAD_ID
from transformer.plots.labels import percent, visible
from transformer.plots.padding import padding_map, padding_width, waste_bars
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons.between_parts import heading, segment, under
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.padding import Batching
    from transformer.text.tokenizer import Piece

WAYS = ("a fixed length", "the longest of all", "batches as typed", "batches by length")
SIZES = (2, 3, 4, 8)
FIXED = (16, 32, 64, 128, 256)
MOST, COLUMNS = 16, 20
"""Sentences of a batch, and columns of the table of ids."""


def show(view: View) -> None:
    """Draw the section."""
    with section(
        "padding",
        "How do sentences of different lengths share a batch?",
        "A batch is a rectangle of piece ids, so shorter sentences are filled up with `<PAD>`. A **mask** of ones and "
        "zeros tells real pieces from padding, and attention gives the zeros no weight. Padding is computed all the "
        "same: the fewer columns, the less is wasted, and of the score tables, which grow with the square of the "
        "length, most. So batches are made of sentences of about the same length.",
        r"\text{wasted positions} = 1 - \frac{\sum_i n_i}{B N}, \qquad "
        r"\text{wasted scores} = 1 - \frac{\sum_i n_i^2}{B N^2}",
        "Section 5.1",
    ):
        texts = _texts(view)
        if not texts:
            st.html(markup.notice("info", "No line holds a sentence that the model can read. Type one."))
            return
        pieces = [view.translator.tokenizer.pieces(text) for text in texts]
        ways = _ways(view, [len(one) for one in pieces])
        chosen = str(segment("Padded to", WAYS, "masks_way", WAYS[1]))
        _mask(view, texts, pieces, ways[chosen])
        _waste(view, ways, chosen)
        attempt(
            "Add one very long sentence: what does it do to the others, padded to the longest of all, and in batches "
            "by length? Then look at what a fixed length wastes."
        )


def _texts(view: View) -> list[str]:
    """The sentences of the batch: what was typed, line by line; at first the page's sentence and the examples."""
    preset = "\n".join(dict.fromkeys(" ".join(text.split()) for text in (view.sentence, *_alternating(view))))
    if st.session_state.get("masks_batch") in (None, st.session_state.get("masks_batch_preset")):
        st.session_state["masks_batch"] = preset  # nothing of one's own typed: follow the sentence and the model
    st.session_state["masks_batch_preset"] = preset
    typed = st.text_area(
        f"Sentences, one a line, at most {MOST}",
        key="masks_batch",
        height=164,
        max_chars=6000,
        persist_state="session",
    )
    lines = [line.strip() for line in (typed or "").splitlines() if line.strip()]
    longest, tokenizer = view.translator.max_source_pieces, view.translator.tokenizer
    fitting = [line for line in lines if 2 < len(tokenizer.encode(line)) <= longest]
    left_out = len(lines) - len(fitting[:MOST])
    if left_out:
        st.html(
            markup.notice(
                "warning",
                f"{left_out} of {len(lines)} lines are left out: more than {MOST} lines, longer than {longest} pieces, "
                "or without anything to read.",
            )
        )
    return fitting[:MOST]


def _alternating(view: View) -> list[str]:
    """The model's examples, a long one and a short one in turn: as sentences come, in no order of length."""
    by_length = sorted(view.card.examples, key=len)
    return [by_length.pop(-1 if turn % 2 == 0 else 0) for turn in range(len(by_length))]


def _ways(view: View, lengths: list[int]) -> dict[str, Batching]:
    """Every way of making batches, with the two numbers that are chosen for them."""
    from transformer.lessons.padding import padded_to, padded_to_longest

    most = view.translator.max_source_pieces
    widths = tuple(width for width in (*FIXED, most) if max(lengths) <= width <= most)
    with st.container(horizontal=True, key="masks_padding_pickers", gap="medium"):
        fixed = int(segment("Fixed length", tuple(dict.fromkeys(widths)), "masks_fixed", widths[-1]))
        size = int(segment("Sentences in a batch", SIZES, "masks_size", SIZES[1]))
    found = (
        padded_to(lengths, fixed),
        padded_to_longest(lengths),
        padded_to_longest(lengths, size),
        padded_to_longest(lengths, size, by_length=True),
    )
    return dict(zip(WAYS, found, strict=True))


def _mask(view: View, texts: list[str], pieces: list[tuple[Piece, ...]], made: Batching) -> None:
    (pad,) = view.translator.tokenizer.target_pieces([PAD_ID])
    batches = made.ids([[piece.id for piece in one] for one in pieces])
    rows = [
        [[*pieces[index], *[pad] * (width - len(pieces[index]))] for index in batch]
        for batch, width in zip(made.batches, made.widths, strict=True)
    ]
    heading(
        "The mask: 1 at a real piece, 0 at padding",
        "One row a sentence. Every query of a sentence is given the same row of ones and zeros over its keys.",
    )
    picture(
        padding_map(
            [ids != PAD_ID for ids in batches],
            [[f"{index + 1}. {texts[index]}" for index in batch] for batch in made.batches],
            [[[piece.label for piece in row] for row in batch] for batch in rows],
            view.colours,
        ),
        "masks_padding",
        f"{view.card.name} attention mask",
        f"Map of ones and zeros: {len(texts)} sentences in {len(batches)} batches; {percent(made.wasted_positions)} of "
        "the positions are padding.",
        padding_width(max(made.widths)),
    )
    with st.expander("The ids that the model is given"):
        for number, batch in enumerate(rows, start=1):
            st.html(_ids(number, batch))


def _ids(number: int, rows: list[list[Piece]]) -> str:
    """One batch as a table, a piece and its id in each cell."""
    width = len(rows[0])
    shown = min(width, COLUMNS)
    more = f" · the first {shown} of {width} columns" if width > shown else ""
    body = "".join("<tr>" + "".join(_cell(piece) for piece in row[:shown]) + "</tr>" for row in rows)
    head = "".join(f'<th class="number">{place}</th>' for place in range(1, shown + 1))
    return (
        f'<div class="scroll"><table class="figures"><caption>Batch {number}: {len(rows)} × {width}{more}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(piece: Piece) -> str:
    quiet = ' style="color:var(--muted)"' if piece.id == PAD_ID else ""
    return (
        f'<td class="number"{quiet}>{piece.id}<br><small style="color:var(--muted);font-family:var(--mono)">'
        f"{markup.escape(visible(piece.label))}</small></td>"
    )


def _waste(view: View, ways: dict[str, Batching], chosen: str) -> None:
    heading(
        "What goes to padding",
        "Positions: what embeddings, feed-forward networks and projections compute. Cells: what one head of one "
        "encoder layer computes in its tables of scores, queries × keys.",
    )
    names = list(ways)
    left, right = st.columns([5, 6], gap="medium")
    with left:
        picture(
            waste_bars(
                names,
                np.array([way.wasted_positions for way in ways.values()]),
                np.array([way.wasted_scores for way in ways.values()]),
                names.index(chosen),
                view.colours,
            ),
            "masks_waste",
            f"{view.card.name} padding wasted",
            "Bars: share of positions and of score cells that go to padding. "
            + "; ".join(
                f"{name} {percent(way.wasted_positions)} and {percent(way.wasted_scores)}" for name, way in ways.items()
            ),
            360,
        )
    with right:
        st.html(
            markup.table(
                f"The same {len(next(iter(ways.values())).lengths)} sentences",
                ("padded to", "batches", "positions", "padding", "score cells", "wasted"),
                [
                    (
                        name,
                        ", ".join(
                            f"{len(batch)} × {width}" for batch, width in zip(way.batches, way.widths, strict=True)
                        ),
                        f"{way.positions:,}",
                        percent(way.wasted_positions),
                        f"{way.scores:,}",
                        percent(way.wasted_scores),
                    )
                    for name, way in ways.items()
                ],
                numeric=(2, 3, 4, 5),
            )
        )
        under("A cell is wasted if its query or its key is padding.")
