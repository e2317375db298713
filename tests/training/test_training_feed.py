"""How an epoch is cut into updates, and updates into portions for processes."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.text.batching import Example
from transformer.training.distributed import World
from transformer.training.feed import Feed, Portion

EXAMPLES: list[Example] = [((2, *range(10, 10 + n % 7), 3), tuple(range(20, 20 + n % 5))) for n in range(60)]


def portions(size: int, rank: int, accumulate: int, epoch: int = 0, start: int = 0) -> list[Portion]:
    feed = Feed(lambda _: EXAMPLES, 40, 5, accumulate, World(rank, size))
    found = list(feed.portions(epoch, start))
    assert len(found) == feed.updates_in(epoch) - start
    return found


def rows(portion: Portion) -> list[list[int]]:
    real = portion.batches[: len(portion.batches) - portion.fillers]
    return [row for batch in real for row in batch.source.tolist()]


@settings(max_examples=25, deadline=None)
@given(size=st.integers(1, 4), accumulate=st.integers(1, 3), epoch=st.integers(0, 3))
def test_processes_share_every_update_of_one_process(size: int, accumulate: int, epoch: int) -> None:
    alone = portions(1, 0, accumulate * size, epoch)
    shared = [portions(size, rank, accumulate, epoch) for rank in range(size)]
    assert {len(part) for part in shared} == {len(alone)}
    for whole, *parts in zip(alone, *shared, strict=True):
        assert len({len(part.batches) for part in parts}) == 1  # as many on every process
        assert all(part.target_tokens == whole.target_tokens for part in parts)
        assert sorted(row for part in parts for row in rows(part)) == sorted(rows(whole))
    counted = sum(portion.target_tokens for portion in alone)
    assert counted == sum(len(target) + 1 for _, target in EXAMPLES)  # every example once


def test_a_resumed_epoch_goes_on_where_it_was() -> None:
    whole, rest = portions(2, 1, 2), portions(2, 1, 2, start=3)
    assert [rows(portion) for portion in whole[3:]] == [rows(portion) for portion in rest]


def test_epochs_differ_and_their_examples_may_too() -> None:
    feed = Feed(lambda epoch: EXAMPLES[: 10 + epoch], 40, 5)
    assert [sum(len(rows(portion)) for portion in feed.portions(epoch)) for epoch in (0, 1, 0)] == [10, 11, 10]
    assert [rows(p) for p in portions(1, 0, 1, epoch=1)] != [rows(p) for p in portions(1, 0, 1, epoch=2)]


def test_an_epoch_planned_before_is_made_once() -> None:
    made: list[int] = []

    def examples(epoch: int) -> list[Example]:
        made.append(epoch)
        return EXAMPLES

    feed = Feed(examples, 40, 5)
    feed.plan(1)
    list(feed.portions(1))
    assert feed.updates_in(1) == len(list(feed.portions(1)))
    assert made == [1]


def test_lengths_are_rounded_up_on_request() -> None:
    for portion in Feed(lambda _: EXAMPLES, 40, 5, multiple=8).portions(0):
        for batch in portion.batches:
            assert batch.source.size(1) % 8 == batch.target_input.size(1) % 8 == 0


def test_an_error_in_the_background_is_raised_where_the_batches_are_read() -> None:
    def broken(epoch: int) -> list[Example]:
        raise ValueError("no such epoch")

    with pytest.raises(ValueError, match="no such epoch"):
        next(Feed(broken, 40, 5).portions(0))


def test_closing_ends_the_thread() -> None:
    before = threading.active_count()
    found = Feed(lambda _: EXAMPLES, 10, 5).portions(0)
    next(found)
    assert threading.active_count() == before + 1
    found.close()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before
