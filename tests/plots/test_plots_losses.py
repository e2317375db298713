"""What pieces cost, times and sizes: every number where it belongs, odd pieces as typed."""

from __future__ import annotations

import numpy as np
import pytest

from transformer.plots import theme
from transformer.plots.losses import Size, loss_bars, size_points, smoothing_curve, time_bars

COLOURS = pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])


@COLOURS
def test_losses_stand_over_their_pieces(colours: theme.Palette) -> None:
    pieces = ["·e", "·e", "<b>", "</s>", "2019", ""]
    figure = loss_bars(pieces, np.array([0.1, 2.0, 0.3, 0.4, 0.5, 0.0]), colours, chosen=1)
    assert list(figure.data[0].x) == [0, 1, 2, 3, 4, 5]
    assert list(figure.layout.xaxis.ticktext) == ["·e", "<b>·e</b>", "&lt;b&gt;", "&lt;/s&gt;", "2019", "␀"]
    assert figure.data[0].customdata[1].startswith("2. '·e': loss 2.0000, probability 13.5 %")
    assert list(figure.data[0].marker.line.width) == [0, 2, 0, 0, 0, 0]


def test_losses_of_nothing_and_of_zero() -> None:
    assert loss_bars([], np.array([]), theme.LIGHT).layout.yaxis.range[1] == 1.0
    assert loss_bars(["a"], np.zeros(1), theme.LIGHT).layout.yaxis.range[1] == 1.0


@COLOURS
def test_the_curve_of_smoothing_marks_its_lowest_place(colours: theme.Palette) -> None:
    grid = np.linspace(0.01, 0.99, 99)
    plain = -np.log(grid)
    least = plain + (grid - 0.9) ** 2
    figure = smoothing_curve(grid, least, plain, np.array([0.5]), np.array([1.0]), ["<b>"], colours)
    lowest = figure.data[2]
    assert (lowest.x[0], lowest.y[0]) == (grid[least.argmin()], least.min())
    assert figure.data[3].customdata[0] == "1. '&lt;b&gt;'"
    without = smoothing_curve(grid, plain, plain, np.array([0.5]), np.array([1.0]), ["a"], colours)
    assert len(without.data) == 2


@COLOURS
def test_times_are_compared_with_the_shortest(colours: theme.Palette) -> None:
    figure = time_bars(["one", "two", "three"], [0.002, 0.005, 2.0], colours)
    assert list(figure.data[0].text) == ["2 ms", "5 ms · 2.5 times", "2.00 s · 1000.0 times"]
    assert list(figure.layout.yaxis.ticktext) == ["one", "two", "three"]
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]  # the first is on top


@COLOURS
def test_sizes(colours: theme.Palette) -> None:
    figure = size_points([Size("base", "the base", 65, 25.8, base=True), Size("big", "a < b", 213, 26.4)], colours)
    assert list(figure.data[0].x) == [65, 213]
    assert list(figure.data[0].y) == [25.8, 26.4]
    assert figure.data[0].customdata[1] == "a &lt; b"
    low, high = (10**edge for edge in figure.layout.xaxis.range)
    assert low < 28
    assert high > 213
