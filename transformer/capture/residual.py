"""How much of a position the residual connection keeps, against what attention adds to it. Pure numpy.

Letters: T positions, H heads, K = D / H width of a head, D d_model.
"""

from __future__ import annotations

import numpy as np

from transformer.capture.record import FloatArray


def attention_output(heads: FloatArray, weight: FloatArray, bias: FloatArray) -> FloatArray:
    """Concat(head_1 … head_H) W^O + b^O, what the attention adds to the stream (paper, Section 3.2.2).

    Args:
        heads: [H, T, K] what each head gives.
        weight: [D, D] of the output layer, transposed as a linear layer keeps it.
        bias: [D]

    Returns:
        [T, D]
    """
    side_by_side = heads.transpose(1, 0, 2).reshape(heads.shape[1], -1)
    added: FloatArray = side_by_side @ weight.T + bias
    return added


def kept_share(stream: FloatArray, added: FloatArray) -> FloatArray:
    """||x|| / (||x|| + ||MultiHead(x)||): 1 where attention adds nothing, a half where it adds as much as was there.

    Compares the lengths of the two terms of LayerNorm(x + MultiHead(x)), in the manner of Kobayashi et al. 2021 (arXiv
    2109.07152, Section 3). They count what a query takes of its own value as kept, too; here that stays with the
    attention, whose map has it on the diagonal. Directions are left out: two long terms may cancel.

    Args:
        stream: [T, D] the residual stream that enters the sublayer.
        added: [T, D] the output of the sublayer, before it is added.

    Returns:
        [T] float32, from 0 to 1; 1 where both are zero.
    """
    there, new = np.linalg.norm(stream, axis=-1), np.linalg.norm(added, axis=-1)
    total = there + new
    share: FloatArray = np.where(total > 0.0, there / np.where(total > 0.0, total, 1.0), 1.0).astype(np.float32)
    return share
