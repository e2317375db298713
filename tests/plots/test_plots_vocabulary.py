from __future__ import annotations

import numpy as np
import pytest

from transformer.plots import theme
from transformer.plots.vocabulary import lens_map, lens_width, logit_histogram, temperature_bars

PALETTES = (theme.LIGHT, theme.DARK)


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_every_logit_is_counted_and_the_best_are_named(colours: theme.Palette) -> None:
    logits = np.random.default_rng(0).normal(size=500)
    best = float(logits.max())
    figure = logit_histogram(logits, [("<b>", best), ("", 0.0)], colours)
    assert int(np.nansum(figure.data[0].y)) == 500
    assert figure.layout.yaxis.type == "log"
    first, second = figure.layout.annotations
    assert (first.x, first.text) == (best, f"&lt;b&gt; {best:.1f}")
    assert second.text == "␀ 0.0"


def test_equal_logits_have_a_histogram() -> None:
    assert int(np.nansum(logit_histogram(np.zeros(7), [], theme.LIGHT).data[0].y)) == 7


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_bars_at_a_temperature_over_bars_at_one(colours: theme.Palette) -> None:
    figure = temperature_bars(["Hund", "<b>"], [0.4, 0.3], [0.6, 0.2], (0.3, 0.2), 1, colours)
    usual, now = figure.data
    np.testing.assert_allclose(usual.x, [60.0, 20.0, 20.0])
    np.testing.assert_allclose(now.x, [40.0, 30.0, 30.0])
    assert now.customdata[1] == "'&lt;b&gt;': 30 %, at temperature 1 20 %"
    assert [annotation.text for annotation in figure.layout.annotations] == ["40 %", "30 %", "30 %"]
    assert figure.layout.yaxis.ticktext[:2] == ("Hund", "<b>&lt;b&gt;</b>")
    (box,) = figure.layout.shapes
    assert box.y0 < 1 < box.y1
    assert not temperature_bars(["a"], [1.0], [1.0], (0.0, 0.0), None, colours).layout.shapes


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_the_lens_names_each_layer_s_piece(colours: theme.Palette) -> None:
    said = [["<SOS>", "<b>"], ["Hund", "averyverylongpiece"], ["Hund", "läuft"]]
    shares = np.array([[0.01, 0.02], [0.5, 0.3], [0.95, 0.9]])
    right = np.array([[False, False], [True, False], [True, True]])
    figure = lens_map(said, shares, right, ["Hund", "läuft"], 1, colours)
    np.testing.assert_allclose(figure.data[0].z, shares, rtol=1e-6)
    cells = [[a or b for a, b in zip(*rows, strict=True)] for rows in zip(*(t.text for t in figure.data), strict=True)]
    assert cells == [["&lt;SOS&gt;", "&lt;b&gt;"], ["<b>Hund</b>", "averyvery…"], ["<b>Hund</b>", "<b>läuft</b>"]]
    assert figure.data[0].customdata[1][1] == "averyverylongpiece"
    assert figure.layout.yaxis.ticktext == ("what enters", "layer 1", "layer 2")
    assert figure.layout.xaxis.ticktext == ("Hund", "<b>läuft</b>")
    (box,) = figure.layout.shapes
    assert (box.x0, box.x1) == (0.5, 1.5)
    assert lens_width(2) < lens_width(100)


def test_one_position_is_a_lens_too() -> None:
    figure = lens_map([["a"], ["b"]], np.array([[0.1], [0.2]]), np.array([[False], [True]]), ["b"], 0, theme.LIGHT)
    assert figure.data[0].text.shape == (2, 1)
