"""Drawing: the filters by their definitions, and what a drawn translation must be."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from decoding_toys import ToyState, follow, greedy, random_table, toy_step
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.config import EOS_ID
from transformer.decoding.options import Hypothesis, SamplingOptions
from transformer.decoding.rules import NEVER_WRITTEN
from transformer.decoding.sampling import filtered, sample
from transformer.errors import InputError, TransformerError

few = settings(max_examples=30, deadline=None)


def draw_one(table, max_length: int = 9, forced: tuple[int, ...] = (), **options) -> Hypothesis:
    return sample(toy_step, ToyState.start(table), max_length, SamplingOptions(**options), forced=forced)


def by_definition(log_probs: list[float], temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """Probabilities, written down slowly."""
    weights = {i: math.exp(v / temperature) for i, v in enumerate(log_probs) if i not in NEVER_WRITTEN}
    order = sorted(weights, key=lambda piece: -weights[piece])
    if top_k:
        order = order[:top_k]
    total = sum(weights[piece] for piece in order)
    nucleus: list[int] = []
    for piece in order:
        if sum(weights[other] for other in nucleus) / total < top_p:
            nucleus.append(piece)
    total = sum(weights[piece] for piece in nucleus)
    return np.array([weights[i] / total if i in nucleus else 0.0 for i in range(len(log_probs))])


@few
@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.5, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 3, 100]),
    top_p=st.sampled_from([0.3, 0.75, 1.0]),
)
def test_filters_by_their_definition(seed, temperature, top_k, top_p) -> None:
    row = random_table(seed, 12)(())
    options = SamplingOptions(temperature, top_k, top_p)
    log_probs = torch.tensor(row)
    found = filtered(log_probs, options)
    np.testing.assert_allclose(found.exp().numpy(), by_definition(row, temperature, top_k, top_p), atol=1e-6)
    assert log_probs.tolist() == pytest.approx(row)  # not written into
    together = filtered(torch.stack([log_probs, log_probs.flip(0)]), options)
    torch.testing.assert_close(together[0], found)


def test_a_nucleus_by_hand() -> None:
    probabilities = torch.tensor([0.0, 0.0, 0.0, 0.1, 0.5, 0.25, 0.15])
    kept = filtered(probabilities.log(), SamplingOptions(top_p=0.6)).exp()
    assert kept.tolist() == pytest.approx([0, 0, 0, 0, 2 / 3, 1 / 3, 0])
    kept = filtered(probabilities.log(), SamplingOptions(top_k=3, top_p=0.8)).exp()  # 0.5 + 0.25 of 0.9 is 0.83
    assert kept.tolist() == pytest.approx([0, 0, 0, 0, 2 / 3, 1 / 3, 0])


def test_of_equals_the_lower_ids_are_kept() -> None:
    kept = filtered(torch.full((8,), -math.log(8.0)), SamplingOptions(top_k=2))
    assert kept.isfinite().nonzero()[:, 0].tolist() == [3, 4]


@pytest.mark.parametrize("temperature", [0.01, 100.0])
def test_temperatures_at_the_edges_stay_finite(temperature: float) -> None:
    found = filtered(torch.tensor(random_table(1, 30, sharpness=20.0)(())), SamplingOptions(temperature))
    assert float(found.exp().sum()) == pytest.approx(1.0)
    assert not found.isnan().any()


@few
@given(seed=st.integers(0, 10**6), max_length=st.integers(1, 9))
def test_only_the_best_piece_to_draw_from_is_greedy_search(seed, max_length) -> None:
    table = random_table(seed, 9)
    expected = greedy(table, max_length)
    for options in ({"top_k": 1}, {"top_p": 1e-9}, {"temperature": 0.01}):
        if options == {"temperature": 0.01} and close_call(table, expected):
            continue
        assert draw_one(table, max_length, seed=seed, **options).tokens == expected


def close_call(table, tokens) -> bool:
    rows = [sorted(table(tokens[:place])[EOS_ID:]) for place in range(len(tokens))]
    return any(row[-1] - row[-2] < 0.5 for row in rows)


@few
@given(seed=st.integers(0, 10**6), cut=st.integers(0, 9), top_p=st.sampled_from([0.8, 1.0]))
def test_going_on_from_its_own_beginning_gives_the_same_translation(seed, cut, top_p) -> None:
    table = random_table(seed, 12)
    whole = draw_one(table, 12, seed=seed, top_p=top_p)
    assert draw_one(table, 12, forced=whole.tokens[:cut], seed=seed, top_p=top_p) == whole
    assert draw_one(table, 20, seed=seed, top_p=top_p).tokens[: len(whole.tokens)] == whole.tokens


@few
@given(seed=st.integers(0, 10**6))
def test_numbers_are_the_models_own(seed) -> None:
    table = random_table(seed, 9)
    found = draw_one(table, seed=seed, temperature=2.0, top_k=4)
    expected = [table(found.tokens[:place])[token] for place, token in enumerate(found.tokens)]
    assert found.log_probs == pytest.approx(expected, abs=1e-6)
    assert found.score == found.total_log_prob == pytest.approx(sum(expected), abs=1e-5)
    assert found.finished == (EOS_ID in found.tokens)
    assert EOS_ID not in found.tokens[:-1]
    assert not set(found.tokens) & set(NEVER_WRITTEN)
    assert len(found.tokens) <= 9


def test_pieces_are_drawn_as_often_as_they_are_probable() -> None:
    probabilities = {4: 0.5, 5: 0.3, EOS_ID: 0.2}
    table = follow({(): {piece: math.log(value) for piece, value in probabilities.items()}}, 6)
    drawn = [draw_one(table, 1, seed=seed).tokens[0] for seed in range(600)]
    for piece, value in probabilities.items():
        # 600 independent draws: four standard deviations are at most 0.082
        assert drawn.count(piece) / 600 == pytest.approx(value, abs=0.082)


def test_a_forced_prefix_may_be_anything_and_may_be_complete() -> None:
    table = random_table(3, 9)
    assert draw_one(table, 5, forced=(1, 8)).tokens[:2] == (1, 8)
    complete = draw_one(table, 5, forced=(4, EOS_ID))
    assert (complete.tokens, complete.finished) == ((4, EOS_ID), True)
    with pytest.raises(InputError, match="<EOS>"):
        draw_one(table, 5, forced=(EOS_ID, 4))


def test_a_dead_end_is_cut_off_and_no_crash() -> None:
    found = draw_one(follow({(): {4: 0.0}}, 6), 5)
    assert (found.tokens, found.finished) == ((4,), False)


def test_scores_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(TransformerError, match="log-probabilities must be numbers"):
        draw_one(lambda written: [math.nan] * 6)


@few
@given(seed=st.integers(0, 10**6), size=st.integers(1, 3))
def test_no_run_is_drawn_twice(seed: int, size: int) -> None:
    table = random_table(seed, 8, memory=1)
    drawn = draw_one(table, 30, temperature=0.3, seed=seed % 100, no_repeat_ngram=size)
    runs = [drawn.tokens[at : at + size] for at in range(len(drawn.tokens) - size + 1)]
    assert len(runs) == len(set(runs))
    row = table(())
    assert drawn.log_probs[0] == pytest.approx(row[drawn.tokens[0]])  # the model's own, whatever was barred


def test_a_forced_repeat_is_taken_as_it_is() -> None:
    drawn = draw_one(random_table(3, 8), 6, forced=(5, 5, 5), no_repeat_ngram=1)
    assert drawn.tokens[:3] == (5, 5, 5)
    assert 5 not in drawn.tokens[3:]
