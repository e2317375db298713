"""Laws of token batches: nothing lost, nothing twice, the budget kept, the same order for the same seed."""

import itertools
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.config import EOS_ID, PAD_ID, SOS_ID
from transformer.errors import ConfigError
from transformer.text.batching import collate, fingerprint, make_batches, padding_share

IDS = st.integers(4, 90)
EXAMPLE = st.tuples(
    st.lists(IDS, max_size=20).map(lambda ids: [SOS_ID, *ids, EOS_ID]),
    st.lists(IDS, max_size=25),
)
EXAMPLES = st.lists(EXAMPLE, max_size=40)


def sizes(example):
    return len(example[0]), len(example[1]) + 1


@settings(max_examples=80, deadline=None)
@given(EXAMPLES, st.integers(1, 80), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_every_example_once_and_within_budget(examples, budget, seed, epoch, shuffle):
    batches = make_batches(examples, budget, seed, epoch, shuffle)
    assert sorted(index for batch in batches for index in batch) == list(range(len(examples)))
    for batch in batches:
        assert batch
        longest = max(max(sizes(examples[index])) for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= budget
    assert batches == make_batches(examples, budget, seed, epoch, shuffle)


def made(count=400):
    return [([SOS_ID, *[7] * (i * 7 % 23), EOS_ID], [9] * (i * 5 % 19)) for i in range(count)]


def test_order_depends_on_seed_and_epoch():
    examples = made()
    orders = [make_batches(examples, 200, seed, epoch) for seed in (1, 2) for epoch in (0, 1)]
    assert len({str(order) for order in orders}) == 4
    memberships = {frozenset(frozenset(batch) for batch in order) for order in orders}
    assert len(memberships) == 4  # not only the order of the batches but who shares one
    plain = [make_batches(examples, 200, seed, epoch, shuffle=False) for seed in (1, 2) for epoch in (0, 1)]
    assert plain[0] == plain[1] == plain[2] == plain[3]


def test_batches_are_full():
    """No two neighbours of the sorted order would have fitted together: a budget is not wasted."""
    examples = made()
    batches = make_batches(examples, 200, shuffle=False)
    for first, second in itertools.pairwise(batches):
        longest = max(sizes(examples[second[0]]))
        assert (len(first) + 1) * longest > 200


def test_length_buckets_beat_random_batches():
    generator = random.Random(1)
    sources = [generator.randint(1, 20) for _ in range(400)]
    examples = [([SOS_ID, *[7] * size, EOS_ID], [9] * max(1, size + generator.randint(-2, 2))) for size in sources]
    random_batches = [list(range(start, start + 10)) for start in range(0, 400, 10)]
    assert padding_share(examples, make_batches(examples, 200, 1)) < 0.5 * padding_share(examples, random_batches)


@settings(max_examples=60, deadline=None)
@given(EXAMPLES.filter(bool), st.data())
def test_collate_pads_and_shifts(examples, data):
    indices = data.draw(st.lists(st.integers(0, len(examples) - 1), min_size=1, max_size=8))
    batch = collate(examples, indices)
    for row, index in enumerate(indices):
        source, target = examples[index]
        for tensor, ids in (
            (batch.source, source),
            (batch.target_input, [SOS_ID, *target]),
            (batch.target_output, [*target, EOS_ID]),
        ):
            assert tensor.dtype == torch.int64
            assert tensor[row].tolist() == ids + [PAD_ID] * (tensor.shape[1] - len(ids))
    assert (batch.source[:, -1] != PAD_ID).any()
    assert (batch.target_output[:, -1] != PAD_ID).any()
    assert batch.target_input.shape == batch.target_output.shape
    assert batch.source_tokens == int((batch.source != PAD_ID).sum())
    assert batch.target_tokens == int((batch.target_output != PAD_ID).sum())
    padded = batch.source.numel() + batch.target_output.numel()
    share = 1 - (batch.source_tokens + batch.target_tokens) / padded
    assert padding_share(examples, [indices]) == pytest.approx(share)


def test_padding_share_by_hand():
    examples = [([2, 5, 3], [6]), ([2, 5, 5, 5, 3], [6, 6])]  # sources 3 and 5, targets 2 and 3
    assert padding_share(examples, [[0, 1]]) == pytest.approx(3 / 16)
    assert padding_share(examples, [[0], [1]]) == 0.0
    assert padding_share([], []) == 0.0


def test_to_moves_every_tensor():
    batch = collate(made(3), [0, 1, 2]).to("meta")
    assert {batch.source.device.type, batch.target_input.device.type, batch.target_output.device.type} == {"meta"}
    assert batch.target_tokens == collate(made(3), [0, 1, 2]).target_tokens


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="token_budget"):
        make_batches(made(3), 0)


def test_fingerprint_tells_corpora_apart():
    one = [([2, 5, 3], [6, 7]), ([2, 3], [8])]
    others = [[([2, 5, 3], [6]), ([2, 3], [7, 8])], one[::-1], one[:1], [([2, 5, 3, 2], [6, 7]), ([3], [8])], []]
    prints = [fingerprint(examples) for examples in [one, *others]]
    assert len(set(prints)) == len(prints)
    assert fingerprint([(list(s), list(t)) for s, t in one]) == prints[0]
