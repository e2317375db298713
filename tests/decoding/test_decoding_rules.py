"""What may be written where."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.decoding.rules import check_forced, check_numbers, repeats
from transformer.errors import InputError, TransformerError


@settings(max_examples=100, deadline=None)
@given(tokens=st.lists(st.integers(4, 7), max_size=12), size=st.integers(1, 4))
def test_repeats_are_the_pieces_that_write_a_run_twice(tokens, size) -> None:
    def runs(written: list[int]) -> list[tuple[int, ...]]:
        return [tuple(written[start : start + size]) for start in range(len(written) - size + 1)]

    before = set(runs(tokens))
    twice = {piece for piece in range(4, 8) if len(tokens) + 1 >= size and runs([*tokens, piece])[-1] in before}
    assert repeats(tokens, size) == twice


@pytest.mark.parametrize("pieces", [(), (4,), (3,), (4, 5, 3)])
def test_a_prefix_may_end_with_the_end(pieces) -> None:
    check_forced(pieces)


def test_a_prefix_does_not_go_on_behind_its_end() -> None:
    with pytest.raises(InputError, match="prefix must not go on behind <EOS>"):
        check_forced((4, 3, 5))


def test_numbers_are_numbers() -> None:
    check_numbers(-math.inf)
    with pytest.raises(TransformerError, match="log-probabilities must be numbers"):
        check_numbers(math.nan)
