"""What the sections of /looking share: pickers that keep their value, and a translation told beside a changed one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from transformer.plots.labels import visible
from transformer.webapp import markup
from transformer.webapp.frame import View

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from transformer.lessons.changing import Changed

UNITS = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))


def choose(
    label: str,
    options: Sequence[Any],
    key: str,
    default: Any = None,
    show: Callable[[Any], str] = str,
    width: int = 150,
) -> Any:
    """A list to choose from that keeps its value for the session as long as it is among the options."""
    usual = options[0] if default is None else default
    current = st.session_state.get(key)
    # set in every run: a list with other options is another widget to Streamlit, which would forget the choice
    st.session_state[key] = current if current in options else usual
    chosen = st.selectbox(label, options, format_func=show, key=key, width=width, persist_state="session")
    return usual if chosen is None else chosen


def source_piece(view: View, label: str, key: str) -> int:
    """A position of the source, from 0; at first that of the first piece of the text."""
    pieces = view.record.source
    chosen = choose(
        label,
        list(range(len(pieces))),
        key,
        min(1, len(pieces) - 1),
        lambda place: f"{place + 1}. {visible(pieces[place].label)}" if place < len(pieces) else "",
        220,
    )
    return int(chosen)


def source_labels(view: View) -> list[str]:
    """The labels of the source."""
    return [piece.label for piece in view.record.source]


def output_ids(view: View) -> tuple[int, ...]:
    """What the decoder wrote."""
    return tuple(piece.id for piece in view.record.target_output)


def heading(text: str, about: str = "") -> None:
    """A small heading inside a section, and what it is about."""
    st.html(f"<b>{markup.escape(text)}</b><div class='under'>{markup.escape(about)}</div>")


def told(changed: Changed, usual_name: str, changed_name: str, written: int) -> None:
    """Both greedy translations and how sure the model is of the translation shown on top of the page."""
    st.html(
        markup.table(
            "Greedy translation, and perplexity",
            ("", "it writes", "perplexity"),
            [
                (usual_name, begun(changed.text, changed.finished), number(changed.perplexity)),
                (
                    changed_name,
                    begun(changed.changed_text, changed.changed_finished),
                    number(changed.changed_perplexity),
                ),
            ],
            numeric=(2,),
        )
        + '<div class="under">Perplexity of the translation on top of the page: among how many pieces the model '
        f"wavers, on average over its {written} pieces; 1 if it is certain."
        f"{cut(changed.finished and changed.changed_finished)}</div>"
    )


def begun(text: str, finished: bool) -> str:
    """A translation, with dots where it was cut off."""
    return f"{text or 'nothing'}{'' if finished else ' …'}"


def cut(finished: bool) -> str:
    """What is said where a greedy translation was cut off."""
    from transformer.lessons.changing import MOST

    return "" if finished else f" …: greedy translations are compared over their first {MOST} pieces at most."


def number(value: float) -> str:
    """A positive number with about three figures: "1.04", "38.2", "1,200"."""
    if not np.isfinite(value):
        return "beyond any number" if value > 0 else "–"
    if value >= 1e6:
        return f"{value:.2g}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def seconds(value: float) -> str:
    """A time with its unit."""
    unit, name = next(((unit, name) for unit, name in reversed(UNITS) if value >= unit), UNITS[0])
    return f"{value / unit:.3g} {name}"


def size(count: int) -> str:
    """Bytes with their unit: "640 B", "12.5 kB", "4.19 MB"."""
    for power, name in ((6, "MB"), (3, "kB")):
        if count >= 10**power:
            return f"{count / 10**power:.3g} {name}"
    return f"{count} B"


def probabilities(log_probs: NDArray[np.float32]) -> NDArray[np.float64]:
    """exp of log-probabilities."""
    found: NDArray[np.float64] = np.exp(log_probs.astype(np.float64))
    return found
