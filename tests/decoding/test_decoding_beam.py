"""Laws of the search, on toy models for which the truth can be counted out."""

from __future__ import annotations

import math

import pytest
import torch
from decoding_toys import (
    ToyState,
    brute_force,
    coarse_table,
    follow,
    greedy,
    plain_beam,
    random_table,
    total_of,
    toy_step,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.config import EOS_ID, PAD_ID, SOS_ID, UNK_ID
from transformer.decoding.beam import Hypothesis, SearchOptions, beam_search, length_penalty
from transformer.decoding.options import WIDEST_BEAM
from transformer.errors import InputError, TransformerError

ALPHAS = st.sampled_from([0.0, 0.6, 1.0, 2.5])
SEEDS = st.integers(0, 10**6)
LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=4)
few = settings(max_examples=40, deadline=None)


def search_one(table, max_length: int, **options) -> list[Hypothesis]:
    (found,) = beam_search(toy_step, ToyState.start(table), [max_length], SearchOptions(**options))
    return found


@few
@given(
    seed=SEEDS,
    vocabulary=st.integers(5, 7),
    max_length=st.integers(1, 4),
    alpha=ALPHAS,
    memory=st.sampled_from([0, 1, None]),
)
def test_wide_beam_equals_brute_force(seed, vocabulary, max_length, alpha, memory) -> None:
    table = random_table(seed, vocabulary, memory=memory)
    truth = brute_force(table, vocabulary, max_length, alpha)
    # As many places as there are texts that may go on, at most 3 letters to the power of 4: nothing is ever pruned.
    beam_size = min(WIDEST_BEAM, max(2, (vocabulary - EOS_ID) ** max_length))
    found = search_one(table, max_length, beam_size=beam_size, length_penalty=alpha, nbest=min(len(truth), beam_size))
    assert [hypothesis.score for hypothesis in found] == pytest.approx([score for score, _ in truth[: len(found)]])
    if memory != 0:  # without memory, permutations of one translation tie
        assert found[0].tokens == truth[0][1]
    assert all(hypothesis.finished for hypothesis in found)


@few
@given(seed=SEEDS, beam_size=st.integers(2, 6), max_length=st.integers(1, 9), alpha=ALPHAS, coarse=st.booleans())
def test_stopping_early_changes_no_hypothesis(seed, beam_size, max_length, alpha, coarse) -> None:
    table = coarse_table(seed, 8) if coarse else random_table(seed, 8)
    options = SearchOptions(beam_size=beam_size, length_penalty=alpha)
    to_the_end = plain_beam(table, max_length, options)
    for nbest in range(1, beam_size + 1):
        found = search_one(table, max_length, beam_size=beam_size, length_penalty=alpha, nbest=nbest)
        assert [hypothesis.tokens for hypothesis in found] == to_the_end[:nbest]


def test_the_search_does_stop_early() -> None:
    calls = 0

    def counted(last, state):
        nonlocal calls
        calls += 1
        return toy_step(last, state)

    table = follow({(): {4: -0.1, 5: -3.0}, (4,): {EOS_ID: -0.1, 4: -6.0}, (5,): {4: -1.0}}, 6)
    beam_search(counted, ToyState.start(table), [50], SearchOptions(beam_size=2, length_penalty=0.6))
    # After two steps -0.2 / lp(2) beats the best live total -4.0 / lp(50) = -4.0 / 3.88.
    assert calls == 2


@few
@given(seed=SEEDS, max_length=st.integers(1, 12), alpha=ALPHAS, coarse=st.booleans())
def test_beam_of_one_is_greedy(seed, max_length, alpha, coarse) -> None:
    table = coarse_table(seed, 7) if coarse else random_table(seed, 7)
    (found,) = search_one(table, max_length, beam_size=1, length_penalty=alpha)
    assert found.tokens == greedy(table, max_length)
    assert found.finished == (found.tokens[-1] == EOS_ID)


def test_greedy_does_not_go_on_with_the_runner_up() -> None:
    # With alpha = 2 the longer (5, 4, <EOS>) scores better, but greedy decoding never sees it.
    table = follow({(): {EOS_ID: -1.0, 5: -1.1}, (5,): {4: 0.0}, (5, 4): {EOS_ID: 0.0}}, 6)
    assert search_one(table, 9, beam_size=1, length_penalty=2.0)[0].tokens == (EOS_ID,)
    assert search_one(table, 9, beam_size=2, length_penalty=2.0)[0].tokens == (5, 4, EOS_ID)


@few
@given(
    seed=SEEDS, beam_size=st.integers(1, 4), alpha=ALPHAS, lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4)
)
def test_a_batch_equals_its_sentences_alone(seed, beam_size, alpha, lengths) -> None:
    tables = [random_table(seed + place, 9) for place in range(len(lengths))]
    options = SearchOptions(beam_size=beam_size, length_penalty=alpha, nbest=beam_size)
    together = beam_search(toy_step, ToyState.start(*tables), torch.tensor(lengths), options)
    for table, length, found in zip(tables, lengths, together, strict=True):
        assert found == search_one(table, length, beam_size=beam_size, length_penalty=alpha, nbest=beam_size)


