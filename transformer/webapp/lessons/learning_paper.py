"""What the paper measured, and this model's own rows beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from transformer.plots.losses import Size, size_points
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons import learning_cached as cached
from transformer.webapp.lessons.learning_pair import Pair
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.paper import Result, Variation

_HEADS = ("", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "ε_ls", "steps", "PPL", "BLEU", "million param.")
_FIELDS = ("layers", "d_model", "feed_forward", "heads", "d_k", "d_v", "dropout", "smoothing", "steps")


def show(view: View, pair: Pair) -> None:
    """Tables 2 and 3, with the model's own rows."""
    from transformer.lessons.paper import FINDINGS, TABLE_2, TABLE_3, own_variation

    with section(
        "paper",
        "What did the paper measure, and where does this model stand?",
        idea="The paper compares its model with those of its time (Table 2), and takes it apart: change one thing, "
        "train again, measure (Table 3). This model's own rows stand beside them, but **not for comparison of "
        "quality**: it was trained on other, much smaller data and tested on other sentences. What compares is the "
        "shape.",
        source="Section 6, Tables 2 and 3 (arXiv:1706.03762v7)",
    ):
        st.html(
            markup.table(
                "Table 2: BLEU on newstest2014 (WMT 2014), and floating-point operations spent on training",
                ("model", "EN-DE", "EN-FR", "training EN-DE", "training EN-FR"),
                [_result(row) for row in TABLE_2],
                numeric=(1, 2, 3, 4),
            )
        )
        st.html(
            '<div class="under">An empty cell is empty in the paper, which prints one cost for both languages of its '
            "own models. Its Section 6.1 speaks of 41.0 for the big model on French where the table and the abstract "
            "have 41.8. The paper's operations are estimates: hours times processors times 9.5 TFLOPS.</div>"
        )
        _own_scores(view)
        own = own_variation(view.translator, cached.history(view.card))
        st.html(
            markup.table(
                "Table 3: variations of base, measured on newstest2013, English to German; last, this model",
                _HEADS,
                [*(_variation(row) for row in TABLE_3), _own_row(own)],
                numeric=tuple(range(1, len(_HEADS))),
            )
        )
        st.html(
            '<div class="under">Only what a row changes is printed, as in the paper; all else is as in base. PPL and '
            "BLEU are those of the dev set. PPL is per piece, so it depends on how text is cut into pieces. This "
            "model: PPL is exp(dev loss) at the end of its training, before weights were averaged, if they were; BLEU "
            "is that of the finished model on its own dev sentences.</div>"
        )
        st.html(
            "<b>Larger models are better, on the whole</b> <span class='under'>rows C, base and big of Table 3; big "
            "also differs in dropout and steps</span>"
        )
        sized = [row for row in TABLE_3 if row.row in ("base", "C", "big")]
        picture(
            size_points([_size(row) for row in sized], view.colours),
            "learning_sizes",
            "paper sizes",
            "Points: BLEU on newstest2013 against million parameters for base, big and the rows C of Table 3",
            420,
        )
        st.html(
            markup.table(
                "What the groups of rows show",
                ("", "finding (Section 6.2)"),
                [(letter, text) for letter, text in FINDINGS.items()],
            )
        )
        attempt(
            "Compare base with the row D whose ε_ls is 0.0: the perplexity is better, the BLEU worse. Then set ε to 0 "
            "in the section on what a guess costs."
        )


def _own_scores(view: View) -> None:
    from transformer.lessons.paper import own_scores

    scores = own_scores(view.translator.meta)
    if not scores:
        st.html(markup.notice("info", f"{view.card.name} has no scores of its own in its config.json."))
        return
    training = view.translator.meta.get("training")
    training = training if isinstance(training, dict) else {}
    seconds, hardware = training.get("seconds"), training.get("hardware")
    about = ""
    if isinstance(seconds, (int, float)) and hardware:
        about = f", trained in {seconds / 60:.0f} minutes on {hardware}"
    st.html(
        markup.table(
            f"This model, {view.card.name} ({view.card.direction}){about}",
            ("sentences", "measure", "value", "how many", "signature"),
            [
                (
                    score.part,
                    score.name,
                    f"{score.value:.2f}",
                    "" if score.sentences is None else f"{score.sentences:,}",
                    score.signature,
                )
                for score in scores
            ],
            numeric=(2, 3),
        )
    )


def _result(row: Result) -> tuple[str, ...]:
    return (
        row.model,
        *("" if value is None else f"{value:g}" for value in (row.german, row.french)),
        *("" if cost is None else _power(cost) for cost in (row.german_cost, row.french_cost)),
    )


def _variation(row: Variation) -> tuple[str, ...]:
    """A row as the paper prints it: only what differs from base."""
    named = row.row if row.row in ("base", "big") else f"({row.row})"
    printed = {*_FIELDS} if row.row == "base" else {*row.changed}
    if "encoder_layers" in printed or row.row == "big":
        printed.add("layers")
    shown = [_value(row, name) if name in printed else "" for name in _FIELDS]
    if row.note:
        named += f" {row.note}"
    return (named, *shown, *_measured(row))


def _own_row(row: Variation) -> tuple[str, ...]:
    return (f"this model: {row.row}", *(_value(row, name) for name in _FIELDS), *_measured(row))


def _value(row: Variation, name: str) -> str:
    value = getattr(row, name)
    if value is None:
        return ""
    return f"{value:,}" if name == "steps" else str(value)


def _measured(row: Variation) -> tuple[str, str, str]:
    millions = (
        "" if row.parameters is None else f"{row.parameters:.1f}" if row.parameters < 20 else f"{row.parameters:.0f}"
    )
    return (
        "" if row.perplexity is None else f"{row.perplexity:.2f}",
        "" if row.bleu is None else f"{row.bleu:.1f}",
        millions,
    )


def _size(row: Variation) -> Size:
    names = {"layers": "N", "encoder_layers": "N", "d_model": "d_model", "feed_forward": "d_ff"}
    changed = "" if row.row in ("base", "big") else next(name for name in row.changed if name in names)
    name = row.row if not changed else f"{names[changed]} = {getattr(row, changed)}"
    told = f"{name}: {row.parameters:.0f} million parameters, BLEU {row.bleu}, perplexity {row.perplexity}"
    return Size(
        name,
        told,
        float(row.parameters or 0.0),
        float(row.bleu or 0.0),
        base=row.row == "base",
        below=changed == "encoder_layers",
    )


def _power(value: float) -> str:
    """1.0·10²⁰"""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}·10{''.join('⁰¹²³⁴⁵⁶⁷⁸⁹'[int(digit)] for digit in str(int(exponent)))}"
