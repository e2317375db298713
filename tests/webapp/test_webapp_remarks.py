from __future__ import annotations

import numpy as np

from transformer.analysis.maps import Axis, KindView
from transformer.webapp.remarks import remark

AXIS = Axis("", ("a", "b", "c", "."), (False,) * 4)


def said(weights: np.ndarray) -> str:
    weights = weights.astype(np.float32)
    return remark(KindView("encoder", weights[None, None], AXIS, AXIS, ("",) * 4), weights)


def test_heads_that_rest_or_spread_are_remarked_on() -> None:
    resting = np.full((4, 4), 0.04)
    resting[:, 3] = 0.88
    assert said(resting).startswith("This head gives 88 % of its attention to '.'.")
    assert said(np.full((4, 4), 0.25)).startswith("This head spreads its attention almost evenly")
    assert said(np.eye(4)) == ""
