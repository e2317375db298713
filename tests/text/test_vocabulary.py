"""The chosen size can always be trained, grows with the corpus, and is what the rule says."""

from __future__ import annotations

import random
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transformer.errors import ConfigError, DataError
from transformer.text.corpus import clean, read_manythings, read_parallel, split_by_source
from transformer.text.synthetic import reverse_pairs
from transformer.text.tokenizer import Tokenizer, train_tokenizer
from transformer.text.vocabulary import LARGEST, OFTEN, STEP, choose_vocab_size

DATA = Path(__file__).parents[3] / "shared" / "data"


def language(pairs: int, words: int = 20_000, seed: int = 0) -> list[str]:
    """Two lines a pair of made-up words, whose counts fall with their rank as Zipf's law has it."""
    generator = random.Random(seed)
    syllables = [a + b + c for a in "bdfgklmnprstvz" for b in "aeiou" for c in ("", "n", "r")]
    lexicon = ["".join(generator.choices(syllables, k=1 + rank % 4)) for rank in range(words)]
    shares = list(accumulate(1.0 / (rank + 3) for rank in range(words)))
    return [
        " ".join(generator.choices(lexicon, cum_weights=shares, k=generator.randint(4, 14))) + "."
        for _ in range(2 * pairs)
    ]


def characters(lines: int, kinds: int, seed: int = 0) -> list[str]:
    """Lines without spaces in a script of so many characters."""
    generator = random.Random(seed)
    shares = list(accumulate(1.0 / (rank + 5) for rank in range(kinds)))
    every = [chr(0x4E00 + rank) for rank in range(kinds)]
    return [
        "".join(generator.choices(every, cum_weights=shares, k=generator.randint(3, 30))) + "。" for _ in range(lines)
    ]


def digits(lines: int) -> list[str]:
    generator = random.Random(1)
    return [" ".join(str(generator.randrange(10**6)) for _ in range(5)) for _ in range(lines)]


CORPORA = {
    "three pairs": language(3),
    "thirty pairs": language(30),
    "a thousand pairs": language(1000),
    "one word": ["word"],
    "one letter": ["a"],
    "the same line again and again": ["Ein Satz wie jeder andere."] * 500,
    "three lines of Chinese": characters(3, 3000),
    "thousands of characters": characters(2000, 6000),
    "digits": digits(1000),
    "letters": [side for pair in reverse_pairs(1000) for side in (pair.source, pair.target)],
    "long lines": [" ".join(language(200))[:9000], "short ones count", "a line\tof columns", "", "  "],
    "signs": ["ﷺ ½ ﬁre", "a▁b ▁", "e\u0301te\u0301 \ud83d x", "a\u200bb\u00a0c\u3000d", "👩\u200d👩 <SOS>"],
}


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize("name", CORPORA)
def test_the_chosen_size_can_be_trained(name: str, model_type: str) -> None:
    lines = CORPORA[name]
    size = choose_vocab_size(lines, model_type=model_type)
    assert train_tokenizer(lines, size, model_type).vocab_size == size


TEXTS = st.one_of(st.text(max_size=30), st.text("ab 1½ﷺ<SO>▁\u0301é\t", max_size=40))


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=12), st.sampled_from([1.0, 0.98]), st.sampled_from(["bpe", "unigram"]))
@example(["<SOS>"], 1.0, "bpe")
@example(["\x1f"], 1.0, "bpe")
def test_so_it_can_for_any_text(lines: list[str], coverage: float, model_type: str) -> None:
    size = choose_vocab_size(lines, coverage, model_type)
    refusal = ""
    try:
        assert train_tokenizer(lines, size, model_type, coverage).vocab_size == size
    except DataError as error:
        refusal = str(error)
    assert not refusal or "must hold text" in refusal or "must succeed" in refusal  # no size is right for such lines


def test_a_larger_corpus_never_gets_fewer_pieces() -> None:
    lines = language(10_000)
    sizes = [choose_vocab_size(lines[: 2 * pairs]) for pairs in (3, 10, 30, 100, 300, 1000, 3000, 10_000)]
    assert sizes == sorted(sizes)
    assert 100 < sizes[4] < 1000  # some hundred pairs: some hundred pieces
    assert sizes[-1] > 5 * sizes[4]
    assert all(size % STEP == 0 for size in sizes if size >= 1024)


def median_count(tokenizer: Tokenizer, lines: list[str]) -> float:
    """Of the pieces of several letters, by encoding every line."""
    counts = np.zeros(tokenizer.vocab_size)
    for line in lines:
        np.add.at(counts, tokenizer.encode_target(line), 1)
    merged = [n for n in range(4, tokenizer.vocab_size) if len(tokenizer.decode([n])) > 1]
    return float(np.median(counts[merged]))


def test_half_of_the_pieces_are_seen_often() -> None:
    lines = language(3000)
    size = choose_vocab_size(lines)
    assert median_count(train_tokenizer(lines, size), lines) >= OFTEN
    assert median_count(train_tokenizer(lines, round(1.2 * size)), lines) < OFTEN


def test_the_same_lines_give_the_same_size_in_any_order() -> None:
    lines = language(500)
    assert choose_vocab_size(iter(lines)) == choose_vocab_size(lines) == choose_vocab_size(lines[::-1])


def test_every_letter_counts_unless_coverage_leaves_it_out() -> None:
    lines = characters(2000, 6000)
    seen = len(set("".join(lines)))
    whole, most = choose_vocab_size(lines), choose_vocab_size(lines, 0.98)
    assert whole >= seen + 4
    assert most < seen


def test_no_corpus_gets_more_than_the_largest() -> None:
    generator = random.Random(2)
    words = sorted({"".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(40_000)})
    lines = [" ".join([word] * 30) for word in words]
    assert 0.95 * LARGEST < choose_vocab_size(lines) <= LARGEST


@pytest.mark.parametrize("lines", [[], ["", "  ", "\t"]])
def test_a_corpus_without_text_is_left_to_the_trainer_to_refuse(lines: list[str]) -> None:
    assert choose_vocab_size(lines) == 5


@pytest.mark.parametrize(
    ("options", "name"), [({"model_type": "word"}, "model_type"), ({"character_coverage": 0.5}, "character_coverage")]
)
def test_impossible_options_are_refused(options: dict[str, object], name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} must"):
        choose_vocab_size(["a b"], **options)


@pytest.mark.skipif(not (DATA / "multi30k").is_dir(), reason="needs the corpora beside the repository")
def test_real_corpora() -> None:
    captions = read_parallel(DATA / "multi30k" / "train.en.gz", DATA / "multi30k" / "train.de.gz")
    assert 6000 <= choose_vocab_size(side for pair in captions for side in (pair.source, pair.target)) <= 10_000
    sentences, _ = clean(split_by_source(read_manythings(DATA / "tatoeba" / "fra-eng.zip")).train)
    assert 8000 <= choose_vocab_size(side for pair in sentences for side in (pair.source, pair.target)) <= 16_000
