"""Searches that are steered: a forced prefix, no repeated runs, a coverage penalty. On toys whose truth is counted."""

from __future__ import annotations

import dataclasses
import math
import random
from dataclasses import dataclass

import pytest
import torch
from decoding_toys import Table, ToyState, brute_force, follow, plain_beam, random_table, toy_step
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from transformer.config import EOS_ID, UNK_ID
from transformer.decoding.beam import Hypothesis, beam_search, length_penalty, trace_beam_search
from transformer.decoding.options import SearchOptions
from transformer.decoding.rules import repeats
from transformer.decoding.trace import BeamTrace
from transformer.errors import InputError, TransformerError

SEEDS = st.integers(0, 10**6)
BEAMS = st.integers(1, 4)
ALPHAS = st.sampled_from([0.0, 0.6, 1.5])
few = settings(max_examples=25, deadline=None)


@dataclass(frozen=True)
class CoveredToy(ToyState):
    """A toy whose log-coverage is any number that what it was fed makes."""

    def reorder(self, index: Tensor) -> CoveredToy:
        rows = index.tolist()
        return CoveredToy(tuple(self.tables[row] for row in rows), tuple(self.fed[row] for row in rows))

    def log_coverage(self) -> Tensor:
        return torch.tensor([log_coverage(row[1:]) for row in self.fed])


def covered_step(last: Tensor, state: CoveredToy) -> tuple[Tensor, CoveredToy]:
    log_probs, grown = toy_step(last, state)
    return log_probs, CoveredToy(grown.tables, grown.fed)


def log_coverage(read: tuple[int, ...]) -> float:
    """Of the pieces read before the last one is written; grows towards 0 with them, as coverage does."""
    return -sum(random.Random(f"{place}").random() * 0.8 ** sum(read[place:]) for place in range(6))


def barred(table: Table, size: int, after: int = 0) -> Table:
    """A table in which a run of ``size`` pieces cannot be written twice, once ``after`` pieces are written."""

    def found(written: tuple[int, ...]) -> list[float]:
        never = repeats(written, size) if size and len(written) >= after else set()
        return [-math.inf if piece in never else value for piece, value in enumerate(table(written))]

    return found


def begun(table: Table, prefix: tuple[int, ...]) -> Table:
    """A table that can only begin with ``prefix``."""

    def found(written: tuple[int, ...]) -> list[float]:
        if len(written) >= len(prefix):
            return table(written)
        return [v if piece == prefix[len(written)] else -math.inf for piece, v in enumerate(table(written))]

    return found


def found_in(table: Table, max_length: int, forced: tuple[int, ...] = (), **options) -> list[Hypothesis]:
    (found,) = beam_search(covered_step, CoveredToy.start(table), [max_length], SearchOptions(**options), forced=forced)
    return found


def traced(table: Table, max_length: int, forced: tuple[int, ...] = (), **options) -> BeamTrace:
    state = CoveredToy.start(table)
    return trace_beam_search(covered_step, state, max_length, SearchOptions(**options), str, forced=forced)


# ---------------------------------------------------------------------------------------------- forced prefix


@few
@given(seed=SEEDS, beam_size=BEAMS, alpha=ALPHAS, prefix=st.lists(st.integers(4, 7), max_size=4).map(tuple))
def test_a_forced_prefix_is_a_search_that_knows_no_other_beginning(seed, beam_size, alpha, prefix) -> None:
    table = random_table(seed, 8)
    options = {"beam_size": beam_size, "length_penalty": alpha, "nbest": beam_size}
    found = found_in(table, 7, prefix, **options)
    expected = found_in(begun(table, prefix), 7, **options)
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.tokens[: len(prefix)] == prefix
        assert (one.log_probs, one.score, one.finished) == (other.log_probs, other.score, other.finished)


@few
@given(seed=SEEDS, beam_size=BEAMS, data=st.data())
def test_forcing_the_beginning_of_the_best_does_not_lose_it(seed, beam_size, data) -> None:
    # True of greedy search; a wider beam may find a better one, as it has no rivals to the prefix to keep.
    table = random_table(seed, 8)
    (best,) = found_in(table, 7, beam_size=beam_size)
    cut = data.draw(st.integers(0, len(best.tokens)))
    (found,) = found_in(table, 7, best.tokens[:cut], beam_size=beam_size)
    assert found == best or (beam_size > 1 and found.tokens[:cut] == best.tokens[:cut])


