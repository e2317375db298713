"""Pictures of a translation being written."""

from __future__ import annotations

import numpy as np

from transformer.plots.theme import DARK, LIGHT
from transformer.plots.writing import by_alpha, weighed


def test_each_step_has_its_numbers_and_names() -> None:
    chosen, rival, end = np.array([0.9, 0.6]), np.array([0.05, 0.3]), np.array([0.0, 0.6])
    figure = weighed(["<b>", "<EOS>"], chosen, ["·x", "<EOS>"], rival, end, LIGHT)
    bars, diamonds, line = figure.data
    np.testing.assert_allclose(bars.y, chosen)
    np.testing.assert_allclose(diamonds.y, rival)
    np.testing.assert_allclose(line.y, end)
    assert figure.layout.xaxis.ticktext == ("&lt;b&gt;", "&lt;EOS&gt;")
    assert diamonds.text == ("·x", "&lt;EOS&gt;")
    assert bars.customdata[0] == "1. '&lt;b&gt;' 90 %"


def test_a_name_is_written_only_where_it_can_be_read() -> None:
    few = weighed(["a", "b"], np.ones(2), ["c", "d"], np.array([0.001, 0.5]), np.zeros(2), DARK)
    assert few.data[1].text == ("", "d")
    many = weighed(["a"] * 30, np.ones(30), ["c"] * 30, np.ones(30), np.zeros(30), DARK)
    assert many.data[1].mode == "markers"


def test_the_best_stands_out_at_the_chosen_exponent() -> None:
    alphas = (0.0, 1.0, 2.0)
    scores = np.array([[-6.0, -6.0, -6.0], [-7.0, -3.5, -1.75]])
    for chosen, winner in ((0.0, 0), (1.0, 1)):
        figure = by_alpha(alphas, scores, ["<one>", "two"], chosen, LIGHT)
        assert [line.line.width > 2 for line in figure.data] == [place == winner for place in range(2)]
        np.testing.assert_allclose(figure.data[1].y, scores[1])
        assert figure.layout.shapes[0].x0 == chosen
    assert figure.data[0].customdata[0] == "&lt;one&gt;"
    assert not by_alpha(alphas, np.empty((0, 3)), [], 0.0, LIGHT).data
