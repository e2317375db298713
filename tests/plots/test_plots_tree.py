from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from test_plots_theme import contrast

from transformer.analysis.tree import LAYOUTS, tree_layout
from transformer.decoding.trace import FINISHED, KEPT, PRUNED, BeamNode, BeamTrace
from transformer.errors import InputError
from transformer.plots import theme
from transformer.plots.tree import LONGEST_LABEL, NAMES, geometry, least_width, ordinal, search_tree

#  <SOS> ─ a ─ c ─ <EOS> (best)      b is kept and lost, d pruned, and the other <EOS> is listed as well
NODES = (
    BeamNode(0, 2, "<SOS>", None, 0.0, 0.0, 0.0, 0, KEPT),
    BeamNode(1, 10, "<b>a</b>", 0, -0.1, -0.1, -0.1, 0, KEPT),
    BeamNode(1, 11, "", 0, -0.2, -0.2, -0.2, 1, KEPT),
    BeamNode(2, 12, "c" * 40, 1, -0.1, -0.2, -0.2, 0, KEPT),
    BeamNode(2, 3, "<EOS>", 1, -0.5, -0.6, -0.6, 1, FINISHED),
    BeamNode(2, 13, "d", 2, -0.9, -1.1, -1.1, 2, PRUNED),
    BeamNode(3, 3, "<EOS>", 3, -0.1, -0.3, -0.3, 0, FINISHED),
)
TRACE = BeamTrace(NODES, (6, 4))
ALL = tree_layout(TRACE, None)


def named(figure: Any, name: str) -> Any:
    return next(trace for trace in figure.data if trace.name == name)


def segments(trace: Any) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Where each line of a trace begins and ends."""
    points = list(zip(trace.x, trace.y, strict=True))
    assert all(point == (None, None) for point in points[3::4])  # a gap after each line
    return [(points[place], points[place + 2]) for place in range(0, len(points), 4)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_a_line_for_each_node_from_its_parent(layout: str, colours: theme.Palette) -> None:
    found = tree_layout(TRACE, None, layout=layout)
    figure = search_tree(TRACE, found, colours)
    handles = figure.data[-1]
    count = len(found.nodes)
    place = {
        data[0]: (x, y)
        for data, x, y in zip(handles.customdata[:count], handles.x[:count], handles.y[:count], strict=True)
    }
    ways = {"best": (1, 3, 6), "returned": (4,), "lost": (2,), "pruned": (5,)}
    for fate, nodes in ways.items():
        ends = segments(named(figure, NAMES[fate]))
        assert ends == [(place[NODES[node].parent or 0], place[node]) for node in nodes]
    widths = [named(figure, NAMES[fate]).line.width for fate in ("pruned", "lost", "returned", "best")]
    assert widths == sorted(set(widths))
    assert named(figure, NAMES["pruned"]).line.dash == "dot"


def test_every_step_has_its_column_and_no_label_reaches_the_next() -> None:
    plan = geometry(TRACE, ALL)
    assert len(plan.columns) == 4
    for at, shelf, following in zip(plan.columns, plan.shelves, plan.columns[1:], strict=False):
        assert at < shelf < following
    figure = search_tree(TRACE, ALL, theme.LIGHT)
    assert list(figure.layout.xaxis.ticktext) == ["0", "1", "2", "3"]
    assert list(figure.layout.xaxis.tickvals) == list(plan.columns)
    longer = dataclasses.replace(NODES[1], piece="a longer label")
    wider = BeamTrace((NODES[0], longer, *NODES[2:]), TRACE.hypotheses)
    assert geometry(wider, ALL).columns[2] > plan.columns[2]
    assert least_width(wider, ALL) > least_width(TRACE, ALL)


def test_labels_are_escaped_cut_and_never_empty() -> None:
    figure = search_tree(TRACE, ALL, theme.LIGHT)
    texts = [text for trace in figure.data if trace.mode == "text" for text in trace.text]
    assert "<b>&lt;b&gt;a&lt;/b&gt;</b>" in texts  # bold, being on the way to the best
    assert "␀" in texts
    assert f"<b>{'c' * (LONGEST_LABEL - 1)}…</b>" in texts
    assert "<b>&lt;EOS&gt; 1st</b>" in texts
    assert "&lt;EOS&gt; 2nd" in texts
    assert "90.5 %" in texts  # exp(-0.1)
    assert "40.7 %" in texts  # exp(-0.9)


def test_clicks_name_nodes_and_hover_tells_the_numbers() -> None:
    handles = search_tree(TRACE, tree_layout(TRACE), theme.LIGHT).data[-1]
    assert [data[0] for data in handles.customdata] == [0, 1, 2, 3, 4, 6] * 2
    assert handles.hovertemplate == "%{text}<extra></extra>"  # one of its own, or a click returns nothing
    said = dict(zip([data[0] for data in handles.customdata], handles.text, strict=True))
    assert said[6].startswith("<b>&lt;b&gt;a&lt;/b&gt; " + "c" * 40 + " &lt;EOS&gt;</b><br>step 3, rank 1: best")
    assert "probability 90.5 % (log -0.10)" in said[6]
    assert "log-probability so far -0.30, score -0.300" in said[6]
    assert "kept for a while, then lost" in said[2]


def test_ends_are_squares_and_fills_grow_with_the_probability() -> None:
    figure = search_tree(TRACE, ALL, theme.LIGHT)
    (markers,) = [trace for trace in figure.data if trace.mode == "markers" and trace.marker.line.width == 1.5]
    assert [symbol == "square" for symbol in markers.marker.symbol] == [node.status == FINISHED for node in NODES]
    fills = [contrast(colour, theme.LIGHT.background) for colour in markers.marker.color]
    by_probability = sorted(range(7), key=lambda node: NODES[node].log_prob)
    assert fills[by_probability[0]] == min(fills)
    assert fills[0] == max(fills)
    assert markers.marker.color[0] == theme.LIGHT.probability


def test_the_chosen_node_its_way_and_what_displaced_it_are_outlined() -> None:
    figure = search_tree(TRACE, ALL, theme.LIGHT, selected=5, marked=[3, 4])
    assert len(segments(named(figure, "the chosen node"))) == 2
    rings = [trace for trace in figure.data if trace.mode == "markers" and trace.marker.symbol == "circle-open"]
    assert [(len(ring.x), ring.marker.color) for ring in rings] == [(2, theme.LIGHT.warning), (1, theme.LIGHT.text)]
    plain = search_tree(TRACE, ALL, theme.LIGHT)
    assert not [trace for trace in plain.data if trace.name == "the chosen node"]


@pytest.mark.parametrize("arguments", [{"selected": 5}, {"marked": [5]}])
def test_nodes_that_are_not_drawn_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="must be among the nodes that are drawn"):
        search_tree(TRACE, tree_layout(TRACE), theme.LIGHT, **arguments)


@pytest.mark.parametrize(
    ("number", "word"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st")]
)
def test_ordinals(number: int, word: str) -> None:
    assert ordinal(number) == word


def test_a_search_that_ends_at_once_can_be_drawn() -> None:
    trace = BeamTrace((NODES[0], dataclasses.replace(NODES[4], step=1, parent=0)), (1,))
    figure = search_tree(trace, tree_layout(trace), theme.DARK, selected=1)
    assert figure.layout.height > 0
    assert list(figure.layout.xaxis.ticktext) == ["0", "1"]
