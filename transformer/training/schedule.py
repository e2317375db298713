"""The learning rate over the steps (paper, Section 5.3)."""

from __future__ import annotations

import math


def learning_rate(step: int, warmup_steps: int, peak: float) -> float:
    """Linear growth to ``peak`` at ``warmup_steps``, then a fall with the inverse square root of the step.

    With ``peak`` = D^-0.5 * warmup^-0.5 this is the paper's D^-0.5 * min(step^-0.5, step * warmup^-1.5). Steps count
    from 1.
    """
    return peak * min(step / warmup_steps, math.sqrt(warmup_steps / step))


def paper_peak(d_model: int, warmup_steps: int) -> float:
    """The largest rate of the paper's formula: 7.0e-4 for D = 512 and 4,000 steps."""
    return 1.0 / math.sqrt(d_model * warmup_steps)
