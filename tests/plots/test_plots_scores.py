"""Scores of either sign: numbers that can be read on every shade, and no minus before a zero."""

from __future__ import annotations

import numpy as np
import pytest

from transformer.analysis.maps import Axis, KindView
from transformer.plots import theme
from transformer.plots.scores import score_map

SCORES = np.array([[9.0, -9.0, 0.1], [-0.04, 4.0, np.nan]], dtype=np.float32)


def view() -> KindView:
    rows, columns = Axis("queries", ("a", "b"), (False, False)), Axis("keys", ("a", "b", "c"), (False, False, False))
    return KindView("encoder", np.zeros((1, 1, 2, 3), dtype=np.float32), rows, columns, ("a", "b"))


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_every_number_is_written_once_in_a_colour_that_can_be_read(colours: theme.Palette) -> None:
    figure = score_map(view(), SCORES, colours)
    low, middle, high = (str(stop[1]) for stop in theme.diverging_scale("encoder", colours))
    written = np.full(SCORES.shape, "", dtype=object)
    for trace in figure.data:
        for row, column in np.argwhere(np.asarray(trace.text) != ""):
            assert written[row, column] == ""
            written[row, column] = trace.text[row][column]
            share = float(SCORES[row, column]) / 9.0
            shade = theme.mix(middle, low if share < 0 else high, abs(share))
            assert trace.textfont.color == theme.readable_on(shade)
    assert written.tolist() == [["9.0", "-9.0", "0.1"], ["0.0", "4.0", ""]]