@few
@given(seed=SEEDS, beam_size=BEAMS, prefix=st.lists(st.integers(3, 7), min_size=1, max_size=3).map(tuple))
def test_forced_steps_have_one_node_with_its_true_rank(seed, beam_size, prefix) -> None:
    prefix = prefix if EOS_ID not in prefix else (*prefix[: prefix.index(EOS_ID)], EOS_ID)
    table = random_table(seed, 8)
    trace = traced(table, 7, prefix, beam_size=beam_size, nbest=beam_size)
    assert trace.forced == len(prefix)
    for step, piece in enumerate(prefix, start=1):
        (index,) = trace.at_step(step)
        node = trace.nodes[index]
        row = table(prefix[: step - 1])
        allowed = sorted(range(EOS_ID, 8), key=lambda other: -row[other])
        assert (node.token_id, node.rank) == (piece, allowed.index(piece))
        assert node.log_prob == pytest.approx(row[piece], abs=1e-6)
        assert node.status == ("finished" if piece == EOS_ID else "kept")
    found = found_in(table, 7, prefix, beam_size=beam_size, nbest=beam_size)
    assert [trace.tokens(index) for index in trace.hypotheses] == [one.tokens for one in found]
    if prefix[-1] == EOS_ID:
        assert [one.tokens for one in found] == [prefix]


def test_a_batch_has_one_prefix_for_all_and_each_its_own_length() -> None:
    tables = [random_table(seed, 8) for seed in range(3)]
    lengths = [2, 5, 9]
    options = SearchOptions(beam_size=3, nbest=3)
    together = beam_search(toy_step, ToyState.start(*tables), lengths, options, forced=(4, 6))
    for table, length, found in zip(tables, lengths, together, strict=True):
        assert found == found_in(table, length, (4, 6), beam_size=3, nbest=3)
    assert [one.tokens for one in together[0]] == [(4, 6)]  # no room for more
    assert not together[0][0].finished


def test_a_prefix_longer_than_the_longest_translation_is_all_of_it() -> None:
    (found,) = found_in(random_table(1, 8), 2, (4, 5, 6))
    assert (found.tokens, found.finished) == ((4, 5, 6), False)


def test_what_a_search_never_writes_can_be_forced() -> None:
    trace = traced(random_table(1, 8), 6, (UNK_ID,), beam_size=2)
    assert trace.nodes[1].token_id == UNK_ID
    assert UNK_ID not in {node.token_id for node in trace.nodes[2:]}


def test_a_prefix_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="behind <EOS>"):
        found_in(random_table(1, 8), 6, (EOS_ID, 4))
    with pytest.raises(TransformerError, match="must be numbers"):
        found_in(lambda written: [math.nan] * 8, 6, (4,))


# ---------------------------------------------------------------------------------------------- no repeated runs


@few
@given(seed=SEEDS, beam_size=BEAMS, size=st.integers(1, 3), prefix=st.sampled_from([(), (4, 5, 4, 5), (6,)]))
def test_no_repeats_is_a_model_that_cannot_repeat(seed, beam_size, size, prefix) -> None:
    table = random_table(seed, 7, memory=1)  # with a memory of one piece it would go round in circles
    options = {"beam_size": beam_size, "nbest": beam_size}
    found = found_in(table, 10, prefix, no_repeat_ngram=size, **options)
    expected = found_in(begun(barred(table, size, after=len(prefix)), prefix), 10, **options)
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.log_probs for one in found] == [one.log_probs for one in expected]  # not renormalised
    for one in found:
        runs = [one.tokens[start : start + size] for start in range(len(one.tokens) - size + 1)]
        behind = runs[max(0, len(prefix) - size + 1) :]
        assert all(runs.count(run) == 1 for run in behind)


