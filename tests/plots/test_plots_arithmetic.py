from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from transformer.plots import theme
from transformer.plots.arithmetic import arithmetic_bars

KEYS = ["<b>", "$x$", "", "dog"]
SCALED = np.array([1.5, -2.0, 0.25, 9.0], dtype=np.float32)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max())
    return (powers / powers.sum()).astype(np.float32)


def figure(allowed: np.ndarray | None, weights: np.ndarray | None = None) -> Any:
    open_keys = np.ones(4, dtype=bool) if allowed is None else allowed
    scores = np.where(open_keys, SCALED, -np.inf)
    usual = softmax(scores) if weights is None else weights
    return arithmetic_bars(KEYS, SCALED, usual, softmax(scores * 8), allowed, "decoder", theme.LIGHT)


def bars(shown: Any) -> list[Any]:
    return [trace for trace in shown.data if trace.type == "bar"]


def test_three_panels_hold_the_three_numbers_of_each_key() -> None:
    shown = figure(None)
    scores, weights, unscaled = bars(shown)
    np.testing.assert_array_equal(scores.x, SCALED)
    np.testing.assert_allclose(weights.x, softmax(SCALED), rtol=1e-6)
    np.testing.assert_allclose(unscaled.x, softmax(SCALED * 8), rtol=1e-6)
    assert [list(trace.y) for trace in (scores, weights, unscaled)] == [[0, 1, 2, 3]] * 3
    assert list(scores.text) == ["+1.50", "-2.00", "+0.25", "+9.00"]
    titles = [shown.layout[axis].title.text for axis in ("xaxis", "xaxis2", "xaxis3")]
    assert "√d" in titles[0]
    assert titles[1] == "softmax: the weight"
    assert "without" in titles[2]


def test_keys_are_verbatim_and_in_order_from_the_top() -> None:
    shown = figure(None)
    assert list(shown.layout.yaxis.ticktext) == ["&lt;b&gt;", "$x$", "␀", "dog"]
    assert shown.layout.yaxis.range == (3.5, -0.5)
    assert shown.layout.yaxis2.matches == shown.layout.yaxis3.matches == "y"
    assert bars(shown)[1].customdata[0] == f"'&lt;b&gt;': weight {softmax(SCALED)[0]:.4f}"


def test_weights_share_one_scale_and_scores_fit_theirs() -> None:
    layout = figure(None).layout
    assert layout.xaxis2.range == layout.xaxis3.range
    assert layout.xaxis2.range[0] == 0
    assert layout.xaxis2.range[1] >= 1
    assert layout.xaxis.range[0] < -2
    assert layout.xaxis.range[1] > 9


def test_masked_keys_say_so_and_have_no_bars() -> None:
    shown = figure(np.array([True, False, True, False]))
    for trace in bars(shown):
        np.testing.assert_array_equal(np.isnan(trace.x), [False, True, False, True])
    (word,) = [trace for trace in shown.data if trace.type == "scatter"]
    assert (list(word.y), list(word.text)) == ([1, 3], ["masked", "masked"])
    assert word.customdata[0] == "'$x$': masked, the query may not look here"
    assert [shape.y0 + 0.5 for shape in shown.layout.shapes] == [1, 3]
    assert {shape.fillcolor for shape in shown.layout.shapes} == {theme.LIGHT.masked}
    assert shown.layout.xaxis.range[1] < 9  # a score that is not drawn does not stretch the scale


def test_a_mask_that_leaks_is_shown() -> None:
    leaking = np.array([0.5, 0.25, 0.25, 0.0], dtype=np.float32)
    shown = figure(np.array([True, False, True, False]), leaking)
    assert bars(shown)[1].x[1] == np.float32(0.25)
    assert bars(shown)[0].x[1] == SCALED[1]


@pytest.mark.parametrize("count", [1, 4, 40])
def test_height_is_set_by_the_number_of_keys(count: int) -> None:
    values = np.full(count, 1 / count, dtype=np.float32)
    shown = arithmetic_bars(["a"] * count, values, values, values, None, "cross", theme.DARK)
    other = arithmetic_bars(["a"] * count, values * 9, values, values, None, "cross", theme.DARK)
    assert shown.layout.height == other.layout.height > 24 * count
    assert bars(shown)[1].marker.color == theme.DARK.cross
