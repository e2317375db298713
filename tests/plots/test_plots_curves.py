"""The pictures of a training: every number where it belongs, names apart, odd pieces as typed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from transformer.plots import theme
from transformer.plots.curves import Line, Panel, panels

STEPS = np.array([1, 10, 100])
COLOURS = pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])


def line(name: str, *values: float, quiet: bool = False, points: bool = False) -> Line:
    return Line(name, STEPS[: len(values)], np.array(values), quiet, points)


@COLOURS
def test_panels_hold_every_line_on_its_own_axis(colours: theme.Palette) -> None:
    figure = panels(
        [
            Panel("loss", (line("train", 3.0, 2.0, 1.0, quiet=True), line("dev", 3.0, 2.0, 1.0, points=True))),
            Panel("norm", (line("norm", 1.0, 2.0, 4.0),), logarithmic=True),
        ],
        colours,
        marks=[10],
        chosen=100,
    )
    assert [trace.yaxis for trace in figure.data] == ["y", "y", "y2"]
    assert [list(trace.y) for trace in figure.data] == [[3, 2, 1], [3, 2, 1], [1, 2, 4]]
    upper, lower = figure.layout.yaxis.domain, figure.layout.yaxis2.domain
    assert upper[0] > lower[1] >= lower[0] >= 0
    assert figure.layout.yaxis2.type == "log"
    assert figure.layout.xaxis.anchor == "y2"
    assert [shape.x0 for shape in figure.layout.shapes] == [10, 100]
    names = {note.text: note for note in figure.layout.annotations}
    assert abs(names["train"].y - names["dev"].y) > 0.2  # both end at 1
    assert names["norm"].y == pytest.approx(np.log10(4))  # on a logarithmic axis a place is an exponent
    json.loads(figure.to_json())


def test_steps_of_zero_are_left_out_of_a_logarithmic_axis() -> None:
    shown = Panel("loss", (Line("pair", np.array([0, 5]), np.array([9.0, 1.0])),))
    figure = panels([shown], theme.LIGHT, logarithmic_steps=True)
    assert list(figure.data[0].x) == [5]
    assert figure.layout.xaxis.type == "log"
    bare = panels([shown], theme.LIGHT, named=False)
    assert [note.text for note in bare.layout.annotations] == ["<b>loss</b>"]
    assert bare.layout.margin.r < figure.layout.margin.r


@pytest.mark.parametrize("shown", [[], [Panel("nothing", ())], [Panel("empty", (line("none"),))]])
def test_panels_without_numbers(shown: list[Panel]) -> None:
    assert panels(shown, theme.LIGHT).layout.height > 0
