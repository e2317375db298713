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
from transformer.config import EOS_ID, SOS_ID
from transformer.decoding.rules import forbid
from transformer.decoding.step import start
from transformer.nn.probe import watching

if TYPE_CHECKING:
    from transformer.engine import Translator

MOST = 40
"""Pieces of a greedy translation that is written only to be compared: writing is what takes time."""


@dataclass(frozen=True)
class Written:
    """What greedy search writes, or the beginning of it."""

    text: str
    finished: bool
    """Whether it ended with ``<EOS>`` before it was cut off."""


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
    """What greedy search writes, at most ``MOST`` pieces: the model as it is."""
    changed_text: str
    """What greedy search writes with the change, at most ``MOST`` pieces."""
    finished: bool = True
    """Whether ``text`` ended before it was cut off."""
    changed_finished: bool = True
    """Whether ``changed_text`` did."""

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


def greedy(translator: Translator, text: str, most: int = MOST) -> Written:
    """The likeliest piece at each step, as ``Translator.translate`` with a beam of 1, but at most ``most`` pieces.

    A sink that is active sees every step.
    """
    model = translator.model
    device = next(model.parameters()).device
    limit = min(most, translator.config.max_length)
    written = [SOS_ID]
    with torch.inference_mode():
        step, state = start(model, [translator.tokenizer.encode(text)])
        while len(written) <= limit and written[-1] != EOS_ID:
            scores, state = step(torch.tensor(written[-1:], device=device), state)
            written.append(int(forbid(scores)[0].argmax()))
    return Written(translator.tokenizer.decode(written[1:]), written[-1] == EOS_ID)


def compare(
    translator: Translator, text: str, target_ids: Sequence[int], sink: Changing, plain: Written | None = None
) -> Changed:
    """Score a target and translate greedily, as the model is and under ``sink``.

    Args:
        translator: the model.
        text: a sentence that ``Translator.translate`` takes.
        target_ids: T >= 1 pieces to score, ``<EOS>`` last if it is complete.
        sink: the change.
        plain: ``greedy`` of the model as it is, if it is known.
    """
    source = translator.tokenizer.encode(text)
    plain = plain or greedy(translator, text)
    usual = log_probs(translator, source, target_ids)
    with watching(sink):
        changed = greedy(translator, text)
        unusual = log_probs(translator, source, target_ids)
    return Changed(usual, unusual, plain.text, changed.text, plain.finished, changed.finished)


def log_probs(translator: Translator, source: Sequence[int], target: Sequence[int]) -> FloatArray:
    """[T] of each piece of the target in one teacher-forced pass."""
    device = next(translator.model.parameters()).device
    ids = torch.tensor([list(source)], device=device)
    read = torch.tensor([[SOS_ID, *target[:-1]]], device=device)
    wanted = torch.tensor(list(target), device=device)[:, None]
    with torch.inference_mode():
        logits = translator.model(ids, read)[0].float()
        found = torch.log_softmax(logits, dim=-1).gather(1, wanted)[:, 0]
    return cast(FloatArray, to_numpy(found))
