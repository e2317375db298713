"""How much of the source a translation has looked at, counted while it is written.

Wu et al. 2016, Section 7, Equation 14, add to the score of a hypothesis Y of the source X

    cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1)),

p_ij being the attention of its j-th piece on the i-th source piece: 0 if every source piece received a sum of one, less
the less was looked at. The paper's model has one attention. Here p_ij is the **mean over the heads of the last decoder
layer's cross-attention**, and i runs over the source pieces without <SOS> and <EOS>, which no translation has to
express and on which idle heads rest. A sum below the smallest float32 counts as that, so that the penalty stays finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformer.nn.state import DecoderState


@dataclass(frozen=True)
class CoveredState:
    """The state of N rows and the attention that their source pieces have received; a value, like what it wraps."""

    inner: DecoderState
    received: Tensor
    """[N, S] float32, the sum over the steps so far."""
    counted: Tensor
    """bool [N, S], True at the source pieces that shall be covered."""

    @classmethod
    def start(cls, inner: DecoderState, counted: Tensor) -> CoveredState:
        """Before the first step nothing has been looked at."""
        return cls(inner, torch.zeros_like(counted, dtype=torch.float32), counted)

    def grown(self, inner: DecoderState, pattern: Tensor) -> CoveredState:
        """The state after one more step: ``pattern`` [N, H, 1, S] is the cross-attention of the step."""
        return CoveredState(inner, self.received + pattern[:, :, 0].float().mean(dim=1), self.counted)

    def reorder(self, index: Tensor) -> CoveredState:
        """A state whose row i is this one's row index[i]."""
        return CoveredState(
            self.inner.reorder(index), self.received.index_select(0, index), self.counted.index_select(0, index)
        )

    def log_coverage(self) -> Tensor:
        """sum_i log(min(received_i, 1)) of each row: [N] float32, never above 0."""
        smallest = torch.finfo(torch.float32).tiny
        logs = self.received.clamp(smallest, 1.0).log()
        return (logs * self.counted).sum(dim=1)
