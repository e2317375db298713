from __future__ import annotations

import numpy as np
import pytest

from transformer.plots import padding, theme

PALETTES = [theme.LIGHT, theme.DARK]
MASKS = [np.array([[1, 1, 1], [1, 1, 0]], dtype=bool), np.array([[1, 1, 1, 1]], dtype=bool)]
CALLED = [["1. <b>", "2. " + "x" * 40], ["3. c"]]
PIECES = [[["<SOS>", "a", "<EOS>"], ["<SOS>", "<EOS>", "<PAD>"]], [["<SOS>", "a", "b", "<EOS>"]]]


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_ones_and_zeros(colours: theme.Palette) -> None:
    figure = padding.padding_map(MASKS, CALLED, PIECES, colours)
    (trace,) = figure.data
    nan = np.nan
    expected = [[nan] * 4, [1, 1, 1, nan], [1, 1, 0, nan], [nan] * 4, [1, 1, 1, 1]]
    np.testing.assert_allclose(np.array(trace.z, dtype=float), expected)
    assert [list(line) for line in trace.text][2] == ["1", "1", "0", ""]
    assert trace.customdata[2][2] == "position 3: &lt;PAD&gt;, padding"
    assert trace.customdata[4][1] == "position 2: a, real"
    ticks = figure.layout.yaxis.ticktext
    assert "batch 1: 2 × 3" in ticks[0]
    assert "batch 2: 1 × 4" in ticks[3]
    assert ticks[1] == "1. &lt;b&gt;"
    assert len(ticks[2]) == padding.LONGEST_NAME


def test_wide_batches_show_no_digits() -> None:
    width = padding.DIGITS + 1
    figure = padding.padding_map([np.ones((1, width), dtype=bool)], [["a"]], [[["x"] * width]], theme.LIGHT)
    assert figure.data[0].text is None
    assert "batch" not in figure.layout.yaxis.ticktext[0]
    assert figure.layout.xaxis.ticktext[:2] == ("1", "5")
    assert figure.layout.xaxis.tickvals[:2] == (0, 4)


def test_bars_of_what_is_wasted() -> None:
    names = ("fixed", "<longest>")
    figure = padding.waste_bars(names, np.array([0.5, 0.25]), np.array([0.9, 0.0]), 1, theme.LIGHT)
    positions, scores = figure.data
    np.testing.assert_allclose(positions.x, [50.0, 25.0])
    np.testing.assert_allclose(scores.x, [90.0, 0.0])
    assert list(scores.text) == ["90 %", "0 %"]
    assert figure.layout.yaxis.ticktext == ("fixed", "<b>&lt;longest&gt;</b>")


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_one_number_a_head(colours: theme.Palette) -> None:
    encoder, cross = np.array([[0.0, 1.0], [0.5, 0.25]]), np.array([[0.125, 0.75]])
    figure = padding.share_grids([("encoder <PAD>", "encoder", encoder), ("cross", "cross", cross)], colours)
    first, second = figure.data
    np.testing.assert_allclose(first.z, encoder)
    np.testing.assert_allclose(second.z, cross)
    assert first.text[0][1] == f'<span style="color:{theme.readable_on(colours.encoder)}">100</span>'
    assert figure.layout.annotations[0].text == "encoder &lt;PAD&gt;"
    assert figure.layout.yaxis.ticktext == ("layer 1", "layer 2")
    assert figure.layout.yaxis2.ticktext == ("layer 1",)


def test_many_heads_show_no_numbers() -> None:
    figure = padding.share_grids([("x", "cross", np.zeros((1, padding.MOST_HEADS + 1)))], theme.LIGHT)
    assert figure.data[0].text is None
