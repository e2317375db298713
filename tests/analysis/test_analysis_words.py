"""Words, hidden keys and several heads as one: laws for random weights, then numbers worked out by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from transformer.analysis.maps import KINDS, Axis, KindView, kind_view
from transformer.analysis.words import combine, hidden_keys, hidden_queries, to_words, without, word_groups
from transformer.capture.record import AttentionRecord
from transformer.errors import InputError
from transformer.text.tokenizer import Piece, Tokenizer

LANGUAGES = {"source": "English", "target": "German"}
SPECIALS = ("<SOS>", "<EOS>")
SOURCE = ("<SOS>", "▁Two", "▁la", "zy", "▁dogs", "▁la", "zy", ".", "<EOS>")
TARGET = ("▁Zwei", "▁fa", "ul", "e", "▁Hun", "de", ".", "<EOS>")


def piece(raw: str) -> Piece:
    """A piece as the tokenizer makes it; "?x" stands for unknown letters x."""
    if raw in SPECIALS:
        return Piece(2, raw, raw, 0, 0, special=True)
    if raw.startswith("?"):
        return Piece(1, raw[1:], raw[1:], 0, 1, unknown=True)
    label = "␣" if raw == "▁" else raw[1:] if raw.startswith("▁") else "·" + raw
    return Piece(9, raw, label, 0, 1)


def rows(generator: np.random.Generator, *shape: int) -> np.ndarray:
    weights = generator.random(shape) ** 3
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def record(source: tuple[str, ...] = SOURCE, target: tuple[str, ...] = TARGET, seed: int = 0) -> AttentionRecord:
    """Random maps; the target may be a prefix, without <EOS>."""
    generator = np.random.default_rng(seed)
    s, t = len(source), len(target)
    mask = np.tril(np.ones((t, t), dtype=bool))
    decoder = rows(generator, 2, 4, t, t) * mask
    return AttentionRecord(
        source_text="",
        target_text="",
        source=tuple(map(piece, source)),
        target_input=tuple(map(piece, ("<SOS>", *target[:-1]))),
        target_output=tuple(map(piece, target)),
        log_probs=np.zeros(t, dtype=np.float32),
        encoder=rows(generator, 3, 4, s, s),
        decoder=(decoder / decoder.sum(axis=-1, keepdims=True)).astype(np.float32),
        cross=rows(generator, 2, 4, t, s),
        causal_mask=mask,
        checkpoint_sha256="",
        checks=(),
        value_norms={
            "encoder": generator.random((3, 4, s), dtype=np.float32),
            "decoder": generator.random((2, 4, t), dtype=np.float32),
            "cross": generator.random((2, 4, s), dtype=np.float32),
        },
    )


def words(*raws: str) -> list[str]:
    """The words of some pieces, their spellings put together with "+"."""
    pieces = tuple(map(piece, raws))
    return ["+".join(pieces[index].label for index in group) for group in word_groups(pieces)]


def assert_same(one: KindView, other: KindView) -> None:
    np.testing.assert_allclose(one.weights, other.weights, atol=2e-6)
    assert (one.rows, one.columns, one.phrases) == (other.rows, other.columns, other.phrases)
    if one.allowed is None or other.allowed is None:
        assert one.allowed is other.allowed
    else:
        np.testing.assert_array_equal(one.allowed, other.allowed)
    assert one.removed is not None
    assert other.removed is not None
    np.testing.assert_allclose(one.removed, other.removed, atol=2e-6)


@pytest.mark.parametrize(
    ("raws", "expected"),
    [
        ((), []),
        (("<SOS>", "▁run", "n", "ing", "<EOS>"), ["<SOS>", "run+·n+·ing", "<EOS>"]),
        (("<SOS>", "n", "▁dog", "▁dog"), ["<SOS>", "·n", "dog", "dog"]),  # a decoder may begin inside a word
        (("▁(", "dog", "s", ")", ".", '"'), ["(", "·dog+·s", "·)", "·.", '·"']),
        (("▁o", "'", "cl", "ock", ","), ["o+·'+·cl+·ock", "·,"]),
        (("▁3", ".", "5", "."), ["3+·.+·5", "·."]),
        (("▁e", "-", "mail"), ["e+·-+·mail"]),
        (("▁no", ".", ".", ".", "!"), ["no", "·.+·.+·.", "·!"]),
        (("▁.",), ["."]),
        (('".',), ['·".']),  # one piece is never parted
        (("▁", "$", "5"), ["␣+·$+·5"]),
        (("▁man", "▁", "?你好", "▁runs"), ["man", "␣+你好", "runs"]),
        (("▁", "x", "?é", "y"), ["␣+·x+é+·y"]),
        (("▁", "?«", "B", "on", "?»"), ["␣+«", "·B+·on", "»"]),
        (("▁", "▁a", "▁"), ["␣", "a", "␣"]),
        (("▁1", "?⁄", "2"), ["1+⁄+·2"]),
        (("▁·", "a"), ["·", "·a"]),  # a raised dot that begins a word is punctuation, not the sign of a label
        (("▁你好", ",", "世界", "。"), ["你好", "·,", "·世界", "·。"]),
        (("▁ภา", "ษา", "ี", "ไทย"), ["ภา", "·ษา+·ี", "·ไทย"]),
        (("▁한국", "어", "."), ["한국+·어", "·."]),  # Korean sets spaces
    ],
)
def test_what_is_a_word(raws: tuple[str, ...], expected: list[str]) -> None:
    assert words(*raws) == expected


@pytest.mark.parametrize(
    "text", ["Two dogs run.", "", '"Ａ man," he said: ½ 你好 x你y…', "a\u200bb - c ▁ d's (e).", "..."]
)
def test_every_piece_of_a_text_is_in_one_word(tiny_tokenizer: Tokenizer, text: str) -> None:
    pieces = tiny_tokenizer.pieces(text)
    groups = word_groups(pieces)
    assert [index for group in groups for index in group] == list(range(len(pieces)))
    assert groups[0] == (0,)
    assert groups[-1] == (len(pieces) - 1,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("quantity", ["weights", "norms"])
def test_rows_of_words_sum_to_one(kind: str, quantity: str) -> None:
    one = record()
    pieces = kind_view(one, kind, LANGUAGES, quantity)
    view = to_words(pieces, one)
    np.testing.assert_allclose(view.weights.sum(axis=-1), 1.0, atol=1e-6)
    assert view.weights.dtype == np.float32
    assert view.weights.shape[2:] == (len(view.rows.labels), len(view.columns.labels))
    assert (view.kind, view.quantity, view.removed) == (kind, quantity, None)
    hidden = without(pieces, hidden_keys(one, kind, True, True))
    again = to_words(hidden, one)
    left = again.weights.sum(axis=-1)
    np.testing.assert_allclose(left[left > 0.0], 1.0, atol=1e-6)
    assert again.removed is not None
    np.testing.assert_allclose(again.removed[left == 0.0], 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_one_piece_a_word_changes_nothing(kind: str) -> None:
    one = record(("<SOS>", "▁a", "▁a", "▁.", "<EOS>"), ("▁b", "▁c", "<EOS>"))
    before = kind_view(one, kind, LANGUAGES)
    after = to_words(before, one)
    np.testing.assert_array_equal(after.weights, before.weights)
    assert (after.rows.labels, after.columns.labels) == (before.rows.labels, before.columns.labels)
    assert after.phrases == before.phrases
    if before.allowed is not None:
        assert after.allowed is not None
        np.testing.assert_array_equal(after.allowed, before.allowed)


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_words_are_the_same_words(kind: str) -> None:
    one = record()
    view = without(to_words(kind_view(one, kind, LANGUAGES), one), hidden_keys(one, kind, True, False))
    assert_same(to_words(view, one), view)


@pytest.mark.parametrize("kind", KINDS)
def test_words_by_hand(kind: str) -> None:
    """Sums and means by plain loops over the pieces that belong together."""
    one = record()
    source = [[0], [1], [2, 3], [4], [5, 6], [7], [8]]
    written, read = [[0], [1, 2, 3], [4, 5], [6], [7]], [[0], [1], [2, 3, 4], [5, 6], [7]]
    down, across = (source if kind == "encoder" else written), (read if kind == "decoder" else source)
    view = to_words(kind_view(one, kind, LANGUAGES), one)
    assert (view.rows.pieces, view.columns.pieces) == (tuple(map(tuple, down)), tuple(map(tuple, across)))
    pieces = one.attention(kind)
    for row, queries in enumerate(down):
        for column, keys in enumerate(across):
            expected = sum(pieces[:, :, t, s] for t in queries for s in keys) / len(queries)
            np.testing.assert_allclose(view.weights[:, :, row, column], expected, rtol=1e-5)
            if view.allowed is not None:
                assert view.allowed[row, column] == any(one.causal_mask[t, s] for t in queries for s in keys)


def test_equal_words_keep_their_own_rows_and_labels_lose_the_sign_of_a_piece() -> None:
    one = record()
    view = to_words(kind_view(one, "encoder", LANGUAGES), one)
    assert view.columns.labels == ("<SOS>", "Two", "lazy", "dogs", "lazy", ".", "<EOS>")
    assert view.columns.title == "key: English input, words"
    assert view.phrases[2] == "'lazy'"


def test_a_written_word_says_what_was_read_before_it() -> None:
    one = record()
    view = to_words(kind_view(one, "cross", LANGUAGES), one)
    assert view.rows.title == "query: German output, the word being written"
    assert view.rows.labels == ("Zwei", "faule", "Hunde", ".", "<EOS>")
    assert view.phrases == (
        "writing 'Zwei', having just read '<SOS>'",
        "writing 'faule', having just read 'Zwei'",
        "writing 'Hunde', having just read 'faule'",
        "writing '.', having just read 'Hunde'",
        "writing '<EOS>', having just read '.'",
    )
    decoder = to_words(kind_view(one, "decoder", LANGUAGES), one)
    assert decoder.columns.labels == ("<SOS>", "Zwei", "faule", "Hunde", ".")
    assert decoder.allowed is not None
    # The piece "e" of "faule" is written after "fa" and "ul" were read, so the word may look at its own beginning.
    expected = np.tril(np.ones((5, 5), dtype=bool))
    expected[1, 2] = expected[2, 3] = True
    np.testing.assert_array_equal(decoder.allowed, expected)
    assert decoder.sentence(1, 2) == "writing 'faule', having just read 'Zwei' → looks at 'faule'"


def test_a_target_that_stops_inside_a_word() -> None:
    one = record(target=("▁Zwei", "▁fa", "ul"))
    view = to_words(kind_view(one, "decoder", LANGUAGES), one)
    assert view.rows.labels == ("Zwei", "faul")
    assert view.columns.labels == ("<SOS>", "Zwei", "fa")
    assert view.phrases[1] == "writing 'faul', having just read 'Zwei'"
    # read so far is "3." where "3.5" was written: the dot ends what was read, and is inside what was written
    one = record(target=("▁3", ".", "5"))
    view = to_words(kind_view(one, "decoder", LANGUAGES), one)
    assert (view.rows.labels, view.columns.labels) == (("3.5",), ("<SOS>", "3", "."))
    np.testing.assert_allclose(view.weights.sum(axis=-1), 1.0, atol=1e-6)


def test_one_word_and_unknown_letters() -> None:
    one = record(("<SOS>", "▁", "?你", "<EOS>"), ("<EOS>",))
    view = to_words(kind_view(one, "cross", LANGUAGES), one)
    assert view.columns.labels == ("<SOS>", "你", "<EOS>")
    assert view.columns.unknown == (False, True, False)
    assert view.columns.title == "key: English input, words (pieces where no spaces part words)"
    hebrew = record(("<SOS>", "▁", "?שלום", "<EOS>"))
    assert to_words(kind_view(hebrew, "cross", LANGUAGES), hebrew).columns.right_to_left
    alone = to_words(kind_view(one, "decoder", LANGUAGES), one)
    assert (alone.rows.labels, alone.columns.labels) == (("<EOS>",), ("<SOS>",))
    np.testing.assert_array_equal(alone.weights, 1.0)


def test_what_can_be_hidden() -> None:
    raws = ("<SOS>", "▁", "?«", "o", "'", "clock", "?»", ".", "▁+", "<EOS>")
    one = record(raws, ("▁b", ".", "<EOS>"))

    def hidden(specials: bool, punctuation: bool) -> list[int]:
        return np.flatnonzero(hidden_keys(one, "encoder", specials, punctuation)).tolist()

    assert hidden(False, False) == []
    assert hidden(True, False) == [0, 9]
    assert hidden(False, True) == [1, 2, 6, 7]  # with the space of "«", without the sign in "o'clock"
    assert hidden(True, True) == [0, 1, 2, 6, 7, 9]
    np.testing.assert_array_equal(hidden_keys(one, "cross", True, True), hidden_keys(one, "encoder", True, True))
    assert hidden_keys(one, "decoder", True, True).tolist() == [True, False, True]
    assert hidden_queries(one, "decoder", True, True).tolist() == [False, True, True]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_hidden_and_what_is_kept_are_the_whole(kind: str) -> None:
    one = record()
    view = kind_view(one, kind, LANGUAGES)
    hidden = hidden_keys(one, kind, True, True)
    shown = without(view, hidden, hidden_queries(one, kind, True, False))
    keep = ~hidden_queries(one, kind, True, False)
    pieces = one.attention(kind)[:, :, keep]
    kept = pieces[..., ~hidden].sum(axis=-1)
    assert shown.removed is not None
    np.testing.assert_allclose(shown.removed + kept, 1.0, atol=1e-6)
    np.testing.assert_allclose(shown.removed, pieces[..., hidden].sum(axis=-1), atol=1e-6)
    np.testing.assert_allclose(shown.weights * kept[..., None], pieces[..., ~hidden], atol=1e-6)
    assert shown.columns.pieces == tuple((int(index),) for index in np.flatnonzero(~hidden))
    assert len(shown.phrases) == len(shown.rows.labels) == keep.sum()


def test_hiding_nothing_and_hiding_all() -> None:
    one = record()
    view = kind_view(one, "decoder", LANGUAGES)
    same = without(view, np.zeros(8, dtype=bool))
    np.testing.assert_array_equal(same.weights, view.weights)
    assert (same.rows, same.columns) == (view.rows, view.columns)
    assert same.removed is not None
    np.testing.assert_array_equal(same.removed, 0.0)
    nothing = without(view, np.ones(8, dtype=bool))
    assert nothing.weights.shape == (2, 4, 8, 0)
    assert nothing.removed is not None
    np.testing.assert_array_equal(nothing.removed, 1.0)
    again = without(combine(to_words(nothing, one), [(0, 0)], "max"), np.ones(8, dtype=bool))
    assert (again.weights.shape, again.columns.labels) == ((1, 1, 5, 0), ())
    assert without(view, np.zeros(8, dtype=bool), np.ones(8, dtype=bool)).weights.shape == (2, 4, 0, 8)


def test_a_row_that_only_looks_at_hidden_keys_is_empty() -> None:
    one = record()
    view = without(kind_view(one, "decoder", LANGUAGES), hidden_keys(one, "decoder", True, False))
    np.testing.assert_array_equal(view.weights[:, :, 0], 0.0)  # "Zwei" could look at <SOS> alone
    np.testing.assert_allclose(view.weights[:, :, 1:].sum(axis=-1), 1.0, atol=1e-6)
    assert view.removed is not None
    np.testing.assert_array_equal(view.removed[:, :, 0], 1.0)
    assert view.allowed is not None
    assert not view.allowed[0].any()


def test_an_empty_row_has_no_say_in_the_word() -> None:
    """ "Zwei" is written as two pieces here; the first could look at <SOS> alone, so the second speaks for the word."""
    one = record(target=("▁Zw", "ei", "▁Hunde", "<EOS>"))
    view = without(kind_view(one, "decoder", LANGUAGES), hidden_keys(one, "decoder", True, False))
    shown = to_words(view, one)
    np.testing.assert_allclose(shown.weights[:, :, 0], [[[1.0, 0.0]] * 4] * 2, atol=1e-6)
    assert shown.removed is not None
    np.testing.assert_allclose(shown.removed[:, :, 0], (1.0 + one.decoder[:, :, 1, 0]) / 2, rtol=1e-5)


def test_a_row_with_almost_nothing_left_is_not_lost() -> None:
    weights = np.array([[1.0, 1e-12], [1.0, 3e-12]], dtype=np.float32)[None, None]
    one = record(("▁a", "▁b"), ("▁c", "c"))
    axis = Axis("", ("a", "b"), (False, False))
    view = without(KindView("cross", weights, axis, axis, ("", "")), np.array([True, False]))
    np.testing.assert_array_equal(view.weights, 1.0)
    np.testing.assert_allclose(to_words(view, one).weights, 1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("quantity", ["weights", "norms"])
@pytest.mark.parametrize("punctuation", [False, True])
def test_the_order_of_words_hiding_and_mean_does_not_matter(kind: str, quantity: str, punctuation: bool) -> None:
    one = record()
    heads = [(0, 1), (1, 3), (1, 0)]
    hidden, rows = hidden_keys(one, kind, True, punctuation), hidden_queries(one, kind, False, True)
    changes = {
        "words": lambda view: to_words(view, one),
        "hiding": lambda view: without(view, hidden, rows),
        "mean": lambda view: combine(view, heads, "mean"),
    }
    found = []
    for order in permutations(changes):
        view = kind_view(one, kind, LANGUAGES, quantity)
        for name in order:
            view = changes[name](view)
        found.append(view)
    for other in found[1:]:
        assert_same(found[0], other)


def test_words_and_mean_alone_also_commute() -> None:
    one = record()
    view = kind_view(one, "cross", LANGUAGES)
    heads = [(layer, head) for layer in range(2) for head in range(4)]
    there, back = combine(to_words(view, one), heads, "mean"), to_words(combine(view, heads, "mean"), one)
    np.testing.assert_allclose(there.weights, back.weights, atol=1e-6)
    assert (there.rows, there.columns, there.phrases) == (back.rows, back.columns, back.phrases)


def test_hiding_twice_adds_up() -> None:
    one = record()
    view = kind_view(one, "cross", LANGUAGES)
    first, both = hidden_keys(one, "cross", True, False), hidden_keys(one, "cross", True, True)
    assert_same(without(without(view, first), both), without(view, both))


def test_several_heads_by_hand() -> None:
    one = record()
    view = kind_view(one, "cross", LANGUAGES)
    mean, largest = (combine(view, [(0, 1), (1, 2), (0, 1)], how) for how in ("mean", "max"))
    assert mean.weights.shape == largest.weights.shape == (1, 1, 8, 9)
    np.testing.assert_allclose(mean.weights[0, 0], (one.cross[0, 1] + one.cross[1, 2]) / 2, rtol=1e-6)
    np.testing.assert_array_equal(largest.weights[0, 0], np.maximum(one.cross[0, 1], one.cross[1, 2]))
    assert (largest.weights.sum(axis=-1) >= 1.0 - 1e-6).all()
    np.testing.assert_array_equal(combine(view, [(1, 3)], "mean").weights[0, 0], one.cross[1, 3])
    hidden = combine(without(view, hidden_keys(one, "cross", True, False)), [(0, 1), (1, 2)], "max")
    assert hidden.removed is not None
    ends = one.cross[..., [0, 8]].sum(axis=-1)
    np.testing.assert_allclose(hidden.removed[0, 0], (ends[0, 1] + ends[1, 2]) / 2, rtol=1e-5)


def test_mistakes_are_named() -> None:
    one = record()
    view = kind_view(one, "encoder", LANGUAGES)
    with pytest.raises(InputError, match="how must be one of mean, max, but it was 'median'"):
        combine(view, [(0, 0)], "median")
    with pytest.raises(InputError, match="heads must name at least one head"):
        combine(view, [], "mean")
    for wrong in ((3, 0), (0, 4), (-1, 0)):
        with pytest.raises(InputError, match="heads must be below 3 layers and 4 heads"):
            combine(view, [(0, 0), wrong], "mean")
    with pytest.raises(InputError, match="hidden must hold one value for each piece"):
        without(view, np.zeros(8, dtype=bool))
    with pytest.raises(InputError, match="rows must hold one value for each piece"):
        without(view, np.zeros(9, dtype=bool), np.zeros(10, dtype=bool))
    with pytest.raises(InputError, match="record must be the one of the view"):
        to_words(view, record(SOURCE[:-1]))
