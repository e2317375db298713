"""The learning rate over the steps, and Adam at work on this model and one pair (paper, Section 5.3)."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transformer.config import SOS_ID
from transformer.errors import InputError, problem
from transformer.training.loss import smoothed_cross_entropy
from transformer.training.schedule import learning_rate, paper_peak
from transformer.training.sections import TrainingSection

if TYPE_CHECKING:
    from transformer.engine import Translator

FloatArray = NDArray[np.float64]

USUAL = TrainingSection()
"""What the trainer does unless a recipe says otherwise: the paper's settings where it has them."""
LARGEST = 40_000_000
"""Parameters up to which updates are tried in the app: a copy of the model, its gradients and Adam's two averages are
four times as many numbers."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """A learning rate over the steps of a training."""

    steps: NDArray[np.int64]
    """[N] from 1, growing."""
    rates: FloatArray
    """[N]"""
    warmup_steps: int
    peak: float
    """The largest rate, at step ``warmup_steps``."""


def schedule(warmup_steps: int, last: int, peak: float = 0.0, d_model: int = 512, points: int = 400) -> Schedule:
    """The rate of a training from its first step to ``last``, as the trainer computes it.

    Args:
        warmup_steps: steps of linear growth.
        last: last step; at least 1.
        peak: largest rate; 0 takes the paper's D^-0.5 * warmup^-0.5.
        d_model: D, for the paper's.
        points: about how many steps to name; the end of the warm-up is always among them.
    """
    peak = peak or paper_peak(d_model, warmup_steps)
    named = np.linspace(1, last, min(points, last)).round().astype(np.int64)
    steps = np.unique(np.append(named, min(warmup_steps, last)))
    rates = np.array([learning_rate(int(step), warmup_steps, peak) for step in steps])
    return Schedule(steps, rates, warmup_steps, peak)


def own_settings(meta: Mapping[str, Any]) -> TrainingSection | None:
    """How a checkpoint was trained, from its ``config.json``; None if that does not say."""
    recipe = _mapping(_mapping(meta.get("training")).get("recipe"))
    section = _mapping(recipe.get("training"))
    if not section:
        return None
    known: dict[str, Any] = {}
    for field in dataclasses.fields(TrainingSection):
        value = section.get(field.name)
        if _alike(value, getattr(USUAL, field.name)):
            known[field.name] = value
    return dataclasses.replace(USUAL, **known)


def own_schedule(meta: Mapping[str, Any], d_model: int) -> Schedule | None:
    """The schedule that a checkpoint was trained by, over the steps of its training; None if it does not say."""
    settings, steps = own_settings(meta), _mapping(meta.get("training")).get("steps")
    if settings is None or not isinstance(steps, int) or steps < 1 or settings.warmup_steps < 1:
        return None
    return schedule(settings.warmup_steps, steps, settings.learning_rate, d_model)


@dataclass(frozen=True, eq=False)
class Followed:
    """One weight through n updates of Adam (Kingma and Ba 2015, Algorithm 1; g is its gradient)."""

    name: str
    """Of the matrix, and the place in it."""
    values: FloatArray
    """[n + 1] before each update, and after the last."""
    gradients: FloatArray
    """[n] g, after clipping."""
    first: FloatArray
    """[n] m, running mean of g."""
    second: FloatArray
    """[n] v, running mean of g squared."""
    moves: FloatArray
    """[n] what the update adds to the weight: -rate * m' / (sqrt(v') + epsilon), where m' = m / (1 - beta1^t) and
    v' = v / (1 - beta2^t). In the first update that is the rate itself, up or down, whatever the gradient."""


@dataclass(frozen=True, eq=False)
class AdamRun:
    """What n updates on one pair did."""

    rates: FloatArray
    """[n]"""
    losses: FloatArray
    """[n + 1] label-smoothed loss per piece of the pair, before each update and after the last."""
    norms: FloatArray
    """[n] length of the whole gradient, before clipping."""
    followed: tuple[Followed, ...]
    """The weight with the largest first gradient, and one of the same matrix whose gradient is in the middle."""
    settings: TrainingSection


