"""Pictures of positions: the numbers that were given stand where they belong."""

from __future__ import annotations

import numpy as np
import pytest

from transformer.plots import theme
from transformer.plots.positions import APART, clocks, order_bars, position_map, product_lines, rotation_map

C = theme.LIGHT


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(8).uniform(-1, 1, shape).astype(np.float32)


def test_the_table_and_where_the_sentence_ends() -> None:
    table = numbers(20, 8)
    figure = position_map(table, C, used=6)
    np.testing.assert_array_equal(figure.data[0].z, table)
    assert figure.layout.shapes[0].y0 == figure.layout.shapes[0].y1 == 5.5
    assert "6 pieces" in figure.layout.annotations[0].text
    for used in (0, 20, 30):
        assert not position_map(table, C, used=used).layout.shapes
    assert position_map(np.zeros((3, 2)), C).data[0].zmax == 1.0


def test_hands_point_where_they_should_at_every_position() -> None:
    tips = numbers(7, 3, 2)
    figure = clocks(tips, ["a", "b", "c"], C, start=2)
    assert [frame.name for frame in figure.frames] == [str(position) for position in range(7)]
    for position, drawn in [(2, figure.data), *((i, frame.data) for i, frame in enumerate(figure.frames))]:
        assert len(drawn) == 1
        points = np.stack([drawn[0].x, drawn[0].y], axis=1).reshape(3, 3, 2)
        np.testing.assert_allclose(points[:, 0], [[APART * pair, 0] for pair in range(3)], atol=1e-6)
        np.testing.assert_allclose(points[:, 1] - points[:, 0], tips[position], atol=1e-6)
        assert np.isnan(points[:, 2]).all()  # a gap after each hand
        assert drawn[0].text[3] == f"sine {tips[position, 1, 0]:.3f}, cosine {tips[position, 1, 1]:.3f}"
    slider = figure.layout.sliders[0]
    assert slider.active == 2
    assert [list(step.args[0]) for step in slider.steps] == [[str(position)] for position in range(7)]
    assert [note.text for note in figure.layout.annotations] == ["a", "b", "c"]
    assert clocks(tips, ["a", "b", "c"], C, start=99).layout.sliders[0].active == 6


def test_the_chosen_position_has_the_strong_line() -> None:
    matrix = numbers(10, 10)
    figure = product_lines(matrix, 4, C)
    *pale, strong, mark = figure.data
    np.testing.assert_array_equal(strong.y, matrix[4])
    assert strong.line.color == C.encoder
    assert (mark.x[0], mark.y[0]) == pytest.approx((4, matrix[4, 4]))
    assert len(pale) == 4
    for line, place in zip(pale, (0, 3, 6, 9), strict=True):
        np.testing.assert_array_equal(line.y, matrix[place])
    assert len(product_lines(matrix[:2, :2], 0, C).data) == 3


def test_the_corner_of_a_rotation_with_a_frame_for_each_pair() -> None:
    rotation = numbers(12, 12)
    figure = rotation_map(rotation, C)
    np.testing.assert_array_equal(figure.data[0].z, rotation[:8, :8])
    assert [(box.x0, box.x1, box.y0, box.y1) for box in figure.layout.shapes] == [
        (i - 0.5, i + 1.5, i - 0.5, i + 1.5) for i in (0, 2, 4, 6)
    ]
    assert len(figure.layout.annotations) == 64
    assert "the first 8 of 12" in figure.layout.xaxis.title.text
    assert "all" in rotation_map(rotation[:4, :4], C).layout.xaxis.title.text


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_moves_with_and_without_positions(colours: theme.Palette) -> None:
    on, off = np.array([0.5, 1.25, 0.1]), np.array([0.0, 3e-7, 2e-7])
    figure = order_bars(("<SOS>", "dog", "dog"), on, off, 1.4, colours)
    first, second = figure.data
    np.testing.assert_allclose(first.x, on)
    np.testing.assert_allclose(second.x, off, atol=1e-12)
    assert list(first.text) == ["0.50", "1.25", "0.10"]
    assert list(second.text) == ["0", "3e-07", "2e-07"]
    assert (first.name, second.name) == ("positions on", "positions off")
    assert first.marker.color != second.marker.color
    assert (np.asarray(second.y) > np.asarray(first.y)).all()
    assert figure.layout.shapes[0].x0 == 1.4
    assert list(figure.layout.yaxis.ticktext) == ["&lt;SOS&gt;", "dog", "dog"]
    assert figure.layout.xaxis.range[1] > 1.4