@few
@given(seed=SEEDS, beam_size=st.integers(1, 5), alpha=ALPHAS)
def test_numbers_of_a_hypothesis_are_the_models_own(seed, beam_size, alpha) -> None:
    table = random_table(seed, 8)
    for hypothesis in search_one(table, 7, beam_size=beam_size, length_penalty=alpha, nbest=beam_size):
        tokens = hypothesis.tokens
        expected = [table(tokens[:place])[token] for place, token in enumerate(tokens)]
        assert hypothesis.log_probs == pytest.approx(expected, abs=1e-6)
        assert hypothesis.total_log_prob == total_of(table, tokens)
        assert hypothesis.score == hypothesis.total_log_prob / length_penalty(len(tokens), alpha)
        assert hypothesis.finished == (EOS_ID in tokens)
        assert EOS_ID not in tokens[:-1]


def test_worked_example() -> None:
    """The example of the search's docstring, played on: A = 4, B = 5, x = 6, y = 7."""
    table = follow(
        {
            (): {4: -1.0, 5: -1.5},
            (4,): {EOS_ID: -0.2, 6: -0.9},
            (5,): {7: -0.1, EOS_ID: -1.0, 6: -3.0},
            (5, 7): {EOS_ID: -0.1},
            (4, 6): {EOS_ID: -0.3},
        },
        8,
    )
    found = search_one(table, 10, beam_size=2, length_penalty=0.0, nbest=2)
    assert [hypothesis.tokens for hypothesis in found] == [(4, EOS_ID), (5, 7, EOS_ID)]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([-1.2, -1.7])
    # Longer translations gain from a length penalty: -1.7 / (8/6)^2 = -0.956 against -1.2 / (7/6)^2 = -0.882,
    # and with alpha = 4, -0.538 against -0.648.
    order = [(4, EOS_ID), (5, 7, EOS_ID)]
    for alpha, expected in ((2.0, order), (4.0, order[::-1])):
        found = search_one(table, 10, beam_size=2, length_penalty=alpha, nbest=2)
        assert [hypothesis.tokens for hypothesis in found] == expected


@pytest.mark.parametrize("beam_size", [1, 3])
def test_special_pieces_are_never_written(beam_size: int) -> None:
    row = {PAD_ID: -0.01, UNK_ID: -0.02, SOS_ID: -0.03, 4: -5.0, EOS_ID: -6.0}
    (found,) = search_one(lambda written: [row[piece] for piece in range(5)], 3, beam_size=beam_size)
    assert set(found.tokens) <= {EOS_ID, 4}


def test_finished_hypotheses_stand_before_those_cut_off() -> None:
    table = follow({(): {4: -0.1, EOS_ID: -9.0}, (4,): {4: -0.1}, (4, 4): {4: -0.1, 5: -0.2}}, 6)
    found = search_one(table, 3, beam_size=3, nbest=3)
    assert [(hypothesis.tokens, hypothesis.finished) for hypothesis in found] == [
        ((EOS_ID,), True),
        ((4, 4, 4), False),
        ((4, 4, 5), False),
    ]
    (cut_off,) = search_one(table, 3, beam_size=1)
    assert cut_off.tokens == (4, 4, 4)
    assert not cut_off.finished


def test_equal_candidates_are_ordered_by_prefix_then_piece() -> None:
    found = search_one(lambda written: [-1.0] * 40, 2, beam_size=3, length_penalty=0.0, nbest=3)
    # Step 1 looks at pieces 3 to 8, keeps 4, 5, 6; step 2 at the first six behind prefix (4,).
    assert [hypothesis.tokens for hypothesis in found] == [(EOS_ID,), (4, EOS_ID), (4, 4)]


def test_a_dead_end_is_cut_off_and_no_crash() -> None:
    table = follow({(): {4: -1.0}}, 6)
    (found,) = search_one(table, 5, beam_size=2)
    assert found.tokens == (4,)
    assert not found.finished
    (nothing,) = search_one(follow({}, 6), 5, beam_size=2)
    assert nothing.tokens == ()


def test_scores_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(TransformerError, match="log-probabilities must be numbers"):
        search_one(lambda written: [math.nan] * 6, 5, beam_size=2)


def test_a_longest_length_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="max_length"):
        search_one(random_table(1, 6), 0, beam_size=2)


def test_no_sentences_no_result() -> None:
    assert beam_search(toy_step, ToyState.start(), [], SearchOptions()) == []


def test_rows_are_reordered_only_when_their_order_changes() -> None:
    class Stubborn(ToyState):
        def reorder(self, index):
            raise AssertionError(index.tolist())

    state = Stubborn((random_table(5, 9),), ((),))

    def step(last, state):
        log_probs, grown = toy_step(last, state)
        return log_probs, Stubborn(grown.tables, grown.fed)

    ((found,),) = beam_search(step, state, [12], SearchOptions(beam_size=1))
    assert found.tokens == greedy(random_table(5, 9), 12)
