"""Words and numbers as they are shown: escaped tick labels, per cent, weights, names of files.

Plotly reads a small HTML in every text it draws. Tokens are escaped, so ``<b>`` and ``</s>`` appear as typed.
"""

from __future__ import annotations

import html
import re

from transformer.analysis.maps import Axis

EMPTY = "␀"
"""What is shown for a piece that would otherwise be invisible."""


def escape(text: str) -> str:
    """Text as Plotly draws it verbatim."""
    return html.escape(text, quote=False)


def visible(label: str) -> str:
    """A label that can be seen: control characters by their sign, an empty label as ``␀``."""
    shown = "".join(chr(0x2400 + ord(sign)) if ord(sign) < 0x20 else sign for sign in label)
    return shown if shown.strip() else (shown.replace(" ", "␣") or EMPTY)


def tick_text(axis: Axis) -> list[str]:
    """Tick labels of an axis, one a piece, escaped; unknown letters are underlined."""
    texts = [escape(visible(label)) for label in axis.labels]
    return [f"<u>{text}</u>" if unknown else text for text, unknown in zip(texts, axis.unknown, strict=True)]


def percent(probability: float) -> str:
    """A probability in per cent with at most three significant figures: "62.1 %", "0.031 %"."""
    value = 100.0 * probability
    if value >= 99.95:
        return "100 %"
    if value and value < 0.001:
        return "< 0.001 %"
    return f"{float(f'{value:.3g}'):.10g} %"


def weight(value: float) -> str:
    """An attention weight with two decimals."""
    return f"{value:.2f}"


def cell_weight(value: float) -> str:
    """An attention weight for a small cell: two decimals without the leading zero, ".62"; "1.0" for one."""
    shown = f"{value:.2f}"
    return shown.removeprefix("0") if shown.startswith("0") else shown[:3]


def file_stem(model: str, kind: str, layer: int, head: int) -> str:
    """Name of a saved picture, layer and head counted from 1: "en-de-cross-layer3-head2"."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-") or "model"
    return f"{safe}-{kind}-layer{layer}-head{head}"


def map_title(kind: str, layer: int, head: int) -> str:
    """Which map this is, layer and head counted from 1."""
    return f"{kind} attention · layer {layer} · head {head}"
