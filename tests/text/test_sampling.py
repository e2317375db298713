"""Sampled splits: the same text in other pieces, the same pieces for the same seed, whatever else goes on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from transformer.config import EOS_ID, PAD_ID, SOS_ID
from transformer.errors import ConfigError, InputError
from transformer.text.corpus import Pair
from transformer.text.sampling import sample_examples
from transformer.text.tokenizer import MODEL_TYPES, Tokenizer, train_tokenizer

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
PAIRS = [Pair(f"{SOURCES[i % 3]} {i % 7}", TARGETS[i % 3]) for i in range(300)]  # more than is sampled in one go
RATE = {"bpe": 0.1, "unigram": 0.2}


@pytest.fixture(scope="module", params=MODEL_TYPES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def tokenizer(kind: str) -> Tokenizer:
    return train_tokenizer([*SOURCES, *TARGETS, "0 1 2 3 4 5 6"] * 3, {"bpe": 150, "unigram": 70}[kind], kind)


def plain(tokenizer: Tokenizer) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(tuple(tokenizer.encode(pair.source)), tuple(tokenizer.encode_target(pair.target))) for pair in PAIRS]


def test_rate_0_is_the_plain_encoding(tokenizer: Tokenizer) -> None:
    assert sample_examples(tokenizer, PAIRS, 0.0, 1) == plain(tokenizer)
    assert tokenizer.sample_many([pair.source for pair in PAIRS], 0.0, 1) == [
        list(s[1:-1]) for s, _ in plain(tokenizer)
    ]


def test_every_pair_keeps_its_place_and_its_text(tokenizer: Tokenizer, kind: str) -> None:
    examples = sample_examples(tokenizer, PAIRS, RATE[kind], 1)
    for (source, target), (usual_source, usual_target) in zip(examples, plain(tokenizer), strict=True):
        assert (source[0], source[-1]) == (SOS_ID, EOS_ID)
        assert not {PAD_ID, SOS_ID, EOS_ID} & {*source[1:-1], *target}
        assert tokenizer.decode(source) == tokenizer.decode(usual_source)
        assert tokenizer.decode(target) == tokenizer.decode(usual_target)


def test_splits_vary_between_pairs_and_seeds(tokenizer: Tokenizer, kind: str) -> None:
    examples = sample_examples(tokenizer, PAIRS, RATE[kind], 1)
    assert len({tuple(target) for _, target in examples}) > 20  # of three sentences
    changed = [sampled != usual for sampled, usual in zip(examples, plain(tokenizer), strict=True)]
    assert sum(changed) > 0.5 * len(PAIRS)
    other = sample_examples(tokenizer, PAIRS, RATE[kind], 2)
    assert sum(a != b for a, b in zip(examples, other, strict=True)) > 0.5 * len(PAIRS)


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**63])
def test_the_same_seed_gives_the_same_whatever_went_before(tokenizer: Tokenizer, kind: str, seed: int) -> None:
    expected = sample_examples(tokenizer, iter(PAIRS), RATE[kind], seed)
    tokenizer.sample("Anything else.", 0.3, seed)
    sample_examples(tokenizer, PAIRS[:50], 0.3, seed + 1)
    assert sample_examples(tokenizer, PAIRS, RATE[kind], seed) == expected
    in_threads = []
    for _ in range(2):  # a new thread each
        thread = threading.Thread(target=lambda: in_threads.append(sample_examples(tokenizer, PAIRS, RATE[kind], seed)))
        thread.start()
        thread.join()
    assert in_threads == [expected, expected]


@pytest.mark.parametrize("seed", [0, -1, 2**32 - 2, 2**32 - 1, 2**40])
def test_every_seed_of_one_text_is_a_seed(tokenizer: Tokenizer, kind: str, seed: int) -> None:
    """sentencepiece takes 2^32 - 1 to mean "not seeded"."""
    text = " ".join(SOURCES)
    splits = [tokenizer.sample(text, RATE[kind], seed) for _ in range(5)]
    assert splits == [splits[0]] * 5


def test_calls_at_the_same_time_do_not_disturb_each_other(tokenizer: Tokenizer, kind: str) -> None:
    other = train_tokenizer(TARGETS * 3, 100)
    seeds = list(range(6)) * 4
    expected = {seed: sample_examples(tokenizer, PAIRS, RATE[kind], seed) for seed in set(seeds)}
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            other.sample(TARGETS[0], 0.3, 7)
            other.encode(TARGETS[0])

    noise = threading.Thread(target=disturb)
    noise.start()
    try:
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda seed: sample_examples(tokenizer, PAIRS, RATE[kind], seed), seeds))
    finally:
        stop.set()
        noise.join()
    assert found == [expected[seed] for seed in seeds]


def test_nothing_typed_becomes_a_special_piece(tokenizer: Tokenizer) -> None:
    hostile = [
        "",
        "   ",
        "</s> <SOS> <EOS> <PAD> <UNK>",
        "▁A▁man▁",
        "😀 漢字x",
        "ｆｕｌｌ　ｗｉｄｔｈ",
        "man \ud83d alone",
        "a\x00b",
    ]
    for alpha in (0.1, 0.5, 1.0):
        for text, ids in zip(hostile, tokenizer.sample_many(hostile, alpha, 3), strict=True):
            assert not {PAD_ID, SOS_ID, EOS_ID} & set(ids)
            assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode(text))


def test_no_pairs_give_no_examples(tokenizer: Tokenizer) -> None:
    assert sample_examples(tokenizer, [], 0.1, 1) == []
    assert tokenizer.sample_many([], 0.1, 1) == []


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_an_impossible_rate_is_refused(tokenizer: Tokenizer, rate: float) -> None:
    with pytest.raises(ConfigError, match="alpha must be from 0 to 1"):
        sample_examples(tokenizer, PAIRS, rate, 1)


def test_what_is_not_text_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="must be text"):
        tokenizer.sample_many(["a", None], 0.1, 1)  # type: ignore[list-item]
