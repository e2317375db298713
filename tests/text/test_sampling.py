"""Sampled splits: the same text in other pieces, the same pieces for the same seed in every process."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.config import EOS_ID, PAD_ID, SOS_ID, UNK_ID
from transformer.errors import ConfigError, InputError
from transformer.text.batching import Example
from transformer.text.corpus import Pair
from transformer.text.sampling import Sampler
from transformer.text.tokenizer import MODEL_TYPES, Tokenizer, train_tokenizer

ROOT = Path(__file__).parents[2]
MULTI30K = ROOT.parent / "shared" / "data" / "multi30k"
SOURCES = [
    "A man plays the guitar.",
    "The woman is reading a book in the garden.",
    "Two dogs run through the snow and play.",
]
TARGETS = [
    "Ein Mann spielt Gitarre.",
    "Die Frau liest im Garten ein Buch für ihre Tochter.",
    "Zwei Hunde laufen durch den Schnee und spielen.",
]
PAIRS = [Pair(f"{SOURCES[i % 3]} {i % 7}", TARGETS[i % 3]) for i in range(1200)]  # more than are drawn in one go
RATE = {"bpe": 0.1, "unigram": 0.2}
HOSTILE = [
    "",
    "   ",
    "</s> <SOS> <EOS> <PAD> <UNK> <0x41>",
    "▁A▁man▁",
    "▁ ▁",
    "😀 漢字x 漢漢 漢man字字",
    "漢",
    "ｆｕｌｌ　ｗｉｄｔｈ",
    "man \ud83d alone",
    "a\x00b\x85c\u2028d\te\r\n",
    "½ ﬁre ﷺ e\u0301te\u0301 1234567890",
    "x" * 500,
    "aaaaaaa",
]


@pytest.fixture(scope="module", params=MODEL_TYPES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def tokenizer(kind: str) -> Tokenizer:
    return train_tokenizer([*SOURCES, *TARGETS, "0 1 2 3 4 5 6"] * 3, {"bpe": 150, "unigram": 70}[kind], kind)


def plain(tokenizer: Tokenizer, pairs: list[Pair]) -> list[Example]:
    return [(tuple(tokenizer.encode(pair.source)), tuple(tokenizer.encode_target(pair.target))) for pair in pairs]


def digest(examples: list[Example]) -> str:
    return hashlib.sha256(repr(examples).encode()).hexdigest()


def test_rate_0_is_the_plain_encoding(tokenizer: Tokenizer) -> None:
    hostile = [Pair(text, other) for text in HOSTILE for other in HOSTILE]
    for pairs in (PAIRS, hostile):
        assert Sampler(tokenizer, pairs, 0.0).examples(1) == plain(tokenizer, pairs)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text() | st.text("aeinsmnd AE.é1漢▁ "), max_size=8))
def test_rate_0_is_the_plain_encoding_of_any_text(tokenizer: Tokenizer, texts: list[str]) -> None:
    pairs = [Pair(text, " ".join([text, *texts])) for text in texts]
    assert Sampler(tokenizer, pairs, 0.0).examples(1) == plain(tokenizer, pairs)


@pytest.mark.parametrize("size", [60, 120, 400])
def test_rate_0_is_the_plain_encoding_of_real_sentences(size: int) -> None:
    lines = (ROOT / "tests" / "assets" / "sentences.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [Pair(*line.split("\t")[:2]) for line in lines]
    own = train_tokenizer([text for pair in pairs for text in (pair.source, pair.target)], size)
    for tokenizer in (own, Tokenizer.load(ROOT / "checkpoints" / "en-de-multi30k" / "tokenizer.model")):
        assert Sampler(tokenizer, pairs, 0.0).examples(1) == plain(tokenizer, pairs)


def test_unknown_characters_that_begin_or_end_a_text_stay_in_it(kind: str) -> None:
    """With spaces so rare that "▁" itself is unknown."""
    lines = ["".join("abcdefgh"[i * i * j % 11 % 8] for i in range(400)) for j in range(1, 50)]
    tokenizer = train_tokenizer(lines, 30, kind, character_coverage=0.98)
    assert tokenizer.encode_target("a")[0] == UNK_ID
    pairs = [Pair("漢 漢", "漢"), Pair("漢a漢", "a漢"), Pair("漢", ""), Pair("漢", "a a")]
    assert Sampler(tokenizer, pairs, 0.0).examples(1) == plain(tokenizer, pairs)
    for (source, target), (usual_source, usual_target) in zip(
        Sampler(tokenizer, pairs, 0.5).examples(1), plain(tokenizer, pairs), strict=True
    ):
        assert source.count(UNK_ID) == usual_source.count(UNK_ID)
        assert target.count(UNK_ID) == usual_target.count(UNK_ID)


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs Multi30k in ../shared/data")
def test_rate_0_is_the_plain_encoding_of_a_corpus() -> None:
    sides = [gzip.decompress((MULTI30K / f"val.{code}.gz").read_bytes()).decode().splitlines() for code in ("en", "fr")]
    pairs = [Pair(source, target) for source, target in zip(*sides, strict=True)]
    tokenizer = Tokenizer.load(ROOT / "checkpoints" / "en-de-multi30k" / "tokenizer.model")
    assert Sampler(tokenizer, pairs, 0.0).examples(1) == plain(tokenizer, pairs)


def test_every_pair_keeps_its_place_and_its_text(tokenizer: Tokenizer, kind: str) -> None:
    examples = Sampler(tokenizer, iter(PAIRS), RATE[kind]).examples(1)
    for (source, target), (usual_source, usual_target) in zip(examples, plain(tokenizer, PAIRS), strict=True):
        assert isinstance(source, tuple)
        assert isinstance(target, tuple)
        assert (source[0], source[-1]) == (SOS_ID, EOS_ID)
        assert not {PAD_ID, SOS_ID, EOS_ID} & {*source[1:-1], *target}
        assert tokenizer.decode(source) == tokenizer.decode(usual_source)
        assert tokenizer.decode(target) == tokenizer.decode(usual_target)


def test_splits_vary_between_pairs_and_seeds(tokenizer: Tokenizer, kind: str) -> None:
    sampler = Sampler(tokenizer, PAIRS, RATE[kind])
    examples, other = sampler.examples(1), sampler.examples(2)
    assert len({target for _, target in examples}) > 60  # of three sentences
    for usual in (plain(tokenizer, PAIRS), other):
        assert sum(a != b for a, b in zip(examples, usual, strict=True)) > 0.5 * len(PAIRS)
    parts = [examples[i : i + 300] for i in range(0, len(PAIRS), 300)]
    assert len({digest(part) for part in parts}) == len(parts)


def test_fresh_processes_draw_the_same(tokenizer: Tokenizer, kind: str, tmp_path: Path) -> None:
    """Whatever the salt of their hashes, and whatever was drawn before."""
    (tmp_path / "tokenizer.model").write_bytes(tokenizer.to_bytes())
    script = f"""
