"""The only thing a search knows about a model: last pieces and state in, log-probabilities and state out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import torch
from torch import Tensor

from transformer.config import EOS_ID, PAD_ID, SOS_ID
from transformer.decoding.coverage import CoveredState
from transformer.nn.probe import observed, register_hooks, watching
from transformer.nn.quick import Quick

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


def model_step(model: Transformer, quick: Quick | None = None) -> StepFunction[DecoderState]:
    """The step function of a model; its state comes from ``model.start``, or from ``quick.start``.

    ``quick`` is the same model made ready for when nobody looks; without it the model itself takes every step. The
    softmax is always taken in float32, whatever the precision of the weights.
    """

    def step(last: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        take = model.step if quick is None or observed() else quick.step
        hidden, state = take(last, state)
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


def start(
    model: Transformer, sources: Sequence[Sequence[int]], coverage: bool = False
) -> tuple[StepFunction[Any], Any]:
    """The step function of a search, and the state of these sources before the first step.

    The state keeps what cross-attention needs of the encoder's output, computed once.

    Args:
        model: the model.
        sources: each with its <SOS> and <EOS>.
        coverage: whether the search has a coverage penalty; the state is a ``CoveredState`` then.
    """
    longest = max(len(source) for source in sources)
    rows = [[*source, *[PAD_ID] * (longest - len(source))] for source in sources]
    ids = torch.tensor(rows, dtype=torch.int64, device=next(model.parameters()).device)
    with torch.inference_mode():
        mask = ids != PAD_ID
        if not (coverage or model.training or observed()):
            quick = Quick(model)
            return model_step(model, quick), quick.start(ids, mask)
        state = model.start(model.encode(ids, mask), mask)
        if not coverage:
            return model_step(model), state
        return covered_step(model), CoveredState.start(state, mask & (ids != SOS_ID) & (ids != EOS_ID))


class _Keeper:
    """A sink that keeps what one probe saw, as it is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.kept: list[Tensor] = []

    def wants(self, name: str) -> bool:
        return name == self._name

    def receive(self, name: str, value: Tensor) -> None:
        self.kept.append(value)
