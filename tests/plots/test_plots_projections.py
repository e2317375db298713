from __future__ import annotations

import numpy as np
import pytest

from transformer.analysis.arithmetic import HeadArithmetic, head_arithmetic
from transformer.plots import theme
from transformer.plots.projections import MOST_KEYS, head_slices, retrieval, strips

NAMES = ["<b>", "$x$", ""]


def arithmetic(mask: list[bool]) -> HeadArithmetic:
    drawn = np.random.default_rng(1)
    query, keys, values = drawn.standard_normal(4), drawn.standard_normal((3, 4)), drawn.standard_normal((3, 4))
    return head_arithmetic(query, keys, values, np.array(mask), drawn.standard_normal((4, 8)), np.zeros(8))


def test_strips_hold_the_vectors_and_count_dimensions_from_one() -> None:
    vectors = np.array([[1.0, -4.0], [0.0, 2.0]])
    shown = strips(["q", "<k>"], vectors, "encoder", theme.LIGHT)
    (heat,) = shown.data
    np.testing.assert_array_equal(heat.z, vectors)
    assert list(heat.x) == [1, 2]
    assert (heat.zmin, heat.zmax) == (-4.0, 4.0)
    assert list(shown.layout.yaxis.ticktext) == ["q", "&lt;k&gt;"]
    assert heat.customdata[1][0] == "&lt;k&gt;"


@pytest.mark.parametrize("mask", [[True, True, True], [True, False, True]])
def test_retrieval_shows_scores_weights_and_weighted_values(mask: list[bool]) -> None:
    found = arithmetic(mask)
    shown = retrieval(NAMES, found, "encoder", theme.DARK)
    scores, weights, values = shown.data
    np.testing.assert_allclose(scores.x, np.where(mask, found.scores, np.nan))
    np.testing.assert_allclose(weights.x, found.weights)
    np.testing.assert_allclose(values.z[:3], found.weights[:, None] * found.values, rtol=1e-5)
    np.testing.assert_allclose(values.z[3], np.asarray(values.z[:3]).sum(axis=0), rtol=1e-4, atol=1e-6)
    assert list(shown.layout.yaxis.ticktext) == ["&lt;b&gt;", "$x$", "␀", "<b>Σ</b>"]
    assert ("masked" in scores.customdata[1]) is (not mask[1])


def test_of_many_keys_the_strongest_are_drawn_and_the_rows_still_make_the_sum() -> None:
    drawn, count = np.random.default_rng(5), MOST_KEYS + 10
    query, keys, values = drawn.standard_normal(4), drawn.standard_normal((count, 4)), drawn.standard_normal((count, 4))
    found = head_arithmetic(query, keys, values, np.ones(count, bool), np.ones((4, 8)), np.zeros(8))
    shown = retrieval([f"k{key}" for key in range(count)], found, "encoder", theme.LIGHT)
    scores, weights, strip = shown.data
    ticks = list(shown.layout.yaxis.ticktext)
    assert len(ticks) == MOST_KEYS + 1
    assert "11 others" in ticks[-2]
    kept = [int(tick[1:]) for tick in ticks[:-2]]
    assert kept == sorted(np.argsort(-found.weights)[: MOST_KEYS - 1].tolist())
    np.testing.assert_allclose(np.asarray(weights.x)[:-1], found.weights[kept])
    assert np.sum(weights.x) == pytest.approx(1.0)
    assert np.isnan(scores.x[-1])
    np.testing.assert_allclose(np.asarray(strip.z)[:-1].sum(axis=0), found.weighted_sum, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("heads", "width"), [(1, 8), (4, 3), (16, 4)])
def test_slices_are_the_same_numbers_once_stacked_and_once_side_by_side(heads: int, width: int) -> None:
    outputs = np.random.default_rng(2).standard_normal((heads, width)).astype(np.float32)
    output = np.arange(heads * width, dtype=np.float32)
    shown = head_slices(outputs, output, "encoder", theme.LIGHT)
    stacked, whole, mixed = shown.data
    np.testing.assert_array_equal(stacked.z, outputs)
    np.testing.assert_array_equal(np.asarray(whole.z)[0], np.concatenate(list(outputs)))
    np.testing.assert_array_equal(np.asarray(mixed.z)[0], output)
    assert (stacked.zmax, stacked.zmin) == (whole.zmax, whole.zmin)
    assert [shape.x0 for shape in shown.layout.shapes] == [head * width + 0.5 for head in range(1, heads)]


def test_zeros_can_be_drawn() -> None:
    strips(["q"], np.zeros((1, 4)), "encoder", theme.LIGHT)
    head_slices(np.zeros((2, 2)), np.zeros(4), "encoder", theme.LIGHT)