def adam_run(
    translator: Translator, text: str, target_ids: Sequence[int], rates: Sequence[float], settings: TrainingSection
) -> AdamRun:
    """Train a private copy of the model on one pair for a few updates; the model itself stays as it is.

    Adam begins anew, with empty averages, as at the beginning of a training; dropout is off, so that the numbers can
    be worked out again. Loss and clipping are the trainer's. Adam is written out here: the optimizer that the trainer
    uses does the same (a test compares them), but loads PyTorch's compiler at its first use, which takes seconds.

    Args:
        translator: the model.
        text: the source sentence.
        target_ids: the right translation as pieces, ``<EOS>`` last.
        rates: the learning rate of each update.
        settings: beta1, beta2, epsilon, label smoothing, clipping.

    Raises:
        InputError: an empty target, or a model of more than ``LARGEST`` parameters.
    """
    if not target_ids:
        raise InputError(problem("target", "must hold at least <EOS>", target_ids, "give a translation"))
    if translator.parameter_count > LARGEST:
        rule = f"must have at most {LARGEST:,} parameters to be updated here"
        raise InputError(problem("model", rule, translator.parameter_count, "choose a smaller one"))
    model = copy.deepcopy(translator.model).requires_grad_(True)
    parameters = dict(model.named_parameters())
    first = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    second = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    device = next(model.parameters()).device
    source = torch.tensor([translator.tokenizer.encode(text)], device=device)
    read = torch.tensor([[SOS_ID, *list(target_ids)[:-1]]], device=device)
    labels = torch.tensor(list(target_ids), device=device)
    losses, norms = [], []
    watched: list[tuple[str, int]] = []
    kept: list[list[tuple[float, float, float, float]]] = []  # of each weight and update: value, g, m, v
    for time, rate in enumerate(rates, start=1):
        loss, _ = smoothed_cross_entropy(
            model.hidden(source, read)[0], model.projection.weight, labels, settings.label_smoothing
        )
        losses.append(float(loss.detach()) / len(labels))
        torch.autograd.backward(loss / len(labels))
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm or math.inf)))
        if not watched:
            watched = _chosen_weights(parameters)
            kept = [[] for _ in watched]
        before = [(_at(parameters[name], place), _at(parameters[name].grad, place)) for name, place in watched]
        for name, parameter in parameters.items():
            if parameter.grad is not None:
                _update(parameter, parameter.grad, first[name], second[name], time, rate, settings)
                parameter.grad = None
        for story, (name, place), (value, gradient) in zip(kept, watched, before, strict=True):
            story.append((value, gradient, _at(first[name], place), _at(second[name], place)))
    with torch.no_grad():
        loss, _ = smoothed_cross_entropy(
            model.hidden(source, read)[0], model.projection.weight, labels, settings.label_smoothing
        )
    losses.append(float(loss) / len(labels))
    speeds = np.array(rates, dtype=np.float64)
    followed = tuple(
        _followed(parameters[name], name, place, story, speeds, settings)
        for (name, place), story in zip(watched, kept, strict=True)
    )
    return AdamRun(speeds, np.array(losses), np.array(norms), followed, settings)


def _update(
    parameter: nn.Parameter,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    time: int,
    rate: float,
    settings: TrainingSection,
) -> None:
    """Kingma and Ba 2015, Algorithm 1, in place."""
    with torch.no_grad():
        first.mul_(settings.beta1).add_(gradient, alpha=1.0 - settings.beta1)
        second.mul_(settings.beta2).addcmul_(gradient, gradient, value=1.0 - settings.beta2)
        root = (second / (1.0 - settings.beta2**time)).sqrt_().add_(settings.epsilon)
        parameter.addcdiv_(first, root, value=-rate / (1.0 - settings.beta1**time))


def _followed(
    parameter: nn.Parameter,
    name: str,
    place: int,
    story: Sequence[tuple[float, float, float, float]],
    rates: FloatArray,
    settings: TrainingSection,
) -> Followed:
    values, gradients, first, second = (np.array(column) for column in zip(*story, strict=True))
    times = np.arange(1, len(rates) + 1)
    mean, square = first / (1.0 - settings.beta1**times), second / (1.0 - settings.beta2**times)
    index = ", ".join(str(number) for number in np.unravel_index(place, tuple(parameter.shape)))
    return Followed(
        name=f"{name}[{index}]",
        values=np.append(values, _at(parameter, place)),
        gradients=gradients,
        first=first,
        second=second,
        moves=-rates * mean / (np.sqrt(square) + settings.epsilon),
    )


def _chosen_weights(parameters: Mapping[str, nn.Parameter]) -> list[tuple[str, int]]:
    """(name, place in the flattened matrix) of the largest gradient, and of a middling one of the same matrix."""
    sizes = {name: one.grad.abs().flatten() for name, one in parameters.items() if one.grad is not None}
    name = max(sizes, key=lambda key: float(sizes[key].max()))
    size = sizes[name]
    middle = int((size > 0).sum()) // 2
    # the place in the order of sizes, without sorting millions of them
    order = np.argpartition(-size.numpy(force=True), (0, middle))
    return [(name, int(order[0])), (name, int(order[middle]))]


def _at(tensor: Tensor | None, place: int) -> float:
    return 0.0 if tensor is None else float(tensor.detach().flatten()[place])


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _alike(value: object, usual: object) -> bool:
    """Whether a value read from a file can stand where ``usual`` stands."""
    if isinstance(usual, bool) or isinstance(value, bool):
        return isinstance(usual, bool) and isinstance(value, bool)
    if isinstance(usual, float):
        return isinstance(value, (int, float)) and math.isfinite(value)
    return isinstance(value, type(usual))
