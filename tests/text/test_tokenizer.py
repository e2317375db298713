"""Laws of the tokenizer: spans belong to the typed text, specials cannot be typed, training is deterministic."""

import hashlib
import io
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transformer.config import EOS_ID, PAD_ID, SOS_ID, UNK_ID
from transformer.errors import CheckpointError, ConfigError, DataError, InputError
from transformer.text.tokenizer import Tokenizer, train_tokenizer

LINES = [
    "A man plays the guitar.",
    "The woman is reading a book in the garden.",
    "Two dogs run through the snow and play.",
    "Ein Mann spielt Gitarre.",
    "Die Frau liest im Garten ein Buch für ihre Tochter.",
    "Zwei Hunde laufen durch den Schnee und spielen.",
    "L'été dernier, le garçon a joué à la plage.",
] * 3


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES, 150)


HOSTILE = [
    "",
    "   ",
    "A man  plays.",
    "😀😀 hi 漢字x",
    "سلام يا man",
    "e\u0301te\u0301 n\u0303 q\u0301",
    "ｆｕｌｌ　ｗｉｄｔｈ",
    "a\tb\n  c\r\nd\x0be",
    "ﷺ ½ ﬁre",
    "\ufeffa\u200bb\u200ec\x00d\x85e\u2028f",
    "👩\u200d👩\u200d👧 x",
    "</s> <b> <SOS> $x_1$ <EOS> <PAD> <UNK> <pad>",
    "▁A▁man▁",
    "man \ud83d alone",
]


def hostile(test):
    for text in HOSTILE:
        test = example(text=text)(test)
    return settings(max_examples=60, deadline=None)(given(text=st.text(max_size=40))(test))


@hostile
def test_pieces_lie_in_the_typed_text(tokenizer, text):
    pieces = tokenizer.pieces(text)
    assert [piece.id for piece in pieces] == tokenizer.encode(text)
    assert pieces[0].label == "<SOS>"
    assert pieces[-1].label == "<EOS>"
    end = 0
    for piece in pieces:
        assert end <= piece.start <= piece.end <= len(text)
        end = piece.end
        assert piece.label
        if piece.special:
            assert piece.start == piece.end
        assert piece.unknown == (piece.id == UNK_ID)


@hostile
def test_what_is_typed_never_becomes_a_special_piece(tokenizer, text):
    assert not {PAD_ID, SOS_ID, EOS_ID} & set(tokenizer.encode_target(text))
    assert [piece.special for piece in tokenizer.pieces(text)].count(True) == 2


@hostile
def test_ids_are_those_of_plain_sentencepiece(tokenizer, text):
    plain = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.to_bytes())
    assert tokenizer.encode_target(text) == plain.encode(re.sub("[\ud800-\udfff]", "\ufffd", text))


@hostile
def test_the_pieces_spell_the_normalised_text(tokenizer, text):
    assert "".join(piece.raw for piece in tokenizer.pieces(text)[1:-1]) == tokenizer.normalise(text)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_the_vocabulary_has_the_specials_first(model_type):
    vocabulary = train_tokenizer(LINES, 70, model_type).vocabulary()
    assert [piece for piece, _ in vocabulary[:4]] == ["<PAD>", "<UNK>", "<SOS>", "<EOS>"]
    scores = [score for _, score in vocabulary[4:]]
    assert len({piece for piece, _ in vocabulary}) == 70
    assert scores == sorted(scores, reverse=True)
    assert (scores == [-float(rank) for rank in range(66)]) == (model_type == "bpe")


LETTERS = "abemnAEßéüà.,?z qQ😀漢字سلامｗ１\t\n"


@settings(max_examples=100, deadline=None)
@given(st.text(LETTERS, max_size=40))
def test_spans_cover_every_visible_letter_once(tokenizer, text):
    typed = "".join(text[piece.start : piece.end] for piece in tokenizer.pieces(text))
    assert "".join(typed.split()) == "".join(text.split())
    for piece in tokenizer.pieces(text):
        if not piece.special and piece.raw != "▁":
            assert text[piece.start : piece.end].split() == [text[piece.start : piece.end]]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(" ".join(LINES).split()), max_size=12), st.sampled_from([" ", "  ", "\t", "\n", " \r\n"])
)
def test_known_text_comes_back_with_single_spaces(tokenizer, words, space):
    ids = tokenizer.encode(space.join(words))
    assert UNK_ID not in ids
    assert tokenizer.decode(ids) == " ".join(words)


def test_labels(tokenizer):
    pieces = tokenizer.pieces("A xylo 漢字😀n")
    assert [piece.label for piece in pieces[:4]] == ["<SOS>", "A", "␣", "x"]  # "x" was never seen: unknown
    assert [piece.label for piece in pieces[-4:]] == ["␣", "漢字😀", "·n", "<EOS>"]
    unknown = pieces[-3]
    assert (unknown.start, unknown.end, unknown.unknown, unknown.id) == (7, 10, True, UNK_ID)
    begin, inner = tokenizer.pieces("  The\tgarden")[1:3]
    assert (begin.raw, begin.label, begin.start, begin.end) == ("▁The", "The", 2, 5)
    assert (inner.raw[0], inner.label, inner.start) == ("▁", inner.raw[1:], 6)
    assert tokenizer.pieces("  The\tgarden")[3].label.startswith("·")
    assert tokenizer.pieces("a\x85")[-2].label == "U+0085"


