"""Positions: why order would be lost without them, the table, its clocks, and what can be read off it."""

from __future__ import annotations

import math

import numpy as np
import streamlit as st

from transformer.errors import InputError
from transformer.plots.positions import clocks, order_bars, position_map, product_lines, rotation_map
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import words_cached as cached
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.widgets import keep_among
from transformer.webapp.workbench.pictures import picture

PAIR = ("the dog chased the cat", "the cat chased the dog")
PAIRS = ("the dog and the cat", "your sentence, its words turned round")
ROWS = 64
"""Positions that are drawn, unless the sentence is longer."""
MOST_ROWS = 128
SHIFTS = (1, 2, 3, 5, 8, 10, 16, 20, 32)


def order(view: View) -> None:
    """Two sentences of the same words, with positions on and off."""
    from transformer.lessons.positions import turned_round

    with section(
        "order",
        "What would be lost without positions?",
        idea="Attention adds up what it finds, and a sum does not care about the order of its terms. Without positions "
        "a sentence is a bag of pieces: put them in another order (a *permutation* Π) and the encoder's outputs come "
        "in that order, but each is the same as before. So who chased whom could not be told.",
        formula=r"\mathrm{Encoder}(\Pi X) = \Pi\,\mathrm{Encoder}(X) \quad \text{for every } \Pi,"
        r"\ \text{if no positions are added}",
        source="Section 3.5 (that positions are needed)",
    ):
        usual = PAIRS[0] if view.translator.languages.get("source_code") == "en" else PAIRS[1]
        if st.session_state.get("words_pair_of") != view.card.name:  # another model may read another language
            st.session_state["words_pair_of"] = view.card.name
            st.session_state["words_pair"] = usual
        which = st.segmented_control("Sentences", PAIRS, key="words_pair", required=True, persist_state="session")
        first, second = PAIR if which == PAIRS[0] else (view.sentence, turned_round(view.sentence))
        if first.split() == second.split():
            st.html(
                markup.notice(
                    "info",
                    "Turned round, this sentence stays as it is. Type one of at least two different words, or choose "
                    f"“{PAIRS[0]}”.",
                )
            )
            return
        try:
            found = cached.order_effect(view.translator, first, second, view.search)
        except InputError:
            st.html(
                markup.notice(
                    "info",
                    "In the other order this sentence is cut into other pieces, so the two cannot be compared piece "
                    f"by piece. Choose “{PAIRS[0]}”, or type a sentence of plain words.",
                )
            )
            return
        same = found.translations_off[0] == found.translations_off[1]
        st.html(
            markup.table(
                "What the model makes of both",
                ("sentence", "positions on", "positions off"),
                [
                    (text, on or "(empty)", off or "(empty)")
                    for text, on, off in zip(
                        (first, second), found.translations_on, found.translations_off, strict=True
                    )
                ],
            )
        )
        names = [piece.label for piece in found.first]
        picture(
            order_bars(names, found.moved_on, found.moved_off, found.typical, view.colours),
            "words_order",
            f"{view.card.name} order",
            f"Bars for {len(names)} pieces: how far the encoder's output moves when the words change places, at most "
            f"{found.moved_on.max():.2f} with positions and {found.moved_off.max():.0e} without",
            480,
        )
        st.html(
            '<div class="under">Each bar: how far the encoder\'s output for a piece lies from its output for the same '
            "piece in the other sentence, as a share of its length. With positions off the largest is "
            f"{found.moved_off.max():.0e}, the rounding of the arithmetic, and the decoder writes "
            f"{'the same for both' if same else 'nearly the same for both'}. Off means that zeros are added instead of "
            "the encoder's positions; the decoder keeps its own. This model was trained with positions, so what it "
            "writes without them is no measure of a model that never had any.</div>"
        )
        if view.translator.config.positions == "none":
            st.html(markup.notice("info", "This model was built without positions: on and off are the same for it."))
        attempt(
            "Choose your own sentence with its words turned round. Which pieces move most when positions are on: those "
            "that change places with another, or those that keep theirs?"
        )


