from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.webapp.decoding.path import OWN, PICKED, TYPED, Choice, ids, parse, picked, typed, undone, written

choices = st.builds(Choice, st.integers(0, 9999), st.sampled_from([OWN, PICKED, TYPED]))
paths = st.lists(choices, max_size=12).map(tuple)


@given(paths)
def test_what_is_written_is_read_again(path: tuple[Choice, ...]) -> None:
    assert parse(written(path)) == path


@pytest.mark.parametrize("text", ["", "-", "45-", "x", "4 5", "45!!", "٣", "1" * 9, "45-<b>", "-3", "1.5", "inf"])
def test_a_damaged_path_is_no_path(text: str) -> None:
    assert parse(text) == ()


def test_the_text_says_who_chose() -> None:
    path = (Choice(45, OWN), Choice(981, PICKED), Choice(7, TYPED))
    assert written(path) == "45-981!-7~"


@given(paths, st.lists(st.integers(0, 9), max_size=8), st.integers(0, 9))
def test_a_pick_follows_what_was_before(path: tuple[Choice, ...], before: list[int], number: int) -> None:
    made = picked(path, before, number)
    assert ids(made) == (*before, number)
    assert made[-1].how == PICKED


def test_a_pick_keeps_who_chose_what_stays() -> None:
    path = (*typed([4, 5]), Choice(6, PICKED))
    assert picked(path, [4, 5, 6, 7], 8) == (*path, Choice(7, OWN), Choice(8, PICKED))
    assert picked(path, [4], 9) == (Choice(4, TYPED), Choice(9, PICKED))
    assert picked(path, [3], 9) == (Choice(3, OWN), Choice(9, PICKED))


@given(paths.filter(lambda path: not path or path[-1].how != OWN), st.lists(st.integers(0, 9), max_size=5))
def test_undo_takes_back_one_pick(path: tuple[Choice, ...], further: list[int]) -> None:
    """What the model wrote on its own goes too, for it is written again."""
    assert undone(picked(path, [*ids(path), *further], 3)) == path


def test_undo_takes_back_all_that_was_typed_at_once() -> None:
    assert undone(typed([4, 5, 6])) == ()
    assert undone(()) == ()
