"""Pictures of vectors: what is drawn are the numbers that were given, and odd pieces stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
from test_plots_theme import contrast

from transformer.plots import theme
from transformer.plots.embeddings import (
    CELLS_WITH_NUMBERS,
    POINTS_WITH_NAMES,
    cell_numbers,
    cosine_map,
    neighbour_bars,
    piece_scatter,
    vector_map,
)

ODD = ("<b>", "</s>", "$x_1$", "dog", "dog", "2019")
VERBATIM = ["&lt;b&gt;", "&lt;/s&gt;", "$x_1$", "dog", "dog", "2019"]
BOTH = pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).uniform(-1, 1, shape).astype(np.float32)


def test_vectors_are_rows_and_the_scale_is_centred_at_zero() -> None:
    values = numbers(6, 100) * 3
    figure = vector_map(values, ODD, theme.LIGHT, shown=64)
    trace = figure.data[0]
    np.testing.assert_array_equal(trace.z, values[:, :64])
    assert trace.zmax == -trace.zmin == pytest.approx(np.abs(values[:, :64]).max())
    assert trace.colorscale[1] == (0.5, theme.LIGHT.background)
    assert list(figure.layout.yaxis.ticktext) == VERBATIM
    assert figure.layout.yaxis.range == (5.5, -0.5)
    assert "the first 64 of 100" in figure.layout.xaxis.title.text
    assert "all" in vector_map(values, ODD, theme.LIGHT, shown=100).layout.xaxis.title.text


def test_vectors_of_zeros_have_a_scale() -> None:
    assert vector_map(np.zeros((1, 4)), ["a"], theme.DARK).data[0].zmax == 1.0


def test_neighbours_stand_before_the_usual_nearness() -> None:
    cosines = np.array([0.8, 0.5, -0.1])
    figure = neighbour_bars(ODD[:3], cosines, 0.1, 0.05, theme.LIGHT)
    np.testing.assert_allclose(figure.data[0].x, cosines)
    assert list(figure.data[0].text) == ["0.80", "0.50", "-0.10"]
    band = figure.layout.shapes[0]
    assert (band.x0, band.x1) == pytest.approx((0.0, 0.2))
    assert figure.layout.xaxis.range[0] <= -0.1
    assert list(figure.layout.yaxis.ticktext) == VERBATIM[:3]
    assert figure.layout.yaxis.range == (2.5, -0.5)  # the nearest on top


def test_a_line_leads_from_each_neighbour_to_its_piece() -> None:
    points = numbers(5, 2)
    figure = piece_scatter(points, ODD[:5], 2, (-1, -1, 0, 1, 1), (0.4, 0.25), theme.LIGHT)
    lines, near, asked = figure.data
    ends = np.array([[x, y] for x, y in zip(lines.x, lines.y, strict=True)], dtype=float).reshape(-1, 3, 2)
    for place, home, (start, end, gap) in zip((2, 3, 4), (0, 1, 1), ends, strict=True):
        np.testing.assert_allclose([start, end], points[[place, home]])
        assert np.isnan(gap).all()
    np.testing.assert_allclose(np.stack([asked.x, asked.y], axis=1), points[:2])
    np.testing.assert_allclose(np.stack([near.x, near.y], axis=1), points[2:])
    assert list(asked.text) == VERBATIM[:2]
    assert "40 %" in figure.layout.xaxis.title.text
    assert "25 %" in figure.layout.yaxis.title.text


@BOTH
def test_what_is_asked_for_is_always_named(colours: theme.Palette) -> None:
    many = POINTS_WITH_NAMES + 1
    figure = piece_scatter(numbers(many, 2), ["a"] * many, 3, (-1,) * 3 + (0,) * (many - 3), (0.1, 0.1), colours)
    assert [trace.mode for trace in figure.data[1:]] == ["markers", "markers+text"]
    assert figure.data[1].hovertemplate == "'%{text}'<extra></extra>"


def test_cosines_run_from_minus_one_to_one() -> None:
    matrix = numbers(6, 6)
    figure = cosine_map(matrix, ODD, theme.LIGHT)
    trace = figure.data[0]
    np.testing.assert_array_equal(trace.z, matrix)
    assert (trace.zmin, trace.zmax) == (-1.0, 1.0)
    assert list(figure.layout.xaxis.ticktext) == list(figure.layout.yaxis.ticktext) == VERBATIM
    assert trace.customdata[1][0] == "'&lt;/s&gt;' and '&lt;b&gt;'"
    assert len(figure.layout.annotations) == 36
    side = int(CELLS_WITH_NUMBERS**0.5) + 1
    assert not cosine_map(numbers(side, side), ["a"] * side, theme.LIGHT).layout.annotations


@BOTH
def test_numbers_in_cells_can_be_read(colours: theme.Palette) -> None:
    values = np.array([[1.0, -1.0, 0.0, 0.004, -0.5, 0.126]])
    found = cell_numbers(values, "encoder", colours)
    assert [one["text"] for one in found] == ["1", "-1", "0", "0", "-.50", ".13"]
    assert [(one["x"], one["y"]) for one in found] == [(i, 0) for i in range(6)]
    scale = theme.diverging_scale("encoder", colours)
    ends = {1.0: scale[-1][1], -1.0: scale[0][1]}
    for value, one in zip(values[0], found, strict=True):
        end = ends.get(np.sign(value), colours.background)
        cell = theme.mix(colours.background, str(end), abs(value))
        assert contrast(one["font"]["color"], cell) >= 4.5
