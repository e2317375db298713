"""The causal mask switched off: which prediction then hangs on which piece, and what becomes of the translation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.analysis.maps import Axis, kind_view
from transformer.plots.costs import compared_bars, compared_width
from transformer.plots.heatmap import least_width
from transformer.plots.labels import percent, visible
from transformer.plots.masks import influence_map, influence_view
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import masks_cached as cached
from transformer.webapp.lessons.between_parts import heading, output_ids, under
from transformer.webapp.lessons.looking_parts import begun, choose, cut, number, probabilities
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.causality import Influence, Unmasked

ALL = 0
"""In the list of layers: all of them."""
NOTICED = 0.01
"""A probability that changes by less is said to be about the same."""


def show(view: View) -> None:
    """Draw the section."""
    with section(
        "leak",
        "What happens without the causal mask?",
        "Each position is asked for the next piece, and without the mask that piece stands in plain sight, one place "
        "to the right in the input. A model **trained** so would learn to copy it, score nearly perfectly in training, "
        "and be lost when it has to translate and nothing stands there yet. This model was trained with the mask, so "
        "here the leak is measured, not learned: which predictions come to depend on what they should not know?",
        r"p(y_t \mid y_1, \dots, y_{t-1}, x) \quad \text{becomes} \quad p(y_t \mid y_1, \dots, y_t, \dots, y_T, x)",
        "Section 3.2.3",
    ):
        _influence(view)
        _without(view)
        attempt(
            "Switch the mask off in one layer only, the first or the last. Then type a short sentence: the first "
            "position, which sees the whole translation at once, is often the most misled."
        )


def _influence(view: View) -> None:
    found = cached.influence(view.translator, view.sentence, output_ids(view))
    count, columns = found.masked.shape
    shorter = count < len(view.record.target_output)
    heading(
        "Which prediction moves when a piece is replaced?",
        "Each column replaces one piece of the decoder's input by what the model would have written there instead; "
        "each row is a prediction. A cell is the share of its probability that moves (half the sum of all changes). "
        "Grey, and above the dotted line: the piece comes later than the prediction may know. "
        + (f"The first {count} positions." if shorter else ""),
    )
    if columns == 0:
        under("The decoder reads <SOS> alone here: there is no piece to replace. Type a longer sentence.")
        return
    written, replaced, others = _axes(view, found)
    left, right = st.columns(2, gap="medium")
    for place, title, key, moved, hidden in (
        (left, "With the mask", "on", found.masked, found.earlier),
        (right, "Without it, in every layer", "off", found.unmasked, None),
    ):
        shown = influence_view(written, replaced, others, moved, hidden)
        with place:
            st.html(f"<b>{title}</b>")
            picture(
                influence_map(shown, replaced.labels, others, view.colours),
                f"masks_influence_{key}",
                f"{view.card.name} influence mask {key}",
                f"Map, {title.lower()}: the share of probability that moves in each of {count} predictions when one of "
                f"{columns} pieces is replaced.",
                least_width(shown),
            )
    _verdict(found)


def _axes(view: View, found: Influence) -> tuple[Axis, Axis, list[str]]:
    """The predictions, the pieces that are replaced, and what takes their places."""
    base = kind_view(view.record, "decoder", view.card.languages)
    count, columns = found.masked.shape
    written = Axis(
        "prediction of", base.rows.labels[:count], base.rows.unknown[:count], right_to_left=base.rows.right_to_left
    )
    replaced = Axis(
        "piece of the decoder's input",
        base.columns.labels[1 : columns + 1],
        base.columns.unknown[1 : columns + 1],
        right_to_left=base.columns.right_to_left,
    )
    return written, replaced, _labels(view, found.replaced_by)


def _verdict(found: Influence) -> None:
    hidden = int(found.earlier.sum())
    masked, opened = found.masked[found.earlier], found.unmasked[found.earlier]
    largest = float(masked.max())
    exact = "exactly 0" if largest == 0.0 else f"at most {largest:.0e} (rounding)" if largest < 1e-6 else f"{largest:g}"
    good = largest < 1e-6
    st.html(
        f'<div class="under"><b class="{"good" if good else "bad"}">{"✓" if good else "✗"} nothing leaks through the '
        f"mask</b> In the {hidden} cells where the replaced piece comes later than the prediction reads, what moves is "
        f"{exact}. Without the mask {int((opened > 1e-6).sum())} of these {hidden} predictions move, by "
        f"{percent(float(opened.mean()))} of their probability on average.</div>"
    )


def _without(view: View) -> None:
    ids = output_ids(view)
    layers = [ALL, *range(1, view.card.decoder_layers + 1)]
    heading(
        "Is the right piece found more easily without the mask?",
        "The translation on top of the page is fed in whole, as in training, with the mask and without it.",
    )
    chosen = int(
        choose(
            "Mask switched off in",
            layers,
            "masks_leak_layer",
            ALL,
            lambda layer: "every layer" if layer == ALL else f"layer {layer} only",
            170,
        )
    )
    found = cached.without_mask(view.translator, view.sentence, ids, None if chosen == ALL else chosen - 1)
    written = [piece.label for piece in view.record.target_output]
    usual, opened = (probabilities(x) for x in (found.changed.log_probs, found.changed.changed_log_probs))
    picture(
        compared_bars(written, usual, opened, ("with the mask", "without the mask"), view.colours),
        "masks_leak",
        f"{view.card.name} without the causal mask",
        "Bars: the probability of each piece of the translation with the causal mask and without it. Perplexity "
        f"{number(found.changed.perplexity)} and {number(found.changed.changed_perplexity)}.",
        compared_width(written),
    )
    under(_told(usual, opened))
    st.html(_positions(view, found, usual, opened))
    _free(found)


def _told(usual: np.ndarray, opened: np.ndarray) -> str:
    """What happened to the probabilities, and why."""
    up, down = int((opened > usual + NOTICED).sum()), int((opened < usual - NOTICED).sum())
    same = len(usual) - up - down
    counts = (
        f"Of {len(usual)} pieces {up} are likelier without the mask, {down} less likely and {same} about as likely as "
        "with it. "
    )
    if not up and not down:
        return counts
    if down >= up:
        return counts + (
            "So this model gains nothing from the leak. It has only ever met pieces that were already written, seems "
            "to take those to the right for written as well, and goes on from there; it never learned that the next "
            "position holds the answer."
        )
    return counts + (
        "Here the leak helps, though the model never learned to use it: later pieces also tell which of several "
        "translations is meant."
    )


def _positions(view: View, found: Unmasked, usual: np.ndarray, opened: np.ndarray) -> str:
    guesses = _labels(view, found.likeliest)
    rows = [
        (
            visible(piece.label),
            percent(float(usual[row])),
            percent(float(opened[row])),
            "the same" if found.likeliest[row] == piece.id else visible(guesses[row]),
            percent(float(found.future[row])),
            percent(float(found.answer[row])),
        )
        for row, piece in enumerate(view.record.target_output)
    ]
    heads = (
        "shall write",
        "with the mask",
        "without",
        "without, it would write",
        "weight on later positions",
        "of it on the answer",
    )
    return markup.table(
        "Position by position; weights of the self-attention without the mask, mean over its heads",
        heads,
        rows,
        numeric=(1, 2, 4, 5),
    )


def _free(found: Unmasked) -> None:
    usual = begun(found.changed.text, found.changed.finished)
    st.html(
        markup.table(
            "Greedy translation",
            ("the decoder runs", "it writes"),
            [
                ("with the mask", usual),
                ("without it, all positions anew at every step", begun(found.free_text, found.free_finished)),
                ("without it, step by step with kept keys and values", usual),
            ],
        )
    )
    long = min(len(found.free_text), len(found.changed.text)) if not found.free_finished else None
    alike = found.free_text[:long] == found.changed.text[:long]
    same = "does not change" if alike else "changes"
    under(
        f"While it translates freely, nothing stands to the right of the newest position, so there is no answer to "
        f"see; only the earlier positions see more than they were trained to, and here the translation {same}. With "
        "kept keys and values not even that: they were computed when nothing later was there, so a step has no mask "
        f"and writes the same.{cut(found.changed.finished and found.free_finished)}"
    )


def _labels(view: View, ids: tuple[int, ...]) -> list[str]:
    return [piece.label for piece in view.translator.tokenizer.target_pieces(ids)] if ids else []
