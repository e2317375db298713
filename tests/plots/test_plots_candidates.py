from __future__ import annotations

import math

import pytest

from transformer.plots import theme
from transformer.plots.candidates import Bar, candidate_bars

BARS = [
    Bar(7, "Hund", 0, 0.5, math.log(0.5), 0.4),
    Bar(9, "<b>", 1, 0.25, math.log(0.25), 0.125),
    Bar(8, "", 2, 0.125, math.log(0.125)),
]
PALETTES = (theme.LIGHT, theme.DARK)


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_bars_are_the_probabilities_and_the_rest(colours: theme.Palette) -> None:
    figure = candidate_bars(BARS, 0.125, colours)
    assert list(figure.data[0].x) == [0.5, 0.25, 0.125, 0.125]
    assert list(figure.data[0].y) == [0, 1, 2, 3]
    assert figure.layout.xaxis.range == (0, 1)
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]  # the most probable on top
    texts = [annotation.text for annotation in figure.layout.annotations]
    assert texts == ["50 %", "-0.69", "25 %", "-1.39", "12.5 %", "-2.08", "12.5 %", "probability", "log-prob."]


def test_pieces_appear_as_they_are() -> None:
    figure = candidate_bars(BARS, 0.0, theme.LIGHT)
    ticks = figure.layout.yaxis.ticktext
    assert ticks[1].startswith("&lt;b&gt; ")
    assert ticks[2].startswith("␀ ")
    assert "&lt;b&gt;" in figure.data[-1].hovertext[1]
    assert "<b>" not in figure.data[-1].hovertext[1]


def test_a_click_anywhere_in_a_row_gives_its_piece() -> None:
    field = candidate_bars(BARS, 0.0, theme.LIGHT).data[-1]
    assert [place[0] for place in field.customdata] == [7, 9, 8]
    assert list(field.x) == [1.0, 1.0, 1.0]
    assert field.marker.opacity == field.selected.marker.opacity == field.unselected.marker.opacity == 0.0
    assert field.hovertemplate


def test_only_the_chosen_row_is_outlined() -> None:
    figure = candidate_bars(BARS, 0.0, theme.LIGHT, chosen=9)
    (box,) = figure.layout.shapes
    assert box.y0 < 1 < box.y1
    assert [tick.startswith("<b>") for tick in figure.layout.yaxis.ticktext] == [False, True, False, False]
    assert not candidate_bars(BARS, 0.0, theme.LIGHT, chosen=1000).layout.shapes


def test_without_an_intervention_in_grey() -> None:
    figure = candidate_bars(BARS, 0.125, theme.LIGHT, compared=True)
    assert list(figure.data[1].x) == [0.4, 0.125, 0.0]
    assert "without the intervention: 40 %" in figure.data[-1].hovertext[0]
    assert "not among those read" in figure.data[-1].hovertext[2]
    assert len(candidate_bars(BARS, 0.125, theme.LIGHT).data) == 2


def test_no_candidate_at_all_is_still_a_picture() -> None:
    assert candidate_bars([], 1.0, theme.DARK).data[0].x[0] == 1.0