def test_combining_marks_and_wide_letters_keep_their_place(tokenizer):
    text = "l'e\u0301te\u0301 ｍａｎ"
    spans = [text[piece.start : piece.end] for piece in tokenizer.pieces(text) if not piece.special]
    assert "".join(spans) == text
    assert spans[-1] == "ｍａｎ"
    assert {piece.label for piece in tokenizer.pieces(text)} >= {"·été", "·man"}  # labels are as the model reads


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 149), max_size=20))
def test_target_pieces_lie_in_the_decoded_text(tokenizer, ids):
    text = tokenizer.decode(ids)
    pieces = tokenizer.target_pieces(ids)
    assert [piece.id for piece in pieces] == ids
    typed = "".join(text[piece.start : piece.end] for piece in pieces)
    assert typed.replace(" ", "") == text.replace(" ", "")
    for number, piece in zip(ids, pieces, strict=True):
        if number in (PAD_ID, SOS_ID, EOS_ID):
            assert piece.special
            assert piece.start == piece.end
            assert piece.label in ("<PAD>", "<SOS>", "<EOS>")


def test_target_pieces_agree_with_source_pieces(tokenizer):
    text = "Die Frau liest ein Buch."
    assert tokenizer.target_pieces(tokenizer.encode(text)) == tokenizer.pieces(text)


def test_unknown_shows_in_decoded_text(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a 漢 man")) == "a ⁇ man"


@pytest.mark.parametrize("number", [-1, 150, 10**12])
def test_decode_refuses_ids_outside_the_vocabulary(tokenizer, number):
    with pytest.raises(InputError, match="0 to 149"):
        tokenizer.decode([4, number])


def test_encode_refuses_what_is_not_text(tokenizer):
    with pytest.raises(InputError, match="must be text"):
        tokenizer.encode(None)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_training_is_deterministic(model_type):
    first = train_tokenizer(iter(LINES), 70, model_type)
    second = train_tokenizer(LINES, 70, model_type)
    assert first.to_bytes() == second.to_bytes()
    assert first.vocab_size == 70
    assert first.fingerprint == hashlib.sha256(second.to_bytes()).hexdigest()
    assert first.fingerprint != train_tokenizer(LINES, 71, model_type).fingerprint


def test_a_line_with_the_space_sign_is_learned_from():
    assert UNK_ID not in train_tokenizer(["qux▁qux quux", *LINES], 150).encode("qux")


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_too_large_a_vocabulary_names_the_largest(model_type):
    with pytest.raises(DataError) as refused:
        train_tokenizer(LINES, 100_000, model_type)
    largest = int(re.search(r"at most (\d+)", str(refused.value))[1])
    assert train_tokenizer(LINES, largest, model_type).vocab_size == largest
    with pytest.raises(DataError, match=f"at most {largest}"):
        train_tokenizer(LINES, largest + 1, model_type)


def test_too_small_a_vocabulary_names_the_smallest():
    with pytest.raises(DataError) as refused:
        train_tokenizer(LINES, 10)
    smallest = int(re.search(r"at least (\d+)", str(refused.value))[1])
    assert smallest == len(set("".join(LINES)) - {" "}) + 1 + 4  # letters, the space sign, specials
    assert train_tokenizer(LINES, smallest).vocab_size == smallest


@pytest.mark.parametrize("lines", [[], ["", "  ", "\n"]])
def test_a_corpus_without_text_is_refused(lines):
    with pytest.raises(DataError, match="must hold text"):
        train_tokenizer(lines, 100)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"vocab_size": 4}, "vocab_size"),
        ({"vocab_size": 10.5}, "vocab_size"),
        ({"vocab_size": 100, "model_type": "word"}, "model_type"),
        ({"vocab_size": 100, "character_coverage": 0.1}, "character_coverage"),
    ],
)
def test_impossible_options_are_refused(options, name):
    with pytest.raises(ConfigError, match=f"^{name} must"):
        train_tokenizer(LINES, **options)


def test_bytes_and_file_round_trip(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.model"
    path.write_bytes(tokenizer.to_bytes())
    for again in (Tokenizer.load(path), Tokenizer.load(str(path)), Tokenizer.from_bytes(tokenizer.to_bytes())):
        assert again.fingerprint == tokenizer.fingerprint
        assert again.encode("Two dogs run.") == tokenizer.encode("Two dogs run.")


def test_damaged_files_are_refused(tokenizer, tmp_path):
    data = tokenizer.to_bytes()
    path = tmp_path / "tokenizer.model"
    for cut in (0, 1, 2, 50, len(data) // 3, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(CheckpointError, match=r"tokenizer\.model: tokenizer must"):
            Tokenizer.load(path)
    for bad in (b"garbage", b"\x00" * 100, b"version https://git-lfs.github.com/spec/v1\n"):
        with pytest.raises(CheckpointError):
            Tokenizer.from_bytes(bad)
    with pytest.raises(CheckpointError, match="must be readable"):
        Tokenizer.load(tmp_path / "missing.model")


def test_a_model_with_other_special_ids_is_refused():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=100, model_type="bpe", minloglevel=2
    )
    with pytest.raises(CheckpointError, match="ids 0, 1, 2, 3"):
        Tokenizer.from_bytes(model.getvalue())


def test_threads_share_one_tokenizer(tokenizer):
    texts = [" ".join(LINES[i % 7].split()[i % 3 :]) + " 😀" * (i % 4) for i in range(200)]
    expected = [tokenizer.pieces(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenizer.pieces, texts)) == expected