def table(view: View) -> None:
    """The table of positions as a map."""
    length = _length(view)
    found = cached.position_table(view.translator, length)
    width = found.table.shape[1]
    with section(
        "positions",
        "What does the model add so that order counts?",
        idea="To every piece it adds a vector that belongs to the position alone. The paper takes sines in the even "
        "dimensions and cosines in the odd ones. The first dimensions swing quickly from one position to the next; the "
        "further right, the slower.",
        formula=r"PE_{(pos,\,2i)} = \sin\!\left(\frac{pos}{10000^{2i/D}}\right), \quad "
        r"PE_{(pos,\,2i+1)} = \cos\!\left(\frac{pos}{10000^{2i/D}}\right)",
        source="Section 3.5",
    ):
        if not _has_positions(view):
            return
        if found.kind == "learned":
            st.html(
                markup.notice(
                    "info",
                    "The positions of this model were learned, as in row E of the paper's Table 3: the formula is not "
                    "theirs, and the picture need not show any waves.",
                )
            )
        picture(
            position_map(found.table, view.colours, len(view.record.source)),
            "words_positions",
            f"{view.card.name} positions",
            f"Coloured cells: the vectors of the first {len(found.table)} positions, {width} numbers each",
            480,
        )
        st.html(
            f'<div class="under">{len(found.table)} of the {found.longest:,} positions that this model has, one row '
            "each; blue is above zero, grey below.</div>"
        )
        attempt(
            "Go down the first column, then one in the middle, then the last. In which of them could you tell "
            "position 3 from position 4, and in which the beginning of the sentence from its end?"
        )


def clock(view: View) -> None:
    """Pairs of dimensions as clocks that run through the positions."""
    from transformer.lessons.positions import hands, spaced_pairs

    found = cached.position_table(view.translator, ROWS)
    width = found.table.shape[1]
    with section(
        "clocks",
        "How do fast and slow dimensions work together?",
        idea="Two neighbouring dimensions, a sine and a cosine of the same angle, are the hand of a clock. The first "
        "hand turns quickly, like one for the seconds; the last one barely moves, like one for the years. One hand "
        "alone comes back to the same place; all together they never show the same time twice in a sentence.",
        formula=r"\text{angle of pair } i = pos \,/\, 10000^{2i/D}, \quad "
        r"\text{one turn every } 2\pi \cdot 10000^{2i/D} \text{ positions}",
        source="Section 3.5 (wavelengths from 2π to 10000 · 2π)",
    ):
        if not _is_sinusoidal(view):
            return
        pairs = spaced_pairs(width)
        names = [
            f"dimensions {2 * pair}, {2 * pair + 1}<br>a turn every<br>{_positions(found.wavelengths[pair])} positions"
            for pair in pairs
        ]
        picture(
            clocks(hands(found.table, pairs), names, view.colours),
            "words_clocks",
            f"{view.card.name} clocks",
            f"{len(pairs)} clocks for pairs of dimensions, from the fastest, a turn every "
            f"{_positions(found.wavelengths[0])} positions, to the slowest",
            720,
        )
        st.html(
            '<div class="under">Read from the model\'s own table: the sine points to the right, the cosine '
            f"upwards. {len(pairs)} of {width // 2} pairs.</div>"
        )
        attempt(
            "Press Play. After how many positions has the first hand gone round once? How far has the last one come?"
        )


def distance(view: View) -> None:
    """Dot products of positions."""
    length = _length(view)
    with section(
        "distance",
        "How can the model see how far apart two pieces are?",
        idea="Attention compares vectors by dot products. The dot product of two of these position vectors depends on "
        "their distance alone, wherever in the sentence they stand, and it is largest for a position with itself. "
        "Away from there it falls, though not evenly.",
        formula=r"PE_p \cdot PE_{p+k} = \sum_{i=0}^{D/2-1} \cos\!\left(\frac{k}{10000^{2i/D}}\right)",
        source="Section 3.5 has the table; the sum follows from it",
    ):
        if not _has_positions(view):
            return
        found = cached.products(view.translator, length)
        count = len(found.matrix)
        if count < 2:
            st.html(markup.notice("info", "This model has a single position: there is nothing to compare."))
            return
        places = tuple(range(count))
        keep_among("words_place", places, min(20, count - 1))
        chosen = st.select_slider("Position", places, min(20, count - 1), key="words_place", persist_state="session")
        picture(
            product_lines(found.matrix, int(chosen), view.colours),
            "words_products",
            f"{view.card.name} position {chosen}",
            f"Lines: dot products of position {chosen} with every other; the highest is with itself",
            420,
        )
        apart = [k for k in (0, 1, 2, 3, 5, 10, 20, 50) if k < count]
        st.html(
            markup.table(
                "Mean dot product by distance",
                ("distance", *map(str, apart)),
                [("product", *(f"{found.by_distance[k]:.1f}" for k in apart))],
                numeric=tuple(range(1, len(apart) + 1)),
            )
        )
        st.html(
            f'<div class="under">Over all pairs of the first {count} positions, a product differs from the mean of '
            f"its distance by {found.spread:.1g} at most. Grey: the same for other positions. The model does not take "
            "these products themselves: each head compares queries and keys, which it learns to make from position "
            "and piece together.</div>"
        )
        if view.translator.config.positions == "learned":
            st.html(
                markup.notice(
                    "info",
                    "The positions of this model were learned, and the formula is not theirs: whether their products "
                    "depend on the distance alone is for the picture to say.",
                )
            )
        attempt("Move the slider: the same curve moves along. At an edge half of it is cut off.")


