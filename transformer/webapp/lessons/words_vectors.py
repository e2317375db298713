"""From text to vectors: pieces and ids, the embedding, who lies near whom, and how that came about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.errors import CheckpointError
from transformer.plots.embeddings import cosine_map, neighbour_bars, piece_scatter, vector_map
from transformer.plots.labels import percent, visible
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import snapshots_cached
from transformer.webapp.lessons import words_cached as cached
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.widgets import keep_among
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.text.tokenizer import Piece

STAGES = ("row of E", "times √D", "position", "sum")
MOST_ON_MAP = 24
"""Pieces of a text that are laid out; more could not be told apart."""
MOST_COMPARED = 12
"""Pieces whose cosines are written out."""
LOW_TABLE = 12
"""Rows from which on a table scrolls in a frame of its own."""
TALL = 420
"""Pixels of that frame."""


def pieces(view: View) -> None:
    """Text, pieces, ids."""
    with section(
        "pieces",
        "How does text become numbers?",
        idea="The model knows no letters and no words. It knows a fixed list of *pieces*, each with a number, its "
        "*id*. A frequent word is one piece; a rarer one is put together from several. The list was learned from the "
        "training text of both languages before the training of the model began.",
        source="Section 5.1",
    ):
        found = cached.lookup(view.translator, view.sentence)
        rows = [
            (str(place), typed, visible(piece.label), visible(piece.raw), str(piece.id))
            for place, (piece, typed) in enumerate(zip(found.pieces, found.typed, strict=True))
        ]
        heads = ("position", "you typed", "piece", "as stored", "id")
        with st.container(height=TALL if len(rows) > LOW_TABLE else "content", border=False):
            st.html(markup.table(f"Your sentence as {len(rows)} pieces", heads, rows, numeric=(0, 4)))
        words = len(view.sentence.split())
        st.html(
            f'<div class="under">{words} {"word" if words == 1 else "words"} between spaces became '
            f"{len(rows) - 2} pieces, and two were put around them: {markup.escape('<SOS>')} where the sentence starts "
            f"and {markup.escape('<EOS>')} where it ends. In the column “piece” a leading · goes on with a word; “as "
            f"stored”, ▁ is the space before a word. The whole list has {found.vocabulary:,} pieces."
            "</div>"
        )
        unknown = [piece.label for piece in found.pieces if piece.unknown]
        if unknown:
            st.html(
                markup.notice(
                    "warning",
                    f"Not on the list: {' '.join(dict.fromkeys(unknown))}. The model reads id 1, <UNK>, in each place.",
                )
            )
        attempt(
            "Type a long or rare word, or a name, into the box “Sentence” above. How many pieces is it? Then write it "
            "with another first letter, small or capital: to the model these are other pieces."
        )


def lookup(view: View) -> None:
    """The rows of the embedding, scaled, and with the position added."""
    found = cached.lookup(view.translator, view.sentence)
    width = found.rows.shape[1]
    with section(
        "lookup",
        "What is a piece to the model?",
        idea=f"An id only says which row of a matrix *E* to take, the *embedding*. Its {found.vocabulary:,} rows of "
        f"*D* = {width} numbers were learned; they are {percent(found.share)} of all the parameters of this model. The "
        "row is multiplied by √*D*, the vector of its position is added, and that sum is all that the first layer gets "
        "to see of the piece.",
        formula=r"x_t = \sqrt{D}\; E_{\mathrm{id}_t} + PE_t",
        source="Sections 3.4 and 3.5",
    ):
        stage = st.segmented_control(
            "Show", STAGES, default=STAGES[3], key="words_stage", required=True, persist_state="session"
        )
        values = dict(zip(STAGES, (found.rows, found.scaled, found.positions, found.entering), strict=True))
        names = [piece.label for piece in found.pieces]
        picture(
            vector_map(values[stage], names, view.colours),
            "words_vectors",
            f"{view.card.name} vectors {stage}",
            f"Coloured cells: the vectors of {len(names)} pieces, one row each ({stage})",
            640,
        )
        st.html(
            '<div class="under">One row a piece, one cell a number: the stronger the colour, the further from zero; '
            "blue above, grey below.</div>"
        )
        lengths = [np.linalg.norm(part, axis=1) for part in values.values()]
        with st.expander("The lengths of these vectors"):
            st.html(
                markup.table(
                    "Length: the square root of the sum of all squares",
                    ("", "piece", *STAGES),
                    [
                        (str(place), visible(name), *(f"{length[place]:.2f}" for length in lengths))
                        for place, name in enumerate(names)
                    ],
                    numeric=(0, 2, 3, 4, 5),
                )
            )
        row, scaled, position = (float(length.mean()) for length in lengths[:3])
        least = int(np.argmin(lengths[3] / np.maximum(lengths[1], 1e-9)))
        if lengths[3][least] < 0.2 * lengths[1][least]:
            st.html(
                f'<div class="under">The row of “{markup.escape(visible(names[least]))}” is nearly white in the sum: '
                f"its learned vector, {lengths[1][least]:.2f} long, and its position, {lengths[2][least]:.2f} long, "
                f"point against each other, and {lengths[3][least]:.2f} is left.</div>"
            )
        st.html(
            '<div class="under">The paper does not say why it multiplies by √D. Measured here: a row is '
            f"{row:.2f} long on average, a position {position:.2f}; multiplied by {found.scale:.2f}, the piece is "
            f"{scaled:.2f} long, and the position does not drown it.</div>"
            if position
            else f'<div class="under">A row is {row:.2f} long on average, {scaled:.2f} after the multiplication.</div>'
        )
        st.html(markup.checks_line(found.checks))
        attempt(
            "Write a sentence with the same word in two places. In which of the four pictures are the two rows equal, "
            "and in which are they not?"
        )


def neighbours(view: View) -> None:
    """The pieces nearest to a chosen one."""
    with section(
        "neighbours",
        "Which pieces are alike to the model?",
        idea="Nobody told the model what a piece means. Training moved the rows of *E* so that they help to "
        "translate, and pieces that are used alike were moved alike. The *cosine* of the angle between two rows says "
        "how alike their directions are: 1 is the same direction, 0 is nothing in common.",
        formula=r"\cos(a, b) = \frac{a \cdot b}{\lVert a \rVert\, \lVert b \rVert}",
        source="Section 3.4 has the learned embeddings; the cosine is not in the paper",
    ):
        left, right = st.columns(2, vertical_alignment="bottom")
        with right:
            typed = st.text_input(
                "Pieces of",
                key="words_own",
                persist_state="session",
                placeholder="Empty: your sentence. Or type a word",
            )
        chosen, note = _chosen(view, typed or "", 10_000)
        labels = {piece.id: _name(piece) for piece in chosen}
        ids = tuple(labels)
        with left:
            keep_among("words_piece", ids, ids[0])
            number = st.selectbox(
                "Piece", ids, format_func=lambda one: labels[one], key="words_piece", persist_state="session"
            )
        _say(note)
        found = cached.neighbours(view.translator, int(number or ids[0]))
        names = [piece.label for piece in found.nearest]
        picture(
            neighbour_bars(names, found.cosines, found.mean, found.spread, view.colours),
            "words_neighbours",
            f"{view.card.name} neighbours",
            f"Bars: the {len(names)} pieces nearest to '{visible(found.piece.label)}', the nearest is "
            f"'{visible(names[0])}' with cosine {found.cosines[0]:.2f}",
            360,
        )
        chance = view.translator.config.d_model**-0.5
        st.html(
            f'<div class="under">Out of {found.compared:,} pieces. Most have a cosine of {found.mean:.2f} ± '
            f"{2 * found.spread:.2f} with this one (mean and twice the standard deviation, the shaded band); random "
            f"directions of {view.translator.config.d_model} numbers would lie at 0 ± {2 * chance:.2f}. Pieces that "
            "were seldom seen in training had little to learn from, and may be among the nearest by chance.</div>"
        )
        attempt(
            "Choose a word for a number, a colour or an animal, then a word like “the”. Whose neighbours make sense "
            "to you? Do words of the other language come up?"
        )


def map_and_training(view: View) -> None:
    """A plane with chosen pieces, and the same pieces early in training."""
    with section(
        "map",
        "Where do these pieces lie?",
        idea=f"Nobody can look into {view.translator.config.d_model} dimensions. The two directions along which the "
        "chosen pieces differ most (*principal components*) make a plane, and the pieces are drawn where they fall on "
        "it. Rows are brought to length one first, so that, as for the cosine, only the direction counts.",
    ):
        left, right = st.columns([3, 2], vertical_alignment="bottom")
        with left:
            typed = st.text_input(
                "Words",
                key="words_map",
                persist_state="session",
                placeholder="Empty: those of your sentence. Or type some, with spaces between",
            )
        with right:
            companions = st.select_slider(
                "Neighbours of each", range(6), 2, key="words_companions", persist_state="session"
            )
        chosen, note = _chosen(view, typed or "", MOST_ON_MAP)
        ids = tuple(piece.id for piece in chosen)
        _say(note)
        found = cached.piece_map(view.translator, ids, int(companions))
        picture(
            piece_scatter(
                found.points,
                [piece.label for piece in found.pieces],
                found.asked,
                found.neighbour_of,
                found.shares,
                view.colours,
            ),
            "words_plane",
            f"{view.card.name} map of pieces",
            f"Points: {found.asked} pieces and {len(found.pieces) - found.asked} neighbours of theirs in a plane",
            420,
        )
        shown = sum(found.shares)
        st.html(
            '<div class="under">Blue: the pieces that were asked for; grey, with a line to theirs: nearest '
            f"neighbours. The plane shows {percent(shown)} of how they differ, so what looks near here can be far "
            "apart in the other dimensions. The line says who really is near.</div>"
        )
        attempt(
            "Type words of two kinds, some animals and some colours for instance, and set the neighbours to 0. Do they "
            "part into two groups?"
        )
    _training(view, ids[:MOST_COMPARED])


def _training(view: View, ids: tuple[int, ...]) -> None:
    with section(
        "organised",
        "Was it so from the beginning?",
        idea="Before the training every row of *E* is drawn at random, and no piece is nearer to another than by "
        "chance. Use brings order into them. Below are the same pieces as in the map, early in this model's training "
        "and at its end.",
        source="Section 3.4",
    ):
        steps = snapshots_cached.steps(view.card)
        if not steps:
            st.html(
                markup.notice(
                    "info",
                    f"The model {view.card.name} keeps no snapshots of its training (a folder snapshots beside its "
                    f"weights), so its beginning cannot be shown.{snapshots_cached.elsewhere()} A recipe names those "
                    "that shall be kept under checkpoint.snapshots.",
                )
            )
            return
        step = steps[0]
        if len(steps) > 1:
            keep_among("words_step", steps, steps[0])
            step = st.select_slider(
                "Early: after this many updates", steps, steps[0], key="words_step", persist_state="session"
            )
        try:
            found = cached.organised(view.card, view.translator, int(step), ids)
        except (CheckpointError, OSError) as error:
            st.html(markup.notice("error", f"The snapshot cannot be opened. What is wrong: {error}"))
            return
        names = [piece.label for piece in found.pieces]
        halves = ((f"After {step:,} updates", found.first, "early"), ("The finished model", found.last, "late"))
        for place, (title, matrix, word) in zip(st.columns(2), halves, strict=True):
            with place:
                st.html(f"<b>{title}</b>")
                picture(
                    cosine_map(matrix, names, view.colours),
                    f"words_cosines_{word}",
                    f"{view.card.name} cosines {word}",
                    f"Cells: the cosine of every two of {len(names)} pieces, {word} in training",
                    360,
                )
        early, late = found.spreads
        agreement = (
            ""
            if found.agreement is None
            else f" The correlation of the early with the late cosines is {found.agreement:.2f}: 0 is no "
            "resemblance, 1 is the same pattern."
        )
        st.html(
            f'<div class="under">Two different pieces have a cosine of {early:.2f} early and {late:.2f} at the end '
            "(root mean square over the pairs above); random directions would have "
            f"{found.chance:.2f} (1/√D).{agreement}</div>"
        )
        st.html(
            markup.table(
                "The nearest of all pieces",
                ("piece", f"after {step:,} updates", "at the end"),
                [
                    (visible(piece.label), visible(first.label), visible(last.label))
                    for piece, (first, last) in zip(found.pieces, found.nearest, strict=True)
                ],
            )
        )
        attempt("Move the slider to the right. After how many updates does the nearest piece begin to make sense?")


def _chosen(view: View, typed: str, most: int) -> tuple[tuple[Piece, ...], str]:
    """The distinct pieces of a text, or of the sentence if it has none, and what there is to say about that."""
    text = typed.strip()
    known = cached.pieces_of(view.translator, text) if text else ()
    note = "" if known or not text else "There is nothing in it that the model can read; your sentence is used."
    distinct: dict[int, Piece] = {}
    for piece in known or cached.pieces_of(view.translator, view.sentence):
        distinct.setdefault(piece.id, piece)
    if len(known) > len(text.split()):
        note = "A word of several pieces has no vector of its own: its pieces are taken one by one."
    if len(distinct) > most:
        note = f"{note} Of {len(distinct)} pieces the first {most} are taken.".strip()
    return tuple(distinct.values())[:most], note


def _say(note: str) -> None:
    if note:
        st.html(f'<div class="under">{markup.escape(note)}</div>')


def _name(piece: Piece) -> str:
    return f"{visible(piece.label)}, not on the list: <UNK>" if piece.unknown else visible(piece.label)
