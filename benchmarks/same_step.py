"""Whether an update of the weights on another device does what it does on the CPU."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.common import emit
from benchmarks.pairs import NEWS, synthetic
from transformer.config import ModelConfig
from transformer.nn.model import Transformer
from transformer.text.batching import Batch, collate
from transformer.training.recipe import TrainingSection
from transformer.training.step import Stepper

PAIRS = 16
"""In the batch that is compared."""


@dataclass(frozen=True)
class Outcome:
    """One update: its figures, and the weights behind it, on the CPU."""

    loss: float
    gradient_norm: float
    weights: dict[str, Tensor]


@dataclass(frozen=True)
class Differences:
    """How far one update is from another, each figure relative to the size of what it compares."""

    loss: float
    gradient_norm: float
    change: float
    """Of the change of all weights together, in Euclidean norm."""

    def within(self, limits: Differences) -> bool:
        """Whether no figure is above its limit; one that is not a number is."""
        return all(getattr(self, name) <= limit for name, limit in vars(limits).items())


LIMITS = {"float32": Differences(1e-5, 1e-4, 2e-4), "bfloat16": Differences(2e-3, 1e-2, 5e-2)}
"""Some five to ten times what rounding does to preset base (on the CPU: float32 against float64, and bfloat16)."""


def one_update(model: Transformer, batch: Batch, device: torch.device, precision: str) -> Outcome:
    """Update a copy of the model by one batch.

    Adam's first step divides every gradient by its own size, so that rounding would decide the sign of what should be
    zero. With an epsilon of 1 the step is nearly the clipped gradient, and with a rate of 1 it is as large as it.
    """
    settings = TrainingSection(learning_rate=1.0, warmup_steps=1, epsilon=1.0, precision=precision)
    stepper = Stepper(copy.deepcopy(model), settings, device)
    update = stepper.update([batch])
    weights = {name: value.detach().float().cpu() for name, value in stepper.model.named_parameters()}
    return Outcome(update.loss, update.gradient_norm, weights)


def differences(model: Transformer, reference: Outcome, other: Outcome) -> Differences:
    """How far ``other`` is from ``reference``, both updates of ``model``, which is on the CPU."""
    start = {name: value.detach() for name, value in model.named_parameters()}

    def distance(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
        return sum(float((ours[name] - theirs[name]).double().square().sum()) for name in start) ** 0.5

    return Differences(
        abs(other.loss - reference.loss) / abs(reference.loss),
        abs(other.gradient_norm - reference.gradient_norm) / reference.gradient_norm,
        distance(other.weights, reference.weights) / distance(reference.weights, start),
    )


def check(config: ModelConfig, device: torch.device, name: str) -> bool:
    """Compare an update on ``device``, in both precisions, with the CPU's in float32; whether they agree.

    Prints a line for each precision. ``config`` must be without dropout.
    """
    torch.manual_seed(1)
    model = Transformer(config)
    batch = collate(synthetic(PAIRS, config.vocab_size, NEWS), range(PAIRS))
    reference = one_update(model, batch, torch.device("cpu"), "float32")
    agreed = True
    for precision, limits in LIMITS.items():
        found = differences(model, reference, one_update(model, batch, device, precision))
        agreed = agreed and found.within(limits)
        emit(
            benchmark="gpu-check",
            system=f"{device.type} {precision} against cpu float32",
            preset=name,
            value=found.change,
            unit="relative difference of the weights' change",
            threads=torch.get_num_threads(),
            other_cpu=None,  # nothing is timed
            loss=found.loss,
            gradient_norm=found.gradient_norm,
            limits=vars(limits),
            agrees=found.within(limits),
        )
    return agreed
