"""Run a trained model with something inside it changed, through its probes, and see what it writes then."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from transformer.capture.record import FloatArray
from transformer.capture.sink import to_numpy
from transformer.config import SOS_ID
from transformer.nn.probe import watching

if TYPE_CHECKING:
    from transformer.engine import Translator


class Changing:
    """A sink that replaces what some probes saw.

    Args:
        ending: how the names of those probes end, for example ``cross_attn.pattern``.
        change: from the value seen, batch axis first, to the value that the model goes on with.
    """

    def __init__(self, ending: str, change: Callable[[Tensor], Tensor]) -> None:
        self._ending = ending
        self._change = change

    def wants(self, name: str) -> bool:
        """Whether it is one of those probes."""
        return name.endswith(self._ending)

    def receive(self, name: str, value: Tensor) -> Tensor | None:
        """The changed value."""
        return self._change(value)


@dataclass(frozen=True, eq=False)
class Changed:
    """What a model makes of a pair of sentences as it is, and with something changed."""

    log_probs: FloatArray
    """[T] of each piece of the target, given the source and the pieces before it, in nats: the model as it is."""
    changed_log_probs: FloatArray
    """[T] the same with the change."""
    text: str
    """What greedy search writes: the model as it is."""
    changed_text: str
    """What greedy search writes with the change."""

    def __post_init__(self) -> None:
        self.log_probs.setflags(write=False)
        self.changed_log_probs.setflags(write=False)

    @property
    def perplexity(self) -> float:
        """exp of the mean loss per piece of the target, the model as it is: among how many pieces it wavers."""
        return math.exp(-float(self.log_probs.mean()))

    @property
    def changed_perplexity(self) -> float:
        """The same with the change."""
        return math.exp(-float(self.changed_log_probs.mean()))


def compare(translator: Translator, text: str, target_ids: Sequence[int], sink: Changing) -> Changed:
    """Score a target and translate greedily, as the model is and under ``sink``.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: T >= 1 pieces to score, ``<EOS>`` last if it is complete.
        sink: the change.

    Raises:
        InputError: as ``Translator.translate``.
    """
    source = translator.tokenizer.encode(text)
    plain = translator.translate(text, beam_size=1).text
    usual = _log_probs(translator, source, target_ids)
    with watching(sink):
        changed = translator.translate(text, beam_size=1).text
        unusual = _log_probs(translator, source, target_ids)
    return Changed(usual, unusual, plain, changed)


def _log_probs(translator: Translator, source: Sequence[int], target: Sequence[int]) -> FloatArray:
    """[T] of one teacher-forced pass."""
    device = next(translator.model.parameters()).device
    ids = torch.tensor([list(source)], device=device)
    read = torch.tensor([[SOS_ID, *target[:-1]]], device=device)
    wanted = torch.tensor(list(target), device=device)[:, None]
    with torch.inference_mode():
        logits = translator.model(ids, read)[0].float()
        found = torch.log_softmax(logits, dim=-1).gather(1, wanted)[:, 0]
    return cast(FloatArray, to_numpy(found))