def shift(view: View) -> None:
    """The rotation that carries every position k places on."""
    with section(
        "shift",
        "How does the model look “three to the left”?",
        idea="To move every hand on by the time of *k* positions is to turn each by an angle of its own, and that "
        "angle does not depend on where it stood. So one matrix *R* carries every position *k* places on. The authors "
        "chose sines because they expected that this would make it easy to learn to look at a fixed distance.",
        formula=r"PE_{pos+k} = R_k\, PE_{pos}, \quad R_k = \mathrm{diag}\begin{pmatrix} \cos k\omega_i & \sin "
        r"k\omega_i \\ -\sin k\omega_i & \cos k\omega_i \end{pmatrix}, \quad \omega_i = 10000^{-2i/D}",
        source="Section 3.5",
    ):
        if not _is_sinusoidal(view):
            return
        offered = tuple(k for k in SHIFTS if k < view.translator.config.max_length)
        keep_among("words_shift", offered, offered[0])
        usual = 3 if 3 in offered else offered[0]
        offset = st.select_slider("k", offered, usual, key="words_shift", persist_state="session")
        found = cached.shift(view.translator, int(offset))
        picture(
            rotation_map(found.rotation, view.colours),
            "words_rotation",
            f"{view.card.name} rotation {offset}",
            f"The first numbers of the rotation by {offset} positions: blocks of two by two along the diagonal",
            400,
        )
        pairs = sorted({0, 1, 2, 3, len(found.angles) // 2, len(found.angles) - 1} & set(range(len(found.angles))))
        st.html(
            markup.table(
                f"By how much {offset} {'position' if offset == 1 else 'positions'} turn each pair of dimensions",
                ("dimensions", *(f"{2 * pair}, {2 * pair + 1}" for pair in pairs)),
                [("angle", *(_degrees(found.angles[pair]) for pair in pairs))],
                numeric=tuple(range(1, len(pairs) + 1)),
            )
        )
        st.html(
            f'<div class="under">Tried on the model\'s own table: R · PE(pos) differs from PE(pos + {offset}) by '
            f"{found.error:.0e} at most, over {found.compared} positions and all dimensions. The table's numbers are "
            "float32, which is exact to about 6e-08. Outside of the frames R is zero everywhere.</div>"
        )
        attempt("Set k from 1 to 2: each angle is twice as large. To turn by 1 twice is to turn by 2.")


def once(view: View) -> None:
    """One table, made once and sliced."""
    found = cached.sliced(view.translator, view.sentence)
    with section(
        "once",
        "Is this computed for every sentence?",
        idea="No. The table is made once, when the model is loaded; a sentence takes its first rows, and step by step "
        "decoding takes one row a step. The sines have nothing to learn, so the table is no parameter and is not even "
        "saved with the model.",
        source="Section 3.5",
    ):
        if view.translator.config.positions == "learned":
            st.html(
                markup.notice("info", "The positions of this model were learned: they are parameters, and are saved.")
            )
        st.html(
            f'<div class="under">The table: {found.rows:,} rows of {view.translator.config.d_model} numbers, '
            f"{found.bytes / 1024:,.0f} KiB. Your sentence takes rows 0 to {found.length - 1}.</div>"
        )
        st.html(markup.checks_line(found.checks))
        attempt(
            f"The formula would go on for ever, but the table ends: this model has {found.rows:,} positions. Paste a "
            "text that is longer than that and see what the page says."
        )


def _length(view: View) -> int:
    return max(ROWS, min(len(view.record.source), MOST_ROWS))


def _has_positions(view: View) -> bool:
    if view.translator.config.positions != "none":
        return True
    st.html(markup.notice("info", f"The model {view.card.name} was built without positions: its table is all zeros."))
    return False


def _is_sinusoidal(view: View) -> bool:
    if not _has_positions(view):
        return False
    if view.translator.config.positions == "sinusoidal":
        return True
    st.html(
        markup.notice(
            "info",
            f"The positions of the model {view.card.name} were learned: they are no sines, and this does not hold for "
            "them. Choose another model above.",
        )
    )
    return False


def _positions(wavelength: float) -> str:
    return f"{wavelength:,.1f}" if wavelength < 100 else f"{float(np.float64(f'{wavelength:.3g}')):,.0f}"


def _degrees(angle: float) -> str:
    degrees = math.degrees(angle)
    return f"{degrees:.1f}°" if degrees >= 0.05 else f"{degrees:.2g}°"
