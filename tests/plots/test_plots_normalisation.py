from __future__ import annotations

import numpy as np
import pytest

from transformer.plots import theme
from transformer.plots.normalisation import length_lines, padding_lines, parameter_histograms, value_histograms

NAMES = ("layer 1 · self-attention", "layer 1 · feed-forward")
PALETTES = (theme.LIGHT, theme.DARK)


def lengths(positions: int = 3) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(1)
    found = {name: numbers.random((2, positions)) * 10 for name in ("added", "summed", "after")}
    return {**found, "likeness": np.linspace(-0.5, 1.0, 2 * positions).reshape(2, positions)}


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_lines_are_the_lengths_of_the_position(colours: theme.Palette) -> None:
    given = lengths()
    figure = length_lines(NAMES, **given, position=1, kind="encoder", colours=colours, normalised_last=True)
    added, summed, after, others, likeness = figure.data
    np.testing.assert_allclose(added.y, given["added"][:, 1])
    np.testing.assert_allclose(summed.y, given["summed"][:, 1])
    np.testing.assert_allclose(after.y, given["after"][:, 1])
    np.testing.assert_allclose(likeness.y, given["likeness"][:, 1])
    apart = np.array(others.y).reshape(2, 3)
    np.testing.assert_allclose(apart[:, :2], given["likeness"][:, [0, 2]].T)
    assert np.isnan(apart[:, 2]).all()  # the lines of two positions are not joined
    assert figure.layout.xaxis2.ticktext == NAMES
    assert figure.layout.yaxis2.range[0] < -0.5


def test_a_model_that_normalises_first_has_one_line() -> None:
    figure = length_lines(NAMES, **lengths(1), position=0, kind="decoder", colours=theme.LIGHT, normalised_last=False)
    assert [trace.name for trace in figure.data] == ["what the sublayer adds", "the stream that leaves", None]


def test_histograms_count_every_number_once() -> None:
    vectors = [np.random.default_rng(seed).normal(seed, 2.0, 128) for seed in range(3)]
    figure = value_histograms(vectors, ["one", "two <b>", "three"], "encoder", theme.LIGHT)
    assert [int(np.sum(trace.y)) for trace in figure.data] == [128, 128, 128]
    np.testing.assert_allclose(figure.data[0].x, figure.data[2].x)  # one scale
    lines = [shape for shape in figure.layout.shapes if shape.type == "line"]
    np.testing.assert_allclose([line.x0 for line in lines], [vector.mean() for vector in vectors])
    bands = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    np.testing.assert_allclose([(b.x1 - b.x0) / 2 for b in bands], [vector.std() for vector in vectors])
    assert figure.layout.annotations[1].text == "two &lt;b&gt;"


def test_equal_numbers_have_a_histogram() -> None:
    figure = value_histograms([np.zeros(5)], ["x"], "encoder", theme.DARK)
    assert int(np.sum(figure.data[0].y)) == 5


@pytest.mark.parametrize("colours", PALETTES, ids=["light", "dark"])
def test_gains_and_biases_and_where_they_began(colours: theme.Palette) -> None:
    gain, bias = np.random.default_rng(0).normal(size=(2, 64))
    figure = parameter_histograms(gain + 3.0, bias, "decoder", colours)
    assert [int(np.sum(trace.y)) for trace in figure.data] == [64, 64]
    assert [shape.x0 for shape in figure.layout.shapes] == [1.0, 0.0]
    assert figure.data[0].marker.color == colours.decoder


def test_padding_moves_one_line() -> None:
    figure = padding_lines(
        np.array([0.1, 0.5]), (0, 4), np.array([0.0, 0.3]), np.array([0.0, 1e-8]), "encoder", theme.LIGHT
    )
    batch, layer = figure.data
    np.testing.assert_allclose(batch.x, [10.0, 50.0])
    np.testing.assert_allclose(batch.y, [0.0, 30.0])
    np.testing.assert_allclose(layer.y, [0.0, 1e-6])
    assert (batch.name, layer.name) == ("batch normalisation", "layer normalisation")
    assert batch.line.dash != layer.line.dash  # told apart without colours
    assert figure.layout.showlegend