def test_the_last_piece_that_is_left_is_the_end() -> None:
    table = follow({}, 6)

    def only(written: tuple[int, ...]) -> list[float]:
        return [-math.inf] * EOS_ID + [-9.0, -0.1, -0.2]

    assert table(()) != only(())
    (found,) = found_in(only, 20, beam_size=1, no_repeat_ngram=1)
    assert found.tokens == (4, 5, EOS_ID)
    assert found_in(only, 6, beam_size=1)[0].tokens == (4,) * 6


# ---------------------------------------------------------------------------------------------- coverage penalty


def rescored(found: list[tuple[float, tuple[int, ...]]], beta: float) -> list[tuple[float, tuple[int, ...]]]:
    return sorted(((s + beta * log_coverage(tokens[:-1]), tokens) for s, tokens in found), key=lambda pair: -pair[0])


@few
@given(seed=SEEDS, alpha=ALPHAS, beta=st.sampled_from([0.1, 1.0, 5.0]), max_length=st.integers(1, 4))
def test_a_wide_beam_finds_the_best_by_the_whole_score(seed, alpha, beta, max_length) -> None:
    table = random_table(seed, 6)
    truth = rescored(brute_force(table, 6, max_length, alpha), beta)
    nbest = min(len(truth), 4)
    found = found_in(table, max_length, beam_size=16, length_penalty=alpha, nbest=nbest, coverage_penalty=beta)
    assert [one.score for one in found] == pytest.approx([score for score, _ in truth[:nbest]], abs=1e-5)
    for one in found:
        assert one.coverage == pytest.approx(beta * log_coverage(one.tokens[:-1]), abs=1e-5)
        assert one.coverage <= 0.0
        assert one.score == one.total_log_prob / length_penalty(len(one.tokens), alpha) + one.coverage


@few
@given(seed=SEEDS, beam_size=st.integers(2, 5), alpha=ALPHAS, beta=st.sampled_from([0.2, 2.0]))
def test_stopping_early_changes_no_hypothesis(seed, beam_size, alpha, beta) -> None:
    table = random_table(seed, 8)
    max_length = 6
    plain = plain_beam(table, max_length, SearchOptions(beam_size=beam_size, length_penalty=alpha))

    def score(tokens: tuple[int, ...]) -> float:
        total = torch.zeros(())
        for place, token in enumerate(tokens):
            total = total + torch.tensor(table(tokens[:place])[token])
        return float(total) / length_penalty(len(tokens), alpha) + beta * log_coverage(tokens[:-1])

    finished = sorted((tokens for tokens in plain if tokens[-1] == EOS_ID), key=lambda tokens: -score(tokens))
    cut_off = sorted((tokens for tokens in plain if tokens[-1] != EOS_ID), key=lambda tokens: -score(tokens))
    for nbest in range(1, beam_size + 1):
        options = {"beam_size": beam_size, "length_penalty": alpha, "nbest": nbest, "coverage_penalty": beta}
        found = found_in(table, max_length, **options)
        assert [one.tokens for one in found] == [*finished, *cut_off][:nbest]


@few
@given(seed=SEEDS, beam_size=BEAMS, prefix=st.sampled_from([(), (5, 4)]))
def test_coverage_changes_scores_and_nothing_of_the_tree(seed, beam_size, prefix) -> None:
    table = random_table(seed, 8)
    options = {"beam_size": beam_size, "nbest": beam_size}
    without = traced(table, 6, prefix, **options)
    trace = traced(table, 6, prefix, coverage_penalty=0.5, **options)
    for node, other in zip(trace.nodes[1:], without.nodes[1:], strict=False):  # one of them may stop earlier
        assert dataclasses.replace(node, score=0.0, coverage=0.0) == dataclasses.replace(other, score=0.0)
        assert node.score == other.score + node.coverage
        assert node.coverage == pytest.approx(0.5 * log_coverage(trace.tokens(node.parent)), abs=1e-6)
        assert other.coverage == 0.0


def test_a_coverage_penalty_needs_a_state_that_counts() -> None:
    with pytest.raises(InputError, match="coverage_penalty must be 0 for a state without coverage"):
        beam_search(toy_step, ToyState.start(random_table(1, 8)), [5], SearchOptions(coverage_penalty=0.1))
