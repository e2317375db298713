"""Maps read as people read: whole words, without the keys that nobody asked about, several heads as one.

``to_words``, ``without`` and ``combine`` by mean may be applied in any order. Each works on the shares of the attention
as they were before keys were hidden, and brings the rows back to a sum of one at the end; so a mean counts a row by
what is left of it, and a row with nothing left has no say. A maximum over heads comes last.

Letters: L layers, H heads, T rows (queries), S columns (keys).
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from transformer.analysis.maps import Axis, KindView, axis_pieces
from transformer.capture.record import AttentionRecord
from transformer.errors import InputError, problem

if TYPE_CHECKING:
    from transformer.text.tokenizer import Piece

WAYS = ("mean", "max")
"""How ``combine`` makes one map of several heads."""

_SPACE = "▁"  # U+2581, how a raw piece spells a space
_CONTINUES = "·"  # what the label of a piece begins with that continues a word
_WRITTEN_WITHOUT_SPACES = (
    *("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "BOPOMOFO"),
    *("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"),
)  # how Unicode's names of their letters begin
_SMALLEST_REST = 2.0**-25  # float32 holds no share nearer to one than 1 - 2**-24


def word_groups(pieces: Sequence[Piece]) -> list[tuple[int, ...]]:
    """Which consecutive pieces make one word; every index is in one group, in order.

    A word is what stands between spaces, unknown letters included, but punctuation at either end of it is a word of its
    own, as people read it: "(dogs." is "(", "dogs" and ".". Signs inside stay, as in "o'clock", "3.5" and "e-mail"; a
    run of the same sign is one word, as in "...". A special piece stands alone. A space that is a piece of its own goes
    with what follows it. Punctuation is what Unicode calls so (categories P; "$", "+" and "<" are not).

    Chinese, Japanese, Thai and other scripts set no spaces between words; there each piece counts as a word, which is
    the tokenizer's view and not a dictionary's.

    Returns:
        Groups of indices into ``pieces``.
    """
    groups: list[tuple[int, ...]] = []
    run: list[int] = []
    for index, piece in enumerate(pieces):
        if run and not (_continues(piece) and not pieces[run[-1]].special):
            groups.extend(_words_of_run(pieces, run))
            run = []
        run.append(index)
    groups.extend(_words_of_run(pieces, run))
    return groups


def to_words(view: KindView, record: AttentionRecord) -> KindView:
    """The same maps word by word: summed over the pieces of a key word, averaged over those of a query word.

    So rows still sum to one. The two axes are grouped each by its own pieces: a target that stops inside a word ends
    with the part that is there. A word may look where any of its pieces may look at any piece of the other. The row of
    a written word says what was read just before its first piece. Applied to words, it changes nothing.

    Args:
        view: of pieces or words; pieces that were hidden stay hidden.
        record: the one that the view was made of.

    Raises:
        InputError: a record whose pieces are not those of the view.
    """
    row_pieces, column_pieces = axis_pieces(record, view.kind)
    rows, row_starts = _axis_of_words(view.rows, row_pieces)
    columns, column_starts = _axis_of_words(view.columns, column_pieces)
    allowed = view.allowed
    if allowed is not None:
        allowed = np.logical_or.reduceat(np.logical_or.reduceat(allowed, row_starts, axis=0), column_starts, axis=1)
    summed = np.add.reduceat(view.weights, column_starts, axis=3, dtype=np.float64)
    left, present = _left(view), _present(view)
    total = np.add.reduceat(left[..., None] * summed, row_starts, axis=2)
    weights = _divided(total, np.add.reduceat(left, row_starts, axis=2)[..., None])
    removed = view.removed
    if removed is not None:
        gone = np.add.reduceat(removed, row_starts, axis=2, dtype=np.float64)
        removed = _divided(gone, np.add.reduceat(present, row_starts, axis=2))
    return dataclasses.replace(
        view,
        weights=weights,
        rows=rows,
        columns=columns,
        phrases=_phrases(record, view.kind, rows),
        allowed=allowed,
        removed=removed,
    )


def hidden_keys(record: AttentionRecord, kind: str, specials: bool, punctuation: bool) -> NDArray[np.bool_]:
    """[S] True for the key pieces of one kind to be hidden: special pieces, and words of punctuation alone.

    A sign inside a word ("o'clock") stays, so whole words are hidden or none.
    """
    return _hidden(axis_pieces(record, kind)[1], specials, punctuation)


def hidden_queries(record: AttentionRecord, kind: str, specials: bool, punctuation: bool) -> NDArray[np.bool_]:
    """[T] the same for the rows, which decoder and cross attention name by the piece being written."""
    return _hidden(axis_pieces(record, kind)[0], specials, punctuation)


def without(view: KindView, hidden: NDArray[np.bool_], rows: NDArray[np.bool_] | None = None) -> KindView:
    """The view without some keys: their columns are dropped and each row is brought back to a sum of one.

    ``removed`` says how much of each row went. A row that had nothing anywhere else is all zeros, with ``removed`` 1.
    In a view of words a word goes when all of its pieces are hidden.

    Args:
        view: of pieces or words. If everything is hidden a map without columns (or rows) is left.
        hidden: True for a key to drop, one value for each piece of the record's axis.
        rows: the same for queries, whose rows are only left out; None keeps all.

    Raises:
        InputError: a mask of another length.
    """
    gone = _covered(view.columns, hidden, "hidden")
    stays = ~(_covered(view.rows, rows, "rows") if rows is not None else np.zeros(len(view.rows.labels), dtype=bool))
    before = view.weights[:, :, stays]
    weights = before[..., ~gone]
    kept, lost = weights.sum(axis=3, dtype=np.float64), before[..., gone].sum(axis=3, dtype=np.float64)
    if gone.any():
        weights = _divided(weights.astype(np.float64), kept[..., None])
    share = _divided(lost, kept + lost)
    if view.removed is not None:  # what is hidden now is a share of what was left
        earlier = view.removed[:, :, stays]
        share = earlier + (1.0 - earlier) * share
    return dataclasses.replace(
        view,
        weights=weights,
        rows=_selected(view.rows, stays),
        columns=_selected(view.columns, ~gone),
        phrases=tuple(phrase for phrase, kept_row in zip(view.phrases, stays, strict=True) if kept_row),
        allowed=None if view.allowed is None else view.allowed[stays][:, ~gone],
        removed=share,
    )


def combine(view: KindView, heads: Sequence[tuple[int, int]], how: str) -> KindView:
    """One map of several heads, as layer 0, head 0 of the view that is returned.

    ``mean`` keeps rows at a sum of one. ``max`` takes each cell from the head where it is largest: it shows what any of
    them looks at, its rows are not renormalised and may sum to more than one, and it is to be taken last. ``removed``
    is the mean over the heads either way.

    Args:
        view: of pieces or words.
        heads: (layer, head), both from 0; one that is named twice counts once.
        how: ``mean`` or ``max``.

    Returns:
        A view with weights [1, 1, T, S].

    Raises:
        InputError: no head, a head that the view does not have, or another way.
    """
    if how not in WAYS:
        raise InputError(problem("how", f"must be one of {', '.join(WAYS)}", how, "choose one of them"))
    chosen = sorted(set(heads))
    if not chosen:
        raise InputError(problem("heads", "must name at least one head", list(heads), "choose some"))
    for layer, head in chosen:
        if not (0 <= layer < view.layers and 0 <= head < view.heads):
            rule = f"must be below {view.layers} layers and {view.heads} heads, counted from 0"
            raise InputError(problem("heads", rule, (layer, head), "choose heads of this kind"))
    layers, numbers = [layer for layer, _ in chosen], [head for _, head in chosen]
    several = view.weights[layers, numbers]
    weights = several.max(axis=0)
    if how == "mean":
        left = _left(view)[layers, numbers]
        weights = _divided((left[..., None] * several).sum(axis=0), left.sum(axis=0)[..., None])
    removed = None
    if view.removed is not None:
        gone = view.removed[layers, numbers].sum(axis=0, dtype=np.float64)
        removed = _divided(gone, _present(view)[layers, numbers].sum(axis=0))[None, None]
    return dataclasses.replace(view, weights=weights[None, None], removed=removed)


def _continues(piece: Piece) -> bool:
    """Its label says so; the raw spelling settles the case of a word that itself begins with "·"."""
    return (piece.unknown or piece.label.startswith(_CONTINUES)) and not piece.raw.startswith(_SPACE)


def _spelling(piece: Piece) -> str:
    """Its share of the letters of a word; nothing for a space alone."""
    if piece.raw == _SPACE:
        return ""
    return piece.label.removeprefix(_CONTINUES) if _continues(piece) and not piece.unknown else piece.label


def _word(pieces: Sequence[Piece]) -> str:
    return "".join(map(_spelling, pieces)) or "".join(piece.label for piece in pieces)


def _punctuation(piece: Piece) -> bool:
    spelling = _spelling(piece)
    return bool(spelling) and all(unicodedata.category(sign)[0] == "P" for sign in spelling)


def _without_spaces(piece: Piece) -> bool:
    """Whether it holds a letter of a script that sets no spaces between words."""
    return any(unicodedata.name(letter, "").startswith(_WRITTEN_WITHOUT_SPACES) for letter in _spelling(piece))


def _words_of_run(pieces: Sequence[Piece], run: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Part what stands between two spaces into words."""
    core = [index for index in run if _spelling(pieces[index]) and not _punctuation(pieces[index])]
    first, last = (core[0], core[-1]) if core else (len(pieces), -1)
    word = list(run[:1])
    for before, here in pairwise(run):
        left, right = pieces[before], pieces[here]
        if not _spelling(left):
            joined = True
        elif first <= before and here <= last:
            mark = unicodedata.category(_spelling(right)[:1] or " ")[0] == "M"  # a vowel sign belongs to the letter
            joined = mark or not (_without_spaces(left) or _without_spaces(right))
        else:
            joined = _spelling(left) == _spelling(right)
        if not joined:
            yield tuple(word)
            word = []
        word.append(here)
    if word:
        yield tuple(word)


