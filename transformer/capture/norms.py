"""How long the value of a key is once it is carried into the output. Pure numpy.

Letters: H heads, S keys, K = D / H width of a head, D d_model.
"""

from __future__ import annotations

import numpy as np

from transformer.capture.record import FloatArray


def outward_slices(weight: FloatArray, heads: int) -> FloatArray:
    """W^O cut by head: the weight [D, D] of the output layer -> [H, K, D], so that a head's output [K] times its slice
    is what the head adds to the output of the attention.

    A linear layer keeps its matrix transposed, so a head owns K columns of ``weight``.
    """
    return weight.T.reshape(heads, -1, len(weight))


def value_norms(values: FloatArray, weight: FloatArray) -> FloatArray:
    """||f(x)|| = ||(x W^V_h + b^V_h) W^O_h|| for each head and key (Kobayashi et al. 2020, Section 3).

    The bias of W^O belongs to no key and is left out.

    Args:
        values: [H, S, K] the values of all heads, the bias b^V included.
        weight: [D, D] of the output layer.

    Returns:
        [H, S] Euclidean norms.
    """
    norms: FloatArray = np.linalg.norm(np.matmul(values, outward_slices(weight, len(values))), axis=-1)
    return norms
