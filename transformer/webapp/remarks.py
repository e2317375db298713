"""Short notes where a number may surprise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from transformer.analysis.maps import KindView, evenness, resting_place
from transformer.plots.labels import percent

EVEN = 0.97
"""Share of the largest possible entropy above which a head is called even."""


def remark(maps: KindView, weights: NDArray[np.float32]) -> str:
    """What to say of a head [T, S] that always looks at the same place, or nowhere in particular; else nothing."""
    rest, spread = resting_place(weights, maps.allowed), evenness(weights, maps.allowed)
    if rest:
        return (
            f"This head gives {percent(rest.share)} of its attention to '{maps.columns.labels[rest.column]}'. "
            "Heads often rest like this on a piece that says little when they find nothing to do."
        )
    if spread is not None and spread > EVEN:
        return "This head spreads its attention almost evenly: it hardly tells the keys apart here."
    return ""