def _pieces(axis: Axis) -> tuple[tuple[int, ...], ...]:
    return axis.pieces or tuple((index,) for index in range(len(axis.labels)))


def _fits(axis: Axis, count: int) -> bool:
    """Whether an axis can be of so many pieces; of what was left of it, only that they are enough is known."""
    if axis.pieces or not axis.labels:
        return count > max((group[-1] for group in axis.pieces), default=-1)
    return count == len(axis.labels)


def _axis_of_words(axis: Axis, pieces: Sequence[Piece]) -> tuple[Axis, NDArray[np.intp]]:
    """The axis word by word, and the first label of each word. Hidden pieces are in no word."""
    shown = _pieces(axis)
    if not _fits(axis, len(pieces)):
        raise InputError(problem("record", "must be the one of the view", f"{len(pieces)} pieces", "give that record"))
    word_of = {index: number for number, group in enumerate(word_groups(pieces)) for index in group}
    words: dict[int, list[int]] = {}
    starts = []
    for label, group in enumerate(shown):
        if word_of[group[0]] not in words:
            starts.append(label)
        words.setdefault(word_of[group[0]], []).extend(group)
    groups = tuple(tuple(group) for group in words.values())
    grouped = Axis(
        _title(axis.title, any(map(_without_spaces, pieces))),
        tuple(_word([pieces[index] for index in group]) for group in groups),
        tuple(any(pieces[index].unknown for index in group) for group in groups),
        axis.right_to_left,
        groups,
    )
    return grouped, np.array(starts, dtype=np.intp)


