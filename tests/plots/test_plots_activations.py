from __future__ import annotations

import numpy as np
import pytest

from transformer.plots import theme
from transformer.plots.activations import CELLS_WITH_UNITS, activation_map, share_bars, unit_map

HIDDEN = np.array([[0.0, 2.0, -0.1], [1.0, 3.0, 0.0]], dtype=np.float32)
LABELS = ("<b>", "dog")
PALETTES = (theme.LIGHT, theme.DARK)


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_units_stand_in_the_order_asked_for(colours: theme.Palette) -> None:
    figure = activation_map(HIDDEN, [1, 0, 2], LABELS, "encoder", colours, chosen=1)
    (trace,) = figure.data
    np.testing.assert_allclose(trace.z, [[2.0, 0.0, 0.0], [3.0, 1.0, 0.0]])  # what is below zero is left empty
    np.testing.assert_array_equal(trace.customdata, [[1, 0, 2], [1, 0, 2]])
    assert (trace.zmin, trace.zmax) == (0.0, 3.0)
    scale = trace.colorscale
    assert scale[0][1] == colours.background
    assert scale[-1][1] == theme.kind_colour("encoder", colours)
    assert figure.layout.yaxis.ticktext == ("&lt;b&gt;", "<b>dog</b>")
    (box,) = figure.layout.shapes
    assert (box.y0, box.y1) == (0.5, 1.5)


def test_a_large_map_is_bytes_and_no_names() -> None:
    rows = 60
    hidden = np.random.default_rng(0).normal(size=(rows, CELLS_WITH_UNITS // rows + 1)).astype(np.float32)
    figure = activation_map(hidden, np.arange(hidden.shape[1]), ["a"] * rows, "decoder", theme.LIGHT)
    assert figure.data[0].z.dtype == np.uint8
    assert figure.data[0].customdata is None
    assert figure.data[0].z.max() == 255


def test_a_long_sentence_is_low_and_names_what_has_room() -> None:
    labels = [f"w{place}" for place in range(128)]
    figure = activation_map(np.ones((128, 16), np.float32), range(16), labels, "encoder", theme.LIGHT, chosen=50)
    assert figure.layout.height < 800
    places, texts = figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext
    assert texts[places.index(50)] == "<b>w50</b>"
    assert all(text.strip("</b>") == f"w{place}" for place, text in zip(places, texts, strict=True))
    row = (figure.layout.height - 44) / 128
    assert min(np.diff(places)) * row >= 10  # no two run into each other
    assert figure.data[0].hovertext[3][0] == "4. w3"


def test_nothing_active_is_still_a_picture() -> None:
    figure = activation_map(np.zeros((2, 3), np.float32), [0, 1, 2], LABELS, "encoder", theme.LIGHT)
    assert figure.data[0].z.max() == 0.0
    assert figure.data[0].zmax == 1.0


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_the_units_of_a_position(colours: theme.Palette) -> None:
    figure = unit_map(HIDDEN[:, [1, 0]], [137, 4], LABELS, 1, "decoder", colours)
    np.testing.assert_allclose(figure.data[0].z, [[2.0, 0.0], [3.0, 1.0]])
    shown = [cell for trace in figure.data for row in trace.text for cell in row if cell]
    assert sorted(shown) == ["1.0", "2.0", "3.0"]  # each number once, nothing for a zero
    np.testing.assert_array_equal(figure.data[0].customdata, [[137, 4], [137, 4]])
    assert figure.layout.xaxis.ticktext == ("137", "4")
    assert figure.layout.yaxis.ticktext == ("&lt;b&gt;", "<b>dog</b>")
    (box,) = figure.layout.shapes
    assert (box.y0, box.y1) == (0.5, 1.5)


def test_many_positions_have_no_numbers() -> None:
    figure = unit_map(np.ones((128, 10), np.float32), range(10), ["a"] * 128, 0, "encoder", theme.LIGHT)
    (trace,) = figure.data
    assert trace.text is None


def test_shares_are_bars_in_per_cent() -> None:
    figure = share_bars(["encoder layer 1", "decoder layer 1"], [0.25, 0.5], ["encoder", "decoder"], theme.DARK)
    (bars,) = figure.data
    assert list(bars.x) == [25.0, 50.0]
    assert list(bars.text) == ["25 %", "50 %"]
    assert list(bars.marker.color) == [theme.DARK.encoder, theme.DARK.decoder]
    assert figure.layout.xaxis.range == (0, 100)
