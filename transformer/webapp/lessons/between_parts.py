"""What the sections of /between share: pickers for a stack, a layer and a position, and how numbers are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st

from transformer.capture.record import Check
from transformer.plots.labels import visible
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.widgets import keep_among

STACKS = ("encoder", "decoder")


def output_ids(view: View) -> tuple[int, ...]:
    """What the decoder wrote."""
    return tuple(piece.id for piece in view.record.target_output)


def axis(view: View, stack: str) -> list[str]:
    """The pieces of a stack's positions; a position of the decoder is named by what is written there."""
    pieces = view.record.source if stack == "encoder" else view.record.target_output
    return [piece.label for piece in pieces]


def named(view: View, stack: str, position: int) -> str:
    """A position in words."""
    if stack == "encoder":
        return f"'{visible(view.record.source[position].label)}'"
    read, written = view.record.target_input[position], view.record.target_output[position]
    return f"the position that reads '{visible(read.label)}' and writes '{visible(written.label)}'"


def segment(label: str, options: Sequence[Any], key: str, usual: Any) -> Any:
    """A row of options that keeps its value for the session."""
    keep_among(key, options, usual)
    chosen = st.segmented_control(
        label, options, default=usual, key=key, required=True, persist_state="session", format_func=str
    )
    return usual if chosen is None else chosen


def stack_picker(key: str) -> str:
    """Encoder or decoder."""
    return str(segment("Stack", STACKS, f"between_{key}_stack", STACKS[0]))


def layer_picker(view: View, stack: str, key: str) -> int:
    """A layer of a stack, from 0; at first the last."""
    layers = tuple(range(1, view.card.layers(stack) + 1))
    return int(segment("Layer", layers, f"between_{key}_layer_{stack}", layers[-1])) - 1


def position_picker(view: View, stack: str, key: str) -> int:
    """A position of a stack, from 0; at first that of a piece near the beginning of the text."""
    if stack == "encoder":
        labels = [visible(piece.label) for piece in view.record.source]
    else:
        pairs = zip(view.record.target_input, view.record.target_output, strict=True)
        labels = [f"reads {visible(read.label)}, writes {visible(written.label)}" for read, written in pairs]
    name = f"between_{key}_position_{stack}"
    usual = max(0, min(2 if stack == "encoder" else 1, len(labels) - 2))
    keep_among(name, range(len(labels)), usual)
    chosen = st.selectbox(
        "Position",
        range(len(labels)),
        index=usual,
        format_func=lambda place: f"{place + 1}. {labels[place]}" if place < len(labels) else "",
        key=name,
        width=280 if stack == "decoder" else 200,
        persist_state="session",
    )
    return usual if chosen is None else int(chosen)


def heading(text: str, about: str = "") -> None:
    """A small heading inside a section, and what it is about."""
    st.html(f"<b>{markup.escape(text)}</b><div class='under'>{markup.escape(about)}</div>")


def under(text: str) -> None:
    """A quiet line."""
    st.html(f'<div class="under">{markup.escape(text)}</div>')


def checked(check: Check) -> None:
    """Whether the numbers of a section are the model's own."""
    st.html(
        f'<div class="under"><b class="{"good" if check.ok else "bad"}">{"✓" if check.ok else "✗"} '
        f"{markup.escape(check.name)}</b> {markup.escape(check.detail)} "
        f"{'' if check.ok else f'At most {check.limit:.0e} of the largest may be: do not trust this section.'}</div>"
    )


def number(value: float) -> str:
    """A number with two decimals, or three figures where that would show nothing: "12.30", "0.0042", "0"."""
    if value == 0 or not np.isfinite(value):
        return f"{abs(value):g}" if value == 0 else f"{value:g}"
    return f"{value:,.2f}" if abs(value) >= 0.1 else f"{float(f'{value:.3g}'):.6g}" if abs(value) >= 1e-4 else "0.00"


def changed(share: float) -> str:
    """How much something changed, in per cent; below rounding it is nothing."""
    if share < 1e-4:
        return "0 % (rounding)" if share else "0 %"
    return f"{float(f'{100 * share:.3g}'):,.10g} %"