def _title(title: str, without_spaces: bool) -> str:
    title = title.replace("the piece being written", "the word being written")
    note = "" if "the word being written" in title else ", words"
    if without_spaces:
        note = f"{note} (pieces where no spaces part words)"
    return title if title.endswith(note) else title + note


def _phrases(record: AttentionRecord, kind: str, rows: Axis) -> tuple[str, ...]:
    if kind == "encoder":
        return tuple(f"'{label}'" for label in rows.labels)
    read = {index: group for group in word_groups(record.target_input) for index in group}
    found = []
    for label, group in zip(rows.labels, rows.pieces, strict=True):
        before = _word([record.target_input[index] for index in read[group[0]] if index <= group[0]])
        found.append(f"writing '{label}', having just read '{before}'")
    return tuple(found)


def _hidden(pieces: Sequence[Piece], specials: bool, punctuation: bool) -> NDArray[np.bool_]:
    hidden = np.array([specials and piece.special for piece in pieces], dtype=bool)
    for group in word_groups(pieces) if punctuation else ():
        spelled = [pieces[index] for index in group if _spelling(pieces[index])]
        if spelled and all(map(_punctuation, spelled)):
            hidden[list(group)] = True
    return hidden


def _covered(axis: Axis, hidden: NDArray[np.bool_], name: str) -> NDArray[np.bool_]:
    """The labels of an axis all of whose pieces are hidden."""
    if hidden.ndim != 1 or not _fits(axis, len(hidden)):
        rule = "must hold one value for each piece of its axis"
        raise InputError(problem(name, rule, f"of shape {hidden.shape}", "see hidden_keys and hidden_queries"))
    return np.array([bool(hidden[list(group)].all()) for group in _pieces(axis)], dtype=bool)


def _selected(axis: Axis, keep: NDArray[np.bool_]) -> Axis:
    if keep.all():
        return axis
    chosen = np.flatnonzero(keep)
    labels, unknown = tuple(axis.labels[i] for i in chosen), tuple(axis.unknown[i] for i in chosen)
    groups = _pieces(axis)
    return dataclasses.replace(axis, labels=labels, unknown=unknown, pieces=tuple(groups[i] for i in chosen))


def _left(view: KindView) -> NDArray[np.float64]:
    """[L, H, T] how much of a row is still shown; 0 for a row with nothing in it."""
    left = np.ones(view.weights.shape[:3])
    if view.removed is not None:
        left = np.maximum(1.0 - view.removed.astype(np.float64), _SMALLEST_REST)
    left[~view.weights.any(axis=3)] = 0.0
    return left


def _present(view: KindView) -> NDArray[np.float64]:
    """[L, H, T] 1 for a row that held something before keys were hidden, else 0."""
    present = _left(view) > 0.0
    return (present if view.removed is None else present | (view.removed > 0.0)).astype(np.float64)


def _divided(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float32]:
    """The quotient, 0 where it would be 0 / 0."""
    quotient = np.zeros_like(above)
    np.divide(above, below, out=quotient, where=below > 0.0)
    return quotient.astype(np.float32)
