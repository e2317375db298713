"""The pictures of the toy: what is outlined, and axes of per cents that do not move."""

from __future__ import annotations

import numpy as np
import pytest

from transformer.analysis.maps import Axis, KindView
from transformer.plots import theme
from transformer.plots.curves import Line
from transformer.plots.toy import mirror_map, toy_curves

LETTERS = ("a", "b", "a")


def line(*values: float) -> Line:
    return Line("<b>", np.arange(1, len(values) + 1), np.array(values, dtype=np.float64))


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_in_each_row_the_letter_to_be_copied_is_outlined(colours: theme.Palette) -> None:
    weights = np.random.default_rng(1).dirichlet(np.ones(5), (1, 1, 4)).astype(np.float32)
    rows = Axis("query", (*LETTERS[::-1], "<EOS>"), (False,) * 4)
    columns = Axis("key", ("<SOS>", *LETTERS, "<EOS>"), (False,) * 5)
    figure = mirror_map(KindView("cross", weights, rows, columns, ("",) * 4), 0, 0, colours)
    np.testing.assert_array_equal(figure.data[0].z, weights[0, 0])
    boxes = [
        (shape.x0 + 0.5, shape.y0 + 0.5, shape.x1 - shape.x0, shape.y1 - shape.y0) for shape in figure.layout.shapes
    ]
    assert boxes == [(3, 0, 1, 1), (2, 1, 1, 1), (1, 2, 1, 1)]
    assert {shape.line.color for shape in figure.layout.shapes} == {colours.text}


def test_per_cents_go_from_0_to_100() -> None:
    figure = toy_curves(line(3, 2), line(2.5), line(0), line(10.1, 10.2), theme.LIGHT, chosen=2)
    assert [list(trace.y) for trace in figure.data] == [[3, 2], [2.5], [0], [10.1, 10.2]]
    for axis in (figure.layout.yaxis2, figure.layout.yaxis3):
        assert axis.range[0] < 0 < 100 < axis.range[1]
        assert axis.tickvals == (0, 50, 100)
    assert figure.layout.yaxis.rangemode == "tozero"
    assert [shape.x0 for shape in figure.layout.shapes] == [2]
    assert toy_curves(line(), line(), line(), line(10.0), theme.LIGHT).layout.shapes == ()
