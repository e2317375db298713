from __future__ import annotations

import numpy as np
import pytest

from transformer.analysis.maps import Axis
from transformer.plots import masks, theme

PALETTES = [theme.LIGHT, theme.DARK]
NAMES = ("<SOS>", "dog", "dog", "<b>")
SCORES = np.array([1.5, -2.0, 0.25, 3.0])
ALLOWED = np.array([True, True, False, False])
WEIGHTS = np.array([0.97, 0.03, 0.0, 0.0])
OPEN = np.array([0.17, 0.01, 0.05, 0.77])


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_one_row_before_and_after_its_mask(colours: theme.Palette) -> None:
    figure = masks.masked_row(NAMES, SCORES, ALLOWED, WEIGHTS, OPEN, colours)
    before, after, masked, opened, infinite = figure.data
    np.testing.assert_allclose(before.x, SCORES)
    np.testing.assert_allclose(after.x, [1.5, -2.0, np.nan, np.nan])
    np.testing.assert_allclose(masked.x, WEIGHTS)
    np.testing.assert_allclose(opened.x, OPEN)
    assert list(infinite.y) == [2, 3]
    assert set(infinite.text) == {masks.HIDDEN}
    assert (masked.name, opened.name) == ("with the mask", "without it")
    assert masked.marker.color == colours.decoder != opened.marker.color
    assert [shape.y0 for shape in figure.layout.shapes] == [1.5, 2.5]
    assert figure.layout.yaxis.ticktext[0] == "&lt;SOS&gt;"
    assert "&lt;b&gt;" in figure.layout.yaxis.ticktext[3]
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range
    assert figure.layout.xaxis.range[0] < -2.0


def test_a_row_that_sees_everything_has_nothing_hidden() -> None:
    figure = masks.masked_row(NAMES, SCORES, np.ones(4, dtype=bool), OPEN, OPEN, theme.LIGHT)
    assert len(figure.data[-1].y) == 0
    assert not figure.layout.shapes


def test_equal_scores_of_nothing_but_zero() -> None:
    figure = masks.masked_row(("<SOS>",), np.zeros(1), np.ones(1, dtype=bool), np.ones(1), np.ones(1), theme.LIGHT)
    low, high = figure.layout.xaxis.range
    assert low <= 0.0 < high


def axes(count: int) -> tuple[Axis, Axis, list[str]]:
    rows = Axis("prediction of", tuple(f"w{row}" for row in range(count)), (False,) * count)
    columns = Axis("piece", ("<i>", *(f"r{at}" for at in range(1, count - 1))), (False,) * (count - 1))
    return rows, columns, [f"o{at}" for at in range(count - 1)]


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_which_prediction_hangs_on_which_piece(colours: theme.Palette) -> None:
    rows, columns, others = axes(3)
    hidden = np.array([[True, True], [False, True], [False, False]])
    moved = np.array([[0.0, 0.0], [0.5, 0.0], [0.25, 1.0]])
    view = masks.influence_view(rows, columns, others, moved, hidden)
    figure = masks.influence_map(view, columns.labels, others, colours)
    np.testing.assert_allclose(figure.data[0].z, [[np.nan, np.nan], [0.5, np.nan], [0.25, 1.0]])
    assert list(figure.layout.xaxis.ticktext) == ["&lt;i&gt; → o0", "r1 → o1"]
    assert figure.data[0].customdata[1][0] == "the prediction of 'w1', when '&lt;i&gt;' gives way to 'o0'"
    assert not figure.layout.shapes
    assert figure.data[0].colorbar.title.text == "share of probability that moves"


def test_a_leak_through_the_mask_is_drawn() -> None:
    rows, columns, others = axes(3)
    moved = np.array([[0.0, 0.125], [0.5, 0.0], [0.25, 1.0]])
    hidden = np.array([[True, True], [False, True], [False, False]])
    view = masks.influence_view(rows, columns, others, moved, hidden)
    assert masks.influence_map(view, columns.labels, others, theme.LIGHT).data[0].z[0][1] == 0.125


def test_without_the_mask_a_line_parts_what_it_would_hide() -> None:
    rows, columns, others = axes(3)
    view = masks.influence_view(rows, columns, others, np.full((3, 2), 0.5), None)
    figure = masks.influence_map(view, columns.labels, others, theme.LIGHT)
    assert not np.isnan(figure.data[0].z).any()
    levels = [(shape.x0, shape.y0) for shape in figure.layout.shapes if shape.y0 == shape.y1]
    assert levels == [(-0.5, 0.5), (0.5, 1.5)]  # below row 0 in column 0, below row 1 in column 1


def test_many_columns_name_what_replaces_on_hover_only() -> None:
    rows, columns, others = axes(masks.SPELLED + 2)
    view = masks.influence_view(rows, columns, others, np.zeros((len(others) + 1, len(others))), None)
    assert view.columns.labels == columns.labels
    assert "'o0'" in masks.influence_map(view, columns.labels, others, theme.LIGHT).data[0].customdata[0][0]


def test_one_row_of_every_head() -> None:
    columns = Axis("key", ("a", "b"), (False, False))
    view = masks.heads_view("cross", np.array([[0.5, 0.5], [0.1, 0.9]]), columns, "writing 'x'")
    assert view.rows.labels == ("head 1", "head 2")
    np.testing.assert_allclose(view.weights[0, 0], [[0.5, 0.5], [0.1, 0.9]])
    assert view.sentence(1, 0) == "head 2, writing 'x' → looks at 'a'"
