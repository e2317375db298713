"""A trace is the search itself, written down."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from decoding_toys import ToyState, coarse_table, follow, random_table, toy_step
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.config import EOS_ID, SOS_ID
from transformer.decoding.beam import SearchOptions, beam_search, length_penalty, trace_beam_search
from transformer.decoding.trace import BeamTrace

OPTIONS = st.builds(
    lambda beam_size, nbest, alpha: SearchOptions(beam_size, alpha, nbest=min(beam_size, nbest)),
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.6, 1.5]),
)
TABLES = st.builds(
    lambda seed, coarse: coarse_table(seed, 9) if coarse else random_table(seed, 9),
    st.integers(0, 10**6),
    st.booleans(),
)
many = settings(max_examples=60, deadline=None)


def traced(table, max_length: int, options: SearchOptions) -> BeamTrace:
    return trace_beam_search(toy_step, ToyState.start(table), max_length, options, lambda piece: f"p{piece}")


@many
@given(table=TABLES, options=OPTIONS, max_length=st.integers(1, 8))
def test_replaying_parents_gives_every_hypothesis(table, options, max_length) -> None:
    trace = traced(table, max_length, options)
    (found,) = beam_search(toy_step, ToyState.start(table), [max_length], options)
    assert len(trace.hypotheses) == len(found)
    for index, hypothesis in zip(trace.hypotheses, found, strict=True):
        node = trace.nodes[index]
        assert trace.tokens(index) == hypothesis.tokens
        assert trace.log_probs(index) == hypothesis.log_probs
        assert (node.total_log_prob, node.score) == (hypothesis.total_log_prob, hypothesis.score)
        assert (node.status == "finished") == hypothesis.finished


@many
@given(table=TABLES, options=OPTIONS, max_length=st.integers(1, 8))
def test_the_tree_keeps_the_books(table, options, max_length) -> None:
    trace = traced(table, max_length, options)
    root = trace.nodes[0]
    assert (root.step, root.token_id, root.parent, root.status) == (0, SOS_ID, None, "kept")
    for step in range(1, trace.steps + 1):
        candidates = [trace.nodes[index] for index in trace.at_step(step)]
        assert [node.rank for node in candidates] == list(range(len(candidates)))
        totals = [node.total_log_prob for node in candidates]
        assert totals == sorted(totals, reverse=True)
        assert len(candidates) <= 2 * options.beam_size
        counts = Counter(node.status for node in candidates)
        assert counts["kept"] <= options.beam_size
        if options.beam_size > 1 and len(candidates) == 2 * options.beam_size:
            assert counts["kept"] == options.beam_size
    for index, node in enumerate(trace.nodes[1:], start=1):
        assert node.parent is not None
        parent = trace.nodes[node.parent]
        assert node.parent < index
        assert (parent.step, parent.status) == (node.step - 1, "kept")
        assert node.piece == f"p{node.token_id}"
        assert node.total_log_prob == pytest.approx(parent.total_log_prob + node.log_prob, abs=1e-5)
        assert node.score == node.total_log_prob / length_penalty(node.step, options.length_penalty)
        assert node.log_prob == pytest.approx(table(trace.tokens(node.parent))[node.token_id], abs=1e-6)
        assert (node.status == "finished") <= (node.token_id == EOS_ID)
        assert index in trace.children(node.parent)


def test_worked_example() -> None:
    """The example of the search's docstring: A = 4, B = 5, x = 6, y = 7."""
    table = follow({(): {4: -1.0, 5: -1.5}, (4,): {EOS_ID: -0.2, 6: -0.9}, (5,): {7: -0.1, EOS_ID: -1.0, 6: -3.0}}, 8)
    trace = traced(table, 2, SearchOptions(beam_size=2, length_penalty=0.0, nbest=2))
    second = [trace.nodes[index] for index in trace.at_step(2)]
    assert [(node.parent, node.token_id, node.status) for node in second] == [
        (1, EOS_ID, "finished"),
        (2, 7, "kept"),
        (1, 6, "kept"),
        (2, EOS_ID, "finished"),
    ]
    assert [trace.path(index) for index in trace.hypotheses] == [[0, 1, 3], [0, 2, 6]]


def test_a_beam_of_one_shows_the_runner_up_as_pruned() -> None:
    table = follow({(): {EOS_ID: -1.0, 4: -1.1}}, 6)
    trace = traced(table, 5, SearchOptions(beam_size=1))
    assert [node.status for node in trace.nodes] == ["kept", "finished", "pruned"]
    assert trace.hypotheses == (1,)


def test_a_search_that_can_write_nothing_returns_its_start() -> None:
    trace = traced(lambda written: [-math.inf] * 6, 5, SearchOptions(beam_size=2))
    assert (trace.hypotheses, trace.steps, trace.tokens(0)) == ((0,), 0, ())
