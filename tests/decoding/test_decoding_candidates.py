"""The order of candidates, against a plain sort, and the figures of a distribution, against numpy."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.decoding import candidates
from transformer.decoding.candidates import best_of_rows, rank_of, top, weigh

COARSE = st.lists(st.sampled_from([-3.0, -2.0, -1.0, -math.inf]), min_size=5, max_size=12)
few = settings(max_examples=60, deadline=None)


@few
@given(rows=st.lists(COARSE.map(lambda row: (row * 3)[:10]), min_size=1, max_size=3), count=st.integers(1, 12))
def test_the_best_are_those_of_a_stable_sort(rows, count) -> None:
    values, indices = top(torch.tensor(rows), count)
    for row, found, places in zip(rows, values, indices.tolist(), strict=True):
        expected = sorted(range(len(row)), key=lambda place: -row[place])[:count]
        possible = [place for place in expected if row[place] > -math.inf]
        assert found == [row[place] for place in expected]
        assert places[: len(possible)] == possible  # nobody asks for the order of what is impossible


@few
@given(row=COARSE, data=st.data())
def test_a_rank_is_the_place_in_a_stable_sort(row, data) -> None:
    piece = data.draw(st.integers(0, len(row) - 1))
    order = sorted(range(len(row)), key=lambda place: -row[place])
    rank = rank_of(torch.tensor([row]), torch.tensor([row[piece]]), torch.tensor([piece]))
    assert rank.tolist() == [order.index(piece)]


def test_figures_of_a_distribution_by_hand() -> None:
    # <PAD> <UNK> <SOS> <EOS> and three pieces; the model may give the forbidden ones probability.
    rows = np.array([[0.1, 0.1, 0.05, 0.25, 0.2, 0.2, 0.1], [0.0, 0.5, 0.0, 0.0, 0.0, 0.25, 0.25]], dtype=np.float32)
    with np.errstate(divide="ignore"):
        log_probs = torch.tensor(np.log(rows))
    before = log_probs.clone()
    first, second = weigh(log_probs, [5, None], 2)
    assert torch.equal(log_probs, before)
    assert [piece for piece, _ in first.best] == [3, 4]
    assert [value for _, value in first.best] == pytest.approx([math.log(0.25), math.log(0.2)])
    assert first.chosen == (5, pytest.approx(math.log(0.2)), 2)
    assert first.rest == pytest.approx(0.55)
    assert first.entropy == pytest.approx(-sum(p * math.log(p) for p in rows[0]), abs=1e-6)
    assert [piece for piece, _ in second.best] == [5, 6]
    assert second.chosen is None
    assert second.rest == pytest.approx(0.5)
    assert second.entropy == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(4))


def test_what_is_never_written_has_the_rank_that_it_would_have() -> None:
    log_probs = torch.log_softmax(torch.tensor([[0.0, 2.0, 0.0, 1.0, 3.0, 0.5]]), dim=-1)
    (found,) = weigh(log_probs, [1], 9)
    assert found.chosen is not None
    assert found.chosen[2] == 1  # behind piece 4, before <EOS>
    assert [piece for piece, _ in found.best] == [4, 3, 5]


def test_an_even_distribution_is_as_uncertain_as_can_be() -> None:
    (found,) = weigh(torch.full((1, 8), -math.log(8.0)), [None], 5)
    assert found.entropy == pytest.approx(math.log(8.0))
    assert found.rest == pytest.approx(3 / 8)
    assert [piece for piece, _ in found.best] == [3, 4, 5, 6, 7]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    sentences=st.integers(1, 3),
    width=st.integers(1, 4),
    vocabulary=st.sampled_from([8, 67, 68, 300, 515, 700]),
    count=st.integers(1, 8),
    steps=st.sampled_from([0, 3, 40]),
)
def test_blocks_lose_no_candidate(seed, sentences, width, vocabulary, count, steps) -> None:
    generator = torch.Generator().manual_seed(seed)
    log_probs = -torch.rand(sentences * width, vocabulary, generator=generator) * 5
    totals = -torch.rand(sentences, width, generator=generator)
    if steps:  # equals, in a row and between rows
        log_probs, totals = (log_probs * steps).round() / steps, (totals * 4).round() / 4
    log_probs[torch.rand(log_probs.shape, generator=generator) < 0.1] = -math.inf
    if width > 1:
        totals[0, -1] = -math.inf
    with patch.object(candidates, "SMALL", 0):
        values, flat = best_of_rows(totals, log_probs, count)
    for sentence in range(sentences):
        own = log_probs.view(sentences, width, vocabulary)[sentence]
        everything = [
            (float(totals[sentence, row] + own[row, piece]), row * vocabulary + piece)
            for row in range(width)
            for piece in range(3, vocabulary)
        ]
        wanted = sorted(everything, key=lambda one: (-one[0], one[1]))[:count]
        possible = [one for one in wanted if one[0] > -math.inf]
        found = list(zip(values[sentence], flat[sentence].tolist(), strict=True))
        assert found[: len(possible)] == possible
        assert all(value == -math.inf for value, _ in found[len(possible) :])
