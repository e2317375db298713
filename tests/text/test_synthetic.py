"""The reverse task: its right answer is known, and no sequence of a test is in training."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.errors import ConfigError
from transformer.text.synthetic import ALPHABET, reverse_pairs, reverse_split


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 50), st.integers(0, 5), st.integers(1, 4), st.integers(0, 6))
def test_targets_are_sources_backwards(count, seed, low, more):
    pairs = reverse_pairs(count, seed, low, low + more)
    assert len(pairs) == count
    for pair in pairs:
        letters = pair.source.split(" ")
        assert low <= len(letters) <= low + more
        assert set(letters) <= set(ALPHABET)
        assert pair.target == pair.source[::-1]
    assert pairs == reverse_pairs(count, seed, low, low + more)


def test_seeds_differ_and_lengths_are_even():
    assert reverse_pairs(20, 1) != reverse_pairs(20, 2)
    lengths = [len(pair.source.split()) for pair in reverse_pairs(8000, 3)]
    for length in range(1, 17):
        assert 400 < lengths.count(length) < 600  # 500 expected, standard deviation 22


def test_split_never_overlaps():
    split = reverse_split(3000, 200, 200, seed=4)
    assert [len(part) for part in split] == [3000, 200, 200]
    assert len({pair.source for part in split[1:] for pair in part}) == 400
    assert not {pair.source for pair in split.train} & {pair.source for part in split[1:] for pair in part}
    assert split == reverse_split(3000, 200, 200, seed=4)
    assert split != reverse_split(3000, 200, 200, seed=5)
    for part in split[1:]:
        assert {len(pair.source.split()) for pair in part} == set(range(4, 17))


def test_training_holds_every_length_alike_and_every_single_letter():
    sources = [pair.source for pair in reverse_split(8000, 100, 100, seed=2).train]
    lengths = [len(source.split()) for source in sources]
    for length in range(1, 17):
        assert 400 < lengths.count(length) < 600  # 500 expected, standard deviation 22
    assert set(ALPHABET) <= set(sources)


def test_split_refuses_more_than_there_is():
    # Letters a, b at lengths 4 and 5: 16 + 32 sequences, of which half may be held out.
    assert len(reverse_split(9, 12, 12, max_length=5, alphabet="ab").train) == 9
    with pytest.raises(ConfigError, match="at most 24"):
        reverse_split(9, 13, 12, max_length=5, alphabet="ab")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"count": -1}, "count"),
        ({"count": 1, "min_length": 0}, "min_length"),
        ({"count": 1, "min_length": 5, "max_length": 4}, "min_length"),
        ({"count": 1, "alphabet": ""}, "alphabet"),
        ({"count": 1, "alphabet": "aab"}, "alphabet"),
        ({"count": 1, "alphabet": "a b"}, "alphabet"),
    ],
)
def test_impossible_options_are_refused(options, name):
    with pytest.raises(ConfigError, match=f"^{name} must"):
        reverse_pairs(**options)
