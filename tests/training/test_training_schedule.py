"""The learning rate against the formula that the paper prints (Section 5.3)."""

from __future__ import annotations

import pytest

from transformer.training.schedule import learning_rate, paper_peak


def of_the_paper(step: int, d_model: int, warmup_steps: int) -> float:
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


@pytest.mark.parametrize("step", [1, 2, 100, 3999, 4000, 4001, 16000, 100_000])
@pytest.mark.parametrize(("d_model", "warmup_steps"), [(512, 4000), (1024, 4000), (128, 1000)])
def test_it_is_the_formula_of_the_paper(step: int, d_model: int, warmup_steps: int) -> None:
    rate = learning_rate(step, warmup_steps, paper_peak(d_model, warmup_steps))
    assert rate == pytest.approx(of_the_paper(step, d_model, warmup_steps), rel=1e-12)


def test_the_base_model_peaks_at_seven_ten_thousandths() -> None:
    peak = paper_peak(512, 4000)
    assert round(peak, 5) == 7.0e-4
    assert learning_rate(4000, 4000, peak) == peak
    assert learning_rate(2000, 4000, peak) == pytest.approx(peak / 2)  # linear before
    assert learning_rate(16000, 4000, peak) == pytest.approx(peak / 2)  # four times the steps, half the rate
    assert max(learning_rate(step, 4000, peak) for step in range(1, 9000)) == peak
