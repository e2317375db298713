from __future__ import annotations

import numpy as np
import pytest

from transformer.plots import theme
from transformer.plots.costs import Curve, compared_bars, compared_width, growth

PIECES = ["<b>", "$x$", "", "dog"]


def test_curves_stand_where_their_numbers_are() -> None:
    curves = [Curve("n²", np.array([1, 4, 16])), Curve("<n>", np.array([1.0, 2.0, 4.0]), ("a", "<b>", "c"))]
    shown = growth([1, 2, 4], curves, theme.LIGHT, across="n", up="cost", here=2, here_name="this <one>")
    first, second = shown.data
    np.testing.assert_array_equal(first.x, [1, 2, 4])
    np.testing.assert_array_equal(first.y, [1, 4, 16])
    assert (first.line.color, second.name) == (theme.LIGHT.encoder, "&lt;n&gt;")
    assert second.customdata[1] == "&lt;n&gt;: &lt;b&gt;"
    assert (shown.layout.xaxis.type, shown.layout.yaxis.type) == ("log", "log")
    assert (shown.layout.shapes[0].x0, shown.layout.shapes[0].x1) == (2, 2)
    assert shown.layout.annotations[0].x == pytest.approx(np.log10(2))  # Plotly wants logarithms here
    assert shown.layout.annotations[0].text == "this &lt;one&gt;"


def test_a_plain_axis_and_no_line() -> None:
    shown = growth([1, 2], [Curve("n", np.array([0.5, 0.2]))], theme.DARK, across="n", up="share", logarithmic=False)
    assert shown.layout.yaxis.type == "linear"
    assert not shown.layout.shapes
    assert not shown.layout.showlegend


def test_a_length_outside_of_the_picture_has_no_line_and_ticks_may_be_fewer() -> None:
    curve = Curve("n", np.array([1.0, 2.0, 3.0]))
    shown = growth([16, 20, 32], [curve], theme.LIGHT, across="n", up="n", here=9, here_name="here", ticks=(16, 32))
    assert not shown.layout.shapes
    assert not shown.layout.annotations
    assert list(shown.layout.xaxis.ticktext) == ["16", "32"]


def test_two_bars_a_piece_and_every_piece_its_own_column() -> None:
    shown = compared_bars(PIECES, np.array([0.5, 1.0, 0.0, 0.25]), np.full(4, 0.1), ("all", "one <v>"), theme.LIGHT)
    usual, changed = shown.data
    np.testing.assert_array_equal(usual.y, [0.5, 1.0, 0.0, 0.25])
    np.testing.assert_array_equal(changed.y, np.full(4, 0.1))
    assert list(shown.layout.xaxis.ticktext) == ["&lt;b&gt;", "$x$", "␀", "dog"]
    assert usual.customdata[0] == "'&lt;b&gt;' all: 50 %"
    assert changed.name == "one &lt;v&gt;"
    assert compared_width(PIECES) > 4 * 20


def test_no_piece_draws_an_empty_picture() -> None:
    assert len(compared_bars([], np.array([]), np.array([]), ("a", "b"), theme.LIGHT).data) == 2
