from __future__ import annotations

import pytest

from transformer.errors import InputError
from transformer.plots import theme
from transformer.plots.widths import beam_widths

WIDTHS, SCORES, LENGTHS, TEXTS = (1, 2, 3), (-1.0, -0.5, -0.5), (4, 6, 6), ("a <b>", "c", "c")


def test_scores_and_lengths_stand_over_their_width() -> None:
    figure = beam_widths(WIDTHS, SCORES, LENGTHS, TEXTS, theme.LIGHT, 2)
    line, bars = figure.data
    assert list(zip(line.x, line.y, strict=True)) == list(zip(WIDTHS, SCORES, strict=True))
    assert list(zip(bars.x, bars.y, strict=True)) == list(zip(WIDTHS, LENGTHS, strict=True))
    assert line.text[0] == "beam size 1: score -1.000, 4 pieces<br>a &lt;b&gt;"
    low, high = figure.layout.yaxis.range
    assert low < min(SCORES) <= max(SCORES) < high
    assert figure.layout.yaxis2.range[0] == 0.0
    (box,) = figure.layout.shapes
    assert box.x0 < 2 < box.x1


def test_a_text_that_stays_is_hollow() -> None:
    line = beam_widths(WIDTHS, SCORES, LENGTHS, TEXTS, theme.DARK).data[0]
    full, hollow = theme.DARK.probability, theme.DARK.background
    assert list(line.marker.color) == [full, full, hollow]


def test_equal_scores_can_be_drawn() -> None:
    low, high = beam_widths((1,), (-0.5,), (3,), ("a",), theme.LIGHT, 7).layout.yaxis.range
    assert low < -0.5 < high


@pytest.mark.parametrize("scores", [(), (-1.0,)])
def test_lists_must_fit(scores: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="widths must be as many as scores"):
        beam_widths(WIDTHS, scores, LENGTHS, TEXTS, theme.LIGHT)
