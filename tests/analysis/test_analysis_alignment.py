from __future__ import annotations

import numpy as np

from transformer.analysis.alignment import partners


def test_strongest_real_piece_is_the_partner() -> None:
    cross = np.array([[[[0.6, 0.3, 0.1, 0.0], [0.1, 0.2, 0.3, 0.4]]]], dtype=np.float32)
    real = np.array([False, True, True, False])
    assert partners(cross, real) == [[1], [2, 1]]
    assert partners(cross, real, share=1.0) == [[1], [2]]


def test_heads_and_layers_are_averaged() -> None:
    cross = np.zeros((2, 2, 1, 3), dtype=np.float32)
    cross[0, :, 0, 0] = 1.0
    cross[1, :, 0, 2] = 1.0
    cross[1, 1, 0] = (0.0, 0.0, 1.0)
    assert partners(cross, np.ones(3, dtype=bool)) == [[0, 2]]


def test_nothing_to_choose_from() -> None:
    cross = np.ones((1, 1, 2, 2), dtype=np.float32)
    assert partners(cross, np.zeros(2, dtype=bool)) == [[], []]
    assert partners(np.zeros((1, 1, 1, 2), dtype=np.float32), np.ones(2, dtype=bool)) == [[]]
