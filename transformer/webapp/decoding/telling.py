"""In words: where on the way we are, why this piece, the numbers of the step, and what came out in the end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from transformer.plots.labels import percent, visible
from transformer.webapp import markup
from transformer.webapp.decoding.computing import Strategy, cache
from transformer.webapp.decoding.walk import Walk

if TYPE_CHECKING:
    from transformer.engine import DecodingStep, TranslationHypothesis
    from transformer.text.tokenizer import Piece

_HOW = {"picked": "picked by you", "typed": "typed by you", "own": "written by the model"}


def way(walk: Walk) -> str:
    """The decoder's input so far, the piece that this step writes, and in pale what comes after it."""
    pieces = walk.hypothesis.pieces
    parts = ['<span class="chip special" dir="ltr" title="where every translation begins">&lt;SOS&gt;</span>']
    for place, piece in enumerate(pieces):
        state = "read" if place < walk.step else "newest" if place == walk.step else "later"
        parts.append(_chip(piece, f"{state} {walk.how(place)}", _HOW[walk.how(place)]))
    if walk.step >= len(pieces):
        parts.append('<span class="chip newest" title="nothing was written here">…</span>')
    count = walk.step + 1
    said = (
        f"<b>Step {count} of {len(walk.steps)}.</b> The decoder has read {count} piece{'s' if count > 1 else ''} and "
        + ("writes the one outlined." if walk.chosen else "may not write any more: the longest length is reached.")
    )
    return f'<div class="way"><div>{said}</div><div class="chips" dir="auto">{"".join(parts)}</div></div>'


def why(walk: Walk) -> str:
    """Who chose the piece of this step, and how it stood among the candidates."""
    chosen = walk.chosen
    if chosen is None:
        return "Nothing: the translation was cut off here."
    place = f"rank {chosen.rank + 1}, {percent(chosen.probability)}"
    how, strategy = walk.how(walk.step), walk.strategy
    if how == "typed":
        return f"Forced: it belongs to the beginning that you typed ({place})."
    if how == "picked":
        return f"Forced: you picked it ({place})."
    if walk.step < len(walk.path):
        return f"Kept: it was written before you picked a later piece ({place})."
    if strategy.name == "sampling":
        return f"Drawn with {drawing(strategy)} ({place})."
    if strategy.name == "greedy":
        return f"Argmax: no piece that may be written is more probable ({place})."
    if chosen.rank == 0:
        return (
            f"The best translation that beam search found goes this way, and it is the most probable piece ({place})."
        )
    return (
        f"The best translation that beam search found goes this way, though other pieces are likelier here ({place})."
    )


def drawing(strategy: Strategy) -> str:
    """The settings of sampling in words."""
    parts = [f"seed {strategy.seed}", f"temperature {strategy.temperature:g}"]
    parts += [f"among the {strategy.top_k} likeliest"] if strategy.top_k else []
    parts += [f"top-p {strategy.top_p:g}"] if strategy.top_p < 1.0 else []
    return ", ".join(parts)


def numbers(walk: Walk, step: DecodingStep, shown: int, rest: float) -> str:
    """The figures of one step.

    Args:
        walk: where we are.
        step: the distribution that is shown.
        shown: how many candidates are shown.
        rest: probability outside of them.
    """
    source, read = len(walk.view.record.source), walk.step + 1
    sizes = cache(walk.view.translator, source, read)
    changed = step is not walk.now
    rows = [
        ("Chosen, without the intervention" if changed else "Chosen", why(walk)),
        (
            "Entropy, with it" if changed else "Entropy",
            f"{step.entropy:.2f} nats: as unsure as between {math.exp(step.entropy):.1f} equally likely pieces",
        ),
        (
            "Outside the shown, with it" if changed else "Outside the shown",
            f"{percent(rest)} on all pieces but these {shown}",
        ),
        (
            "Encoder, kept",
            f"keys and values of {source} source pieces for cross-attention: {_bytes(sizes.cross_bytes)}, "
            "computed once",
        ),
        (
            "Decoder, kept",
            f"keys and values of {read} position{'s' if read > 1 else ''}: {_bytes(sizes.self_bytes)}, "
            f"{_bytes(sizes.self_bytes // read)} more with each step",
        ),
    ]
    return markup.table("This step", ("", ""), rows)


def outcome(walk: Walk) -> str:
    """This translation beside the one that the model writes by itself, and where they part."""
    mine, own = walk.hypothesis, walk.view.translation.best
    search = walk.view.search
    whose = f"the model's own: beam search, size {search.beam}"
    ways = {"greedy": "greedy", "sampling": drawing(walk.strategy), "beam search": f"beam search, size {search.beam}"}
    forced = sum(choice.how != "own" for choice in walk.path)
    this = f"this way: {ways[walk.strategy.name]}" + (f", {forced} forced" if forced else "")
    rows = [_row(this, mine), _row(whose, own)]
    parts = next((k for k, (a, b) in enumerate(zip(mine.ids, own.ids, strict=False)) if a != b), None)
    if mine.ids == own.ids:
        note = "Both are the same."
    elif parts is None:
        note = "One is the beginning of the other."
    else:
        note = f"They part at step {parts + 1}."
        gap = mine.total_log_prob - own.total_log_prob
        note += (
            f" The model finds this way exp({gap:.2f}) = {math.exp(min(gap, 700.0)):.3g} times as probable as its own."
        )
    table = markup.table(
        "What comes out",
        ("", walk.view.card.target, "log-probability", "a piece, on average", "pieces"),
        rows,
        (2, 3, 4),
    )
    return f'{table}<div class="under">{note}</div>'


def choices(walk: Walk) -> str:
    """What the user forced, step by step; empty if nothing."""
    rows = []
    for place, choice in enumerate(walk.path):
        if choice.how == "own" or place >= len(walk.steps):
            continue
        step = walk.steps[place]
        best, taken = step.candidates[0], step.chosen
        if taken is None:
            continue
        rows.append(
            (
                str(place + 1),
                visible(taken.piece.label),
                _HOW[choice.how],
                f"{percent(taken.probability)}, rank {taken.rank + 1}",
                "the same"
                if best.piece.id == taken.piece.id
                else f"{visible(best.piece.label)}, {percent(best.probability)}",
            )
        )
    if not rows:
        return ""
    heads = ("step", "piece", "", "its probability", "the most probable was")
    return markup.table("Your choices; Undo takes back the last", heads, rows, (0,))


def _row(name: str, hypothesis: TranslationHypothesis) -> tuple[str, ...]:
    total, count = hypothesis.total_log_prob, max(len(hypothesis.ids), 1)
    text = hypothesis.text.strip() or "(empty)"
    if not hypothesis.finished:
        text += " … (cut off)"
    return name, text, f"{total:.2f}", percent(math.exp(total / count)), str(count)


def _chip(piece: Piece, classes: str, who: str) -> str:
    tip = markup.escape(f"piece {visible(piece.raw)} · id {piece.id} · {who}")
    label = markup.escape(visible(piece.label))
    label = f"<u>{label}</u>" if piece.unknown else label
    return (
        f'<span class="chip {classes}"{markup.own_direction(piece.special)} tabindex="0" title="{tip}">{label}</span>'
    )


def _bytes(count: int) -> str:
    return f"{count} B" if count < 1000 else f"{count / 1000:.3g} kB" if count < 1e6 else f"{count / 1e6:.3g} MB"
