"""Small pieces of HTML as plain strings. Every text that comes from outside is escaped here, and only here."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from transformer.plots.labels import percent, visible

if TYPE_CHECKING:
    from transformer.capture.record import Check
    from transformer.text.tokenizer import Piece


def escape(text: str) -> str:
    """Text that HTML shows verbatim, in content and in attributes."""
    return html.escape(text, quote=True)


def sentence(text: str) -> str:
    """An error's text with a capital letter."""
    return text[:1].upper() + text[1:]


def notice(tone: str, text: str) -> str:
    """A plain message. ``tone`` is ``info``, ``warning`` or ``error``."""
    role = "status" if tone == "info" else "alert"
    return f'<div class="notice notice-{tone}" role="{role}">{escape(text)}</div>'


def chip(piece: Piece, *, name: str = "", probability: float | None = None, number: bool = False) -> str:
    """One piece as a chip: its label, its raw spelling and id on hover, its probability as shade and, if asked, number.

    Args:
        piece: what to show.
        name: class that style rules refer to.
        probability: between 0 and 1; None leaves the chip unshaded.
        number: write the probability under the label.
    """
    tip = f"piece {visible(piece.raw)} · id {piece.id}"
    if piece.unknown:
        tip += " · not among the model's pieces: it reads <UNK>"
    style, below = "", ""
    if probability is not None:
        tip += f" · probability {percent(probability)}"
        style = f' style="--share:{100 * probability:.1f}%"'
        below = f"<small>{percent(probability)}</small>" if number else ""
    kinds = ["chip", name, "special" if piece.special else "", "shaded" if probability is not None else ""]
    label = escape(visible(piece.label))
    label = f"<u>{label}</u>" if piece.unknown else label
    classes = " ".join(filter(None, kinds))
    own = own_direction(piece.special)
    return f'<span class="{classes}"{own} tabindex="0" title="{escape(tip)}"{style}>{label}{below}</span>'


def own_direction(special: bool) -> str:
    """An attribute for the chip of a special piece: a row runs as its first letters do, and with a direction of its own
    the chip has no say in it."""
    return ' dir="ltr"' if special else ""


def ribbon(
    source: Sequence[Piece],
    target: Sequence[Piece],
    probabilities: Sequence[float],
    partners: Sequence[Sequence[int]],
    languages: tuple[str, str],
) -> str:
    """The pair that every page is about: source pieces above, output pieces below, shaded by probability.

    Pointing at an output piece, or choosing it by click or Tab, outlines the source pieces that it looks at most, and
    the other way round. That is done by style rules alone, which hold nothing but positions.
    """
    above = "".join(chip(piece, name=f"s{i}") for i, piece in enumerate(source))
    pairs = zip(target, probabilities, strict=True)
    below = "".join(chip(piece, name=f"t{i}", probability=share) for i, (piece, share) in enumerate(pairs))
    rules = []
    for t, sources in enumerate(partners):
        for s in sources:
            for mine, other in ((f".t{t}", f".s{s}"), (f".s{s}", f".t{t}")):
                rules.append(f".ribbon:has({mine}:hover) {other},.ribbon:has({mine}:focus) {other}")
    style = f"<style>{','.join(rules)}{{outline:2px solid var(--cross);outline-offset:1px}}</style>" if rules else ""
    first, second = (escape(name) for name in languages)
    return (
        f'{style}<div class="ribbon" role="group" aria-label="Source and output pieces">'
        f'<div class="row"><b class="tongue">{first}</b><span class="chips" dir="auto">{above}</span></div>'
        f'<div class="row"><b class="tongue">{second}</b><span class="chips" dir="auto">{below}</span></div></div>'
    )


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """A table of plain texts; the columns in ``numeric`` are set to the right."""

    def cell(tag: str, index: int, text: str) -> str:
        side = ' class="number"' if index in numeric else ' dir="auto"'
        return f"<{tag}{side}>{escape(text)}</{tag}>"

    head = "".join(cell("th", i, text) for i, text in enumerate(heads))
    body = "".join("<tr>" + "".join(cell("td", i, text) for i, text in enumerate(row)) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table class="figures"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def checks_line(checks: Sequence[Check]) -> str:
    """Whether the captured numbers keep their own laws, with what each says and measured, unfolded if one fails."""
    failed = [check for check in checks if not check.ok]
    tone = "bad" if failed else "good"
    verdict = (
        f"{len(failed)} of {len(checks)} checks failed: do not trust this picture"
        if failed
        else f"All {len(checks)} checks of these numbers hold"
        if len(checks) > 1
        else "The check of these numbers holds"
    )
    parts = "".join(
        f'<li class="{"good" if check.ok else "bad"}">{"✓" if check.ok else "✗"} {escape(check.name)} '
        f"<small>{_measured(check)}. {escape(check.detail)}</small></li>"
        for check in checks
    )
    opened = " open" if failed else ""
    return (
        f'<details class="checks"{opened}><summary class="{tone}">{escape(verdict)}</summary><ul>{parts}</ul></details>'
    )


def _measured(check: Check) -> str:
    return f"off by {check.value:.2g}, limit {check.limit:.2g}" if check.limit else f"off by {check.value:.2g}"
