"""The only thing a search knows about a model: last pieces and state in, log-probabilities and state out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import torch
from torch import Tensor

from transformer.decoding.coverage import CoveredState
from transformer.nn.probe import register_hooks, watching

if TYPE_CHECKING:
    from transformer.nn.model import Transformer
    from transformer.nn.state import DecoderState


class State(Protocol):
    """What a step function remembers about N rows, a value passed in and out and never kept in a module."""

    def reorder(self, index: Tensor) -> Self:
        """The state of rows ``index`` [N'] int64 of this one; a row may be repeated or left out."""
        ...


@runtime_checkable
class CoverageState(State, Protocol):
    """A state that also knows how much of the source its rows have looked at; needed for a coverage penalty."""

    def log_coverage(self) -> Tensor:
        """[N] float32, never above 0: what the penalty's beta is multiplied with."""
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


def covered_step(model: Transformer) -> StepFunction[CoveredState]:
    """``model_step`` that also adds up the cross-attention of the last decoder layer (``coverage``).

    The model computes its attention patterns explicitly for it, which is slower; hooks are registered if they are not.
    """
    register_hooks(model)
    plain = model_step(model)
    name = f"decoder.{model.config.decoder_layers - 1}.cross_attn.pattern"

    def step(last: Tensor, state: CoveredState) -> tuple[Tensor, CoveredState]:
        sink = _Keeper(name)
        with watching(sink):
            log_probs, inner = plain(last, state.inner)
        return log_probs, state.grown(inner, sink.kept[0])

    return step


class _Keeper:
    """A sink that keeps what one probe saw, as it is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.kept: list[Tensor] = []

    def wants(self, name: str) -> bool:
        return name == self._name

    def receive(self, name: str, value: Tensor) -> None:
        self.kept.append(value)
