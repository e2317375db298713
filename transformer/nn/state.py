"""What a decoder remembers between two steps."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class DecoderState:
    """Keys and values of N rows (sentences, or beams of sentences); a value that is passed in and out, never mutated.

    The keys and values of cross-attention are computed once per source. Those of self-attention grow by one position a
    step: a step returns a new state and leaves the old one as it was, so a search may go on from any earlier state.
    """

    self_keys: tuple[Tensor, ...]
    """Per decoder layer [N, H, t, K]; empty tensors (t = 0) before the first step."""
    self_values: tuple[Tensor, ...]
    cross_keys: tuple[Tensor, ...]
    """Per decoder layer [N, H, S, K]."""
    cross_values: tuple[Tensor, ...]
    source_mask: Tensor
    """bool [N, S], True at real source pieces."""

    @property
    def length(self) -> int:
        """Number of positions decoded so far, t."""
        return self.self_keys[0].size(2)

    @property
    def rows(self) -> int:
        """N."""
        return self.source_mask.size(0)

    def reorder(self, index: Tensor) -> DecoderState:
        """A state whose row i is this one's row index[i]; index [N'] int64 may repeat and leave out rows."""

        def pick(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(tensor.index_select(0, index) for tensor in tensors)

        return DecoderState(
            self_keys=pick(self.self_keys),
            self_values=pick(self.self_values),
            cross_keys=pick(self.cross_keys),
            cross_values=pick(self.cross_values),
            source_mask=self.source_mask.index_select(0, index),
        )
