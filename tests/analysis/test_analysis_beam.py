"""Stories of nodes, on a tree written by hand and on trees of searches over random tables."""

from __future__ import annotations

import math

import numpy as np
import pytest

from transformer.analysis.beam import coverage, coverage_penalty, parting, story
from transformer.decoding.trace import BeamNode, BeamTrace
from transformer.errors import InputError


def node(step: int, piece: str, parent: int | None, total: float, rank: int, status: str) -> BeamNode:
    return BeamNode(step, ord(piece[-1]), piece, parent, -1.0, total, total, rank, status)


TREE = BeamTrace(
    nodes=(
        node(0, "<SOS>", None, 0.0, 0, "kept"),  # 0
        node(1, "a", 0, -1.0, 0, "kept"),  # 1
        node(1, "b", 0, -1.1, 1, "kept"),  # 2
        node(1, "c", 0, -1.2, 2, "pruned"),  # 3
        node(1, "d", 0, -1.9, 3, "pruned"),  # 4
        node(2, "e", 2, -1.3, 0, "kept"),  # 5
        node(2, "f", 2, -1.5, 1, "finished"),  # 6
        node(2, "g", 1, -1.6, 2, "kept"),  # 7
        node(2, "h", 1, -1.7, 3, "pruned"),  # 8
        node(3, "i", 5, -1.4, 0, "finished"),  # 9
        node(3, "j", 5, -1.8, 1, "kept"),  # 10
        node(3, "k", 5, -2.0, 2, "kept"),  # 11
        node(3, "l", 5, -2.5, 3, "pruned"),  # 12
    ),
    hypotheses=(9,),
)
"""M = 2. "a" goes on as "a g", of which no continuation is even looked at in step 3."""


def test_a_pruned_node_lost_where_it_stands() -> None:
    found = story(TREE, 3)
    assert (found.outcome, found.status, found.lost_at, found.pieces) == ("lost", "pruned", 1, ("c",))
    assert found.displaced == ((1, -1.0), (2, -1.1))
    assert found.needed == -1.1
    assert found.gap == pytest.approx(0.1)
    assert not found.gap_is_bound
    found = story(TREE, 8)
    assert found.pieces == ("a", "h")
    assert found.displaced == ((5, -1.3), (6, -1.5), (7, -1.6))
    assert (found.lost_at, found.needed) == (2, -1.6)  # the finished one takes no place in the beam
    assert found.gap == pytest.approx(0.1)


def test_a_kept_node_lost_where_the_last_that_went_on_from_it_fell_out() -> None:
    for index, pieces in ((1, ("a",)), (7, ("a", "g"))):
        found = story(TREE, index)
        assert (found.outcome, found.status, found.lost_at, found.pieces) == ("lost", "kept", 3, pieces)
        assert found.displaced == ((9, -1.4), (10, -1.8), (11, -2.0))
        assert found.needed == -2.0
        # Its continuations were not among the candidates: they had at most the total of the last one, -2.5.
        assert (found.gap, found.gap_is_bound) == (0.5, True)


def test_those_that_were_not_lost() -> None:
    outcomes = {index: story(TREE, index).outcome for index in range(len(TREE.nodes))}
    assert outcomes[0] == outcomes[2] == outcomes[5] == outcomes[9] == "won"
    assert outcomes[6] == "outscored"
    assert outcomes[10] == outcomes[11] == "open"
    for index in (0, 2, 5, 6, 9, 10, 11):
        found = story(TREE, index)
        assert (found.lost_at, found.displaced, found.needed, found.gap) == (None, (), None, None)
    assert story(TREE, 0).pieces == ()
    assert story(TREE, 2).hypotheses == (0,)
    returned = BeamTrace(TREE.nodes, (9, 6))
    assert (story(returned, 6).outcome, story(returned, 2).hypotheses) == ("returned", (0, 1))


def test_greedy_search_keeps_one_or_ends() -> None:
    tree = BeamTrace(
        (
            node(0, "<SOS>", None, 0.0, 0, "kept"),
            node(1, "a", 0, -1.0, 0, "finished"),
            node(1, "b", 0, -1.25, 1, "pruned"),
        ),
        (1,),
    )
    found = story(tree, 2)
    assert (found.lost_at, found.displaced, found.needed, found.gap) == (1, ((1, -1.0),), -1.0, 0.25)


@pytest.mark.parametrize("index", [-1, 13])
def test_a_node_that_is_not_there_is_refused(index: int) -> None:
    with pytest.raises(InputError, match="node must be from 0 to 12"):
        story(TREE, index)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_every_node_of_a_search_has_a_story(beam_size: int, translator) -> None:
    trace = translator.trace_beams("Two dogs run.", beam_size=beam_size, max_extra=2)
    for index, one in enumerate(trace.nodes):
        found = story(trace, index)
        assert (found.step, found.total, found.rank, found.status) == (
            one.step,
            one.total_log_prob,
            one.rank,
            one.status,
        )
        assert (found.outcome in ("won", "returned")) == bool(found.hypotheses)
        assert (found.lost_at is not None) == (found.outcome == "lost")
        if one.status == "pruned":
            assert found.lost_at == one.step
        if found.lost_at is not None:
            assert found.lost_at >= one.step + (one.status == "kept")
            assert found.gap is not None
            assert found.gap >= 0.0
            assert all(trace.nodes[other].step == found.lost_at for other, _ in found.displaced)
            assert found.displaced


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [([], [], None), ([4, 3], [4, 3], None), ([4, 3], [5, 3], 0), ([4, 5, 3], [4, 3], 1), ([4], [4, 3], 1)],
)
def test_parting(first: list[int], second: list[int], expected: int | None) -> None:
    assert parting(first, second) == parting(second, first) == expected


def test_coverage_by_hand() -> None:
    cross = np.array([[0.5, 0.25, 0.25, 0.0], [0.75, 0.25, 0.0, 0.0]], dtype=np.float32)
    assert coverage(cross).tolist() == [1.0, 0.5, 0.25, 0.0]
    counted = np.array([False, True, True, False])
    assert coverage_penalty(cross, counted, 0.5) == pytest.approx(0.5 * (math.log(0.5) + math.log(0.25)))
    assert coverage_penalty(cross, np.zeros(4, dtype=bool)) == 0.0
    assert -100.0 < coverage_penalty(cross, np.array([False, False, False, True])) < -80.0


def test_coverage_is_what_the_search_added(translator) -> None:
    text = "Two dogs run through the tall grass."
    for hypothesis in translator.translate(text, beam_size=3, coverage_penalty=0.4, max_extra=2).hypotheses:
        record = translator.inspect(text, target_ids=hypothesis.ids)
        counted = np.array([not piece.special for piece in record.source])
        expected = coverage_penalty(record.cross[-1].mean(axis=0), counted, 0.4)
        assert hypothesis.coverage == pytest.approx(expected, abs=1e-4)
