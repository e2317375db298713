"""Drawn splits have the probabilities that enumerating all ways gives, on vocabularies small enough for it."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from transformer.config import UNK_ID
from transformer.text.splits import BpeDropout, Splits, UnigramSampling

DRAWS = 40_000
SPELLED = ["ab", "▁ab", "abab", "▁a", "ba", "bab", "▁abab", "aa", "cd", "abcd", "xy", "▁", "a", "b", "c", "d"]
PIECES = {number: (piece, -float(rank)) for rank, (number, piece) in enumerate(enumerate(SPELLED, 4))}
"""As BPE has them, the best first. Some are made in several ways, most neighbours compete; x and y alone are none."""
LIKELY = {n: (piece, -1.0 - 0.7 * len(piece) + 0.3 * (n % 4)) for n, (piece, _) in PIECES.items()}
WORDS = ["▁", "▁a", "▁abab", "▁ababab", "▁aab", "▁abcd", "▁baab", "▁axa", "▁xyab"]

Split = tuple[str, ...]


def dropout(word: str, rate: float) -> dict[Split, float]:
    """Algorithm 1 of Provilkov et al. 2020, with every set of merges that may be left out in a step."""
    scores = dict(PIECES.values())
    now, ended = {tuple(word): 1.0}, defaultdict(float)
    while now:
        after: dict[Split, float] = defaultdict(float)
        for split, chance in now.items():
            places = [i for i in range(len(split) - 1) if split[i] + split[i + 1] in scores]
            for kept in itertools.product([False, True], repeat=len(places)):
                chance_of_set = chance * math.prod((1 - rate) if keep else rate for keep in kept)
                merges = [i for i, keep in zip(places, kept, strict=True) if keep]
                if not merges:
                    ended[split] += chance_of_set
                    continue
                i = min(merges, key=lambda i: (-scores[split[i] + split[i + 1]], i))
                after[(*split[:i], split[i] + split[i + 1], *split[i + 2 :])] += chance_of_set
        now = after
    return ended


def posterior(word: str, alpha: float) -> dict[Split, float]:
    """Every way of cutting the word into pieces, and characters that are none."""
    scores = dict(LIKELY.values())
    lowest = min(scores.values())
    weights = {}
    for cuts in itertools.product([False, True], repeat=len(word) - 1):
        places = [0, *(i for i, cut in enumerate(cuts, 1) if cut), len(word)]
        split = tuple(word[a:b] for a, b in itertools.pairwise(places))
        if all(piece in scores or len(piece) == 1 for piece in split):
            weights[split] = math.exp(alpha * sum(scores.get(piece, lowest - 10.0) for piece in split))
    whole = sum(weights.values())
    return {split: weight / whole for split, weight in weights.items()}


def drawn(splits: Splits, number: int) -> Counter[tuple[int, ...]]:
    """How often a word is split how, when it stands among others."""
    words = np.arange(DRAWS * 2) % len(WORDS)
    words[::2] = number
    ids, sizes = splits.draw(words, np.random.default_rng(7))
    assert sizes.sum() == len(ids)
    return Counter(tuple(row.tolist()) for row in np.split(ids, np.cumsum(sizes)[:-1])[::2])


def assert_probable(found: Counter[tuple[int, ...]], expected: dict[Split, float]) -> None:
    numbers = {piece: number for number, (piece, _) in PIECES.items()}
    chances = {tuple(numbers.get(piece, UNK_ID) for piece in split): chance for split, chance in expected.items()}
    assert sum(chances.values()) == pytest.approx(1.0)
    assert set(found) <= {ids for ids, chance in chances.items() if chance}
    for ids, chance in chances.items():
        assert abs(found[ids] / DRAWS - chance) <= 4.5 * math.sqrt(chance * (1 - chance) / DRAWS) + 2 / DRAWS
    often = [(found[ids], chance * DRAWS) for ids, chance in chances.items() if chance * DRAWS > 10]
    degrees = len(often) - 1
    assert sum((count - mean) ** 2 / mean for count, mean in often) <= degrees + 4.5 * math.sqrt(2 * degrees) + 1e-9


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
def test_bpe_dropout_is_algorithm_1(rate: float) -> None:
    splits = BpeDropout(PIECES, WORDS, rate)
    for number, word in enumerate(WORDS):
        assert_probable(drawn(splits, number), dropout(word, rate))


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
def test_unigram_splits_have_their_posterior_probability(alpha: float) -> None:
    splits = UnigramSampling(LIKELY, WORDS, alpha)
    for number, word in enumerate(WORDS):
        assert_probable(drawn(splits, number), posterior(word, alpha))


@pytest.mark.parametrize("kind", [BpeDropout, UnigramSampling])
def test_occurrences_of_a_word_are_drawn_independently(kind: type[BpeDropout] | type[UnigramSampling]) -> None:
    number = WORDS.index("▁ababab")
    _, sizes = kind(LIKELY, WORDS, 0.3).draw(np.full(2 * DRAWS, number), np.random.default_rng(3))
    assert len(set(sizes.tolist())) > 3
    for distance in (1, 2, 7, DRAWS):  # neighbours, and the same place of the next text
        assert abs(np.corrcoef(sizes[:-distance], sizes[distance:])[0, 1]) < 4.5 / math.sqrt(DRAWS)


@pytest.mark.parametrize("kind", [BpeDropout, UnigramSampling])
def test_what_is_drawn_depends_on_the_generator_alone(kind: type[BpeDropout] | type[UnigramSampling]) -> None:
    splits = kind(LIKELY, WORDS, 0.3)
    words = np.arange(1000) % len(WORDS)
    ids, sizes = splits.draw(words, np.random.default_rng(1))
    splits.draw(words[:17], np.random.default_rng(2))
    for made in (splits, kind(LIKELY, WORDS, 0.3)):
        again, sizes_again = made.draw(words, np.random.default_rng(1))
        assert np.array_equal(again, ids)
        assert np.array_equal(sizes_again, sizes)


@pytest.mark.parametrize("kind", [BpeDropout, UnigramSampling])
def test_no_words_have_no_pieces(kind: type[BpeDropout] | type[UnigramSampling]) -> None:
    for words in ([], WORDS):
        ids, sizes = kind(LIKELY, words, 0.3).draw(np.zeros(0, dtype=np.int64), np.random.default_rng(1))
        assert len(ids) == len(sizes) == 0
