"""What a decoder remembers between two steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor


def bias_of(mask: Tensor, dtype: torch.dtype) -> Tensor | None:
    """What a mask of keys, bool [B, S], adds to scores: [B, 1, 1, S], 0 or the lowest number; None if all are True."""
    if bool(mask.all()):
        return None
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)[:, None, None]


@dataclass(frozen=True)
class DecoderState:
    """Keys and values of N rows (sentences, or beams of sentences); a value that is passed in and out, never mutated.

    The keys and values of cross-attention are computed once per source and shared by the rows that translate it: row i
    belongs to source i // ``width``. Those of self-attention grow by one position a step: a step returns a new state
    and leaves the old one as it was, so a search may go on from any earlier state.
    """

    own: Tensor
    """[N, L, 2, H, t, K]: keys (0) and values (1) of self-attention in all decoder layers, after t steps."""
    source: Tensor
    """[N / width, L, 2, H, S, K]: those of cross-attention."""
    source_mask: Tensor
    """bool [N / width, S], True at real source pieces."""
    source_bias: Tensor | None
    """[N / width, 1, 1, S], what the mask adds to scores; None where every piece is real."""
    width: int = 1
    """How many rows, next to each other, share a source."""

    @classmethod
    def start(cls, source: Tensor, source_mask: Tensor) -> Self:
        """Before the first step, with a row for each source."""
        rows, layers, two, heads, _, size = source.shape
        bias = bias_of(source_mask, source.dtype)
        if bias is not None:
            # A source without a real piece: attention to nothing but zeros gives the zero that the law asks for.
            source = source * source_mask.any(dim=1)[:, None, None, None, None, None]
        return cls(source.new_empty(rows, layers, two, heads, 0, size), source, source_mask, bias)

    @property
    def length(self) -> int:
        """Number of positions decoded so far, t."""
        return self.own.size(4)

    @property
    def rows(self) -> int:
        """N."""
        return self.own.size(0)

    def grown(self, own: Tensor) -> Self:
        """The state with keys and values of one position more."""
        return replace(self, own=own)

    def of_every_row(self, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """Cross-attention's keys and values of a layer, [N, H, S, K] each, and the mask [N, S], of every row."""
        keys, values = self.source[:, layer].unbind(1)
        every = (keys, values, self.source_mask)
        if self.width == 1:
            return every
        keys, values, mask = (tensor.repeat_interleave(self.width, dim=0) for tensor in every)
        return keys, values, mask

    def reorder(self, index: Tensor) -> Self:
        """A state whose row i is this one's row index[i]; index [N'] int64 may repeat and leave out rows.

        What belongs to sources is copied only if other sources are asked for than are there.
        """
        owners, counts = torch.unique_consecutive(index // self.width, return_counts=True)
        numbers = counts.tolist()
        width = math.gcd(*numbers) or 1
        if any(number != width for number in numbers):
            owners = owners.repeat_interleave(counts // width)
        own = self.own.index_select(0, index)
        if owners.tolist() == list(range(self.source.size(0))):
            return replace(self, own=own, width=width)
        return replace(
            self,
            own=own,
            source=self.source.index_select(0, owners),
            source_mask=self.source_mask.index_select(0, owners),
            source_bias=None if self.source_bias is None else self.source_bias.index_select(0, owners),
            width=width,
        )
