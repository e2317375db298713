"""Which source pieces belong to which output piece, read off cross-attention.

A reading aid, not a proof: attention weights say where the model looked, not what decided its choice.
Letters: L layers, H heads, T output pieces, S source pieces.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def partners(cross: NDArray[np.float32], candidates: NDArray[np.bool_], share: float = 0.5) -> list[list[int]]:
    """For every output piece the source pieces that it looks at most.

    The weights are averaged over all layers and heads, and over the real source pieces only (``<SOS>`` and ``<EOS>``
    collect the attention of idle heads). The strongest piece is a partner, and so is every other with at least
    ``share`` of its weight.

    Args:
        cross: [L, H, T, S] attention weights.
        candidates: [S] True where a source piece may be a partner.
        share: between 0 and 1.

    Returns:
        T lists of source positions, strongest first; empty where nothing may be a partner or nothing is looked at.
    """
    mean = cross.mean(axis=(0, 1))
    columns = np.flatnonzero(candidates)
    if not len(columns):
        return [[] for _ in range(len(mean))]
    found = []
    for row in mean[:, columns]:
        order = np.argsort(-row, kind="stable")
        top = row[order[0]]
        found.append([int(columns[i]) for i in order if top > 0.0 and row[i] >= share * top])
    return found
