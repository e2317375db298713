from __future__ import annotations

import itertools
import random

import pytest

from transformer.analysis.tree import LAYOUTS, drawn_nodes, fates, tree_layout
from transformer.decoding.trace import FINISHED, KEPT, PRUNED, BeamNode, BeamTrace
from transformer.errors import InputError


def random_trace(seed: int, beam: int = 4, steps: int = 12, forced: int = 0) -> BeamTrace:
    """A tree as a search leaves it behind, without a model."""
    source = random.Random(seed)
    nodes = [BeamNode(0, 2, "<SOS>", None, 0.0, 0.0, 0.0, 0, KEPT)]
    live = [0]
    finished: list[int] = []
    for step in range(1, steps + 1):
        if not live:
            break
        if step <= forced:
            nodes.append(BeamNode(step, 9, "w", live[0], -1.0, -float(step), -1.0, 700, KEPT))
            live = [len(nodes) - 1]
            continue
        parents = sorted(source.choice(live) for _ in range(2 * beam))
        source.shuffle(parents)
        kept = []
        for rank, parent in enumerate(parents):
            ended = source.random() < 0.15 and step > 3
            status = FINISHED if ended else KEPT if len(kept) < beam else PRUNED
            nodes.append(BeamNode(step, 3 if ended else 9, "w", parent, -1.0, -float(step), -1.0, rank, status))
            if status == KEPT:
                kept.append(len(nodes) - 1)
            elif status == FINISHED:
                finished.append(len(nodes) - 1)
        live = kept

    return BeamTrace(tuple(nodes), tuple((finished + live)[:3]), forced)


TRACES = [random_trace(seed, beam, forced=forced) for seed, beam, forced in itertools.product(range(8), (1, 4), (0, 3))]


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("pruned", [0, 2, None])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_two_nodes_of_a_step_come_closer_than_a_row(trace: BeamTrace, pruned: int | None, layout: str) -> None:
    found = tree_layout(trace, pruned, layout=layout)
    assert min(found.rows) == 0.0
    assert found.left_out == len(trace.nodes) - len(found.nodes)
    for step in range(trace.steps + 1):
        rows = sorted(row for row, node in zip(found.rows, found.nodes, strict=True) if trace.nodes[node].step == step)
        assert all(low - high >= 1.0 for high, low in itertools.pairwise(rows))


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("pruned", [0, None])
def test_no_two_branches_cross(trace: BeamTrace, pruned: int | None) -> None:
    found = tree_layout(trace, pruned)
    row = dict(zip(found.nodes, found.rows, strict=True))
    for step in range(1, trace.steps + 1):
        here = [node for node in found.nodes if trace.nodes[node].step == step]
        ends = [(row[trace.nodes[node].parent or 0], row[node]) for node in here]
        for (start, end), (other_start, other_end) in itertools.combinations(ends, 2):
            assert (start - other_start) * (end - other_end) >= 0.0


@pytest.mark.parametrize("trace", TRACES)
def test_the_way_to_the_best_is_straight_and_on_top(trace: BeamTrace) -> None:
    found = tree_layout(trace, None)
    assert {found.rows[node] for node in trace.path(trace.hypotheses[0])} == {0.0}


def test_fates_by_hand() -> None:
    #  <SOS> ─ a ─ c ─ <EOS> (best)      b is kept and lost, d pruned, e is the end of another listed translation
    nodes = (
        BeamNode(0, 2, "<SOS>", None, 0.0, 0.0, 0.0, 0, KEPT),
        BeamNode(1, 10, "a", 0, -0.1, -0.1, -0.1, 0, KEPT),
        BeamNode(1, 11, "b", 0, -0.2, -0.2, -0.2, 1, KEPT),
        BeamNode(2, 12, "c", 1, -0.1, -0.2, -0.2, 0, KEPT),
        BeamNode(2, 3, "<EOS>", 1, -0.5, -0.6, -0.6, 1, FINISHED),
        BeamNode(2, 13, "d", 2, -0.9, -1.1, -1.1, 2, PRUNED),
        BeamNode(3, 3, "<EOS>", 3, -0.1, -0.3, -0.3, 0, FINISHED),
    )
    trace = BeamTrace(nodes, (6, 4))
    assert fates(trace) == ("best", "best", "lost", "best", "returned", "pruned", "best")
    found = tree_layout(trace, None)
    assert found.nodes == (0, 1, 2, 3, 4, 5, 6)
    assert found.rows == (0.0, 0.0, 2.0, 0.0, 1.0, 2.0, 0.0)
    assert found.height == 2.0
    assert tree_layout(trace, None, layout="lanes").rows == (0.0, 0.0, 1.0, 0.0, 1.0, 2.0, 0.0)


@pytest.mark.parametrize("trace", TRACES)
def test_what_is_drawn(trace: BeamTrace) -> None:
    everything = set(range(len(trace.nodes)))
    pruned = {index for index in everything if trace.nodes[index].status == PRUNED}
    assert set(drawn_nodes(trace, None)) == everything
    assert set(drawn_nodes(trace, 0)) == everything - pruned
    one = drawn_nodes(trace, 1)
    for step in range(1, trace.steps + 1):
        shown = [index for index in one if trace.nodes[index].step == step and index in pruned]
        assert shown == [index for index in trace.at_step(step) if index in pruned][:1]
    for also in sorted(pruned)[-2:]:
        assert set(drawn_nodes(trace, 0, also)) == everything - pruned | {also}


def test_forced_steps_stand_in_the_first_lane() -> None:
    found = tree_layout(random_trace(1, forced=3), layout="lanes")
    assert found.rows[:4] == (0.0, 0.0, 0.0, 0.0)


def test_places_are_found() -> None:
    found = tree_layout(TRACES[6], 0)
    assert [found.place(node) for node in found.nodes] == list(range(len(found.nodes)))
    hidden = next(index for index, node in enumerate(TRACES[6].nodes) if node.status == PRUNED)
    assert found.place(hidden) is None
    assert found.place(10_000) is None


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ({"layout": "circle"}, "layout must be tree or lanes"),
        ({"pruned": -1}, "pruned must be at least 0"),
        ({"also": 10_000}, "also must be from 0 to"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, object], start: str) -> None:
    with pytest.raises(InputError, match=start):
        tree_layout(TRACES[0], **arguments)  # type: ignore[arg-type]