import hashlib, sys
from transformer.text.corpus import Pair
from transformer.text.sampling import Sampler
from transformer.text.tokenizer import Tokenizer
pairs = {PAIRS!r}
sampler = Sampler(Tokenizer.load(sys.argv[1]), pairs, {RATE[kind]})
if sys.argv[2] != "0":
    sampler.examples(5)
print(hashlib.sha256(repr(sampler.examples(2**63)).encode()).hexdigest())
"""
    found = []
    for salt in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "tokenizer.model"), salt],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(done.stdout.strip())
    assert found == [digest(Sampler(tokenizer, PAIRS, RATE[kind]).examples(2**63))] * 2


def test_threads_draw_the_same_at_the_same_time(tokenizer: Tokenizer, kind: str) -> None:
    sampler = Sampler(tokenizer, PAIRS, RATE[kind])
    seeds = list(range(4)) * 4
    expected = {seed: sampler.examples(seed) for seed in set(seeds)}
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            Sampler(tokenizer, PAIRS[:50], 0.3).examples(7)

    noise = threading.Thread(target=disturb)
    noise.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(sampler.examples, seeds))
    finally:
        stop.set()
        noise.join()
    assert found == [expected[seed] for seed in seeds]


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_nothing_typed_becomes_a_special_piece(tokenizer: Tokenizer, rate: float) -> None:
    pairs = [Pair(text, other) for text in HOSTILE for other in HOSTILE]
    for (source, target), pair in zip(Sampler(tokenizer, pairs, rate).examples(3), pairs, strict=True):
        assert not {PAD_ID, SOS_ID, EOS_ID} & {*source[1:-1], *target}
        for ids, text in ((source, pair.source), (target, pair.target)):
            usual = tokenizer.encode(text)
            assert tokenizer.decode(ids) == tokenizer.decode(usual)
            assert ids.count(UNK_ID) == usual.count(UNK_ID)


def test_with_rate_1_bpe_writes_characters() -> None:
    tokenizer = train_tokenizer([*SOURCES, *TARGETS] * 3, 150)
    pairs = [Pair(source, target) for source, target in zip(SOURCES, TARGETS, strict=True)]
    spelled = [piece for piece, _ in tokenizer.vocabulary()]
    for (_, target), pair in zip(Sampler(tokenizer, pairs, 1.0).examples(1), pairs, strict=True):
        assert [spelled[number] for number in target] == list(tokenizer.normalise(pair.target))


def test_no_pairs_give_no_examples(tokenizer: Tokenizer) -> None:
    for rate in (0.0, 0.1):
        assert Sampler(tokenizer, [], rate).examples(1) == []
        assert Sampler(tokenizer, [Pair("", " ")], rate).examples(1) == [((SOS_ID, EOS_ID), ())]


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_an_impossible_rate_is_refused(tokenizer: Tokenizer, rate: float) -> None:
    with pytest.raises(ConfigError, match=r"^rate must be from 0 to 1"):
        Sampler(tokenizer, PAIRS, rate)


def test_what_is_not_text_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="must be text"):
        Sampler(tokenizer, [Pair("a", None)], 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"split_by_whitespace": False}, {"byte_fallback": True, "vocab_size": 400}])
def test_pieces_of_more_than_a_word_are_refused(options: dict[str, object], tmp_path: Path) -> None:
    values = {"vocab_size": 150, "pad_id": PAD_ID, "unk_id": UNK_ID, "bos_id": SOS_ID, "eos_id": EOS_ID, **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SOURCES * 3), model_prefix=tmp_path / "other", model_type="bpe", minloglevel=2, **values
    )
    with pytest.raises(ConfigError, match="tokenizer must have pieces of words"):
        Sampler(Tokenizer.load(tmp_path / "other.model"), PAIRS, 0.1)
