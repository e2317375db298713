"""The only thing a search knows about a model: last pieces and state in, log-probabilities and state out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias, TypeVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformer.nn.model import Transformer
    from transformer.nn.state import DecoderState


class State(Protocol):
    """What a step function remembers about N rows, a value passed in and out and never kept in a module."""

    def reorder(self, index: Tensor) -> Self:
        """The state of rows ``index`` [N'] int64 of this one; a row may be repeated or left out."""
        ...


AnyState = TypeVar("AnyState", bound=State)

StepFunction: TypeAlias = Callable[[Tensor, AnyState], tuple[Tensor, AnyState]]
"""(last pieces [N] int64, state of N rows) -> (log-probabilities of the next piece [N, V] float32, new state).

The log-probabilities must be the plain output of a log-softmax, none above 0; special pieces are dealt with by the
search (``rules``)."""


def model_step(model: Transformer) -> StepFunction[DecoderState]:
    """The step function of a model; its state comes from ``model.start``.

    The softmax is always taken in float32, whatever the precision of the weights.
    """

    def step(last: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        hidden, state = model.step(last, state)
        return torch.log_softmax(model.project(hidden).float(), dim=-1), state

    return step
