"""The residual stream, sublayer by sublayer, and the normalisation around each (paper, Section 3.1).

Letters: N sublayers, T positions, D d_model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.capture.capture import capture
from transformer.capture.record import Check
from transformer.capture.residual import attention_output
from transformer.capture.sink import to_numpy
from transformer.config import SOS_ID
from transformer.errors import InputError, problem
from transformer.lessons.normalisation import PART_NAMES, Floats, layer_norm, standardised

if TYPE_CHECKING:
    from transformer.capture.record import FloatArray
    from transformer.engine import Translator

STACKS = ("encoder", "decoder")
PARTS = {"encoder": ("self_attn", "feed_forward"), "decoder": ("self_attn", "cross_attn", "feed_forward")}
"""The sublayers of a layer of each stack, in their order."""
LIMIT = 1e-4
"""Largest difference from the model's own numbers, as a share of the largest of them: float32 errs by about 1e-6."""


@dataclass(frozen=True, eq=False)
class Sublayer:
    """What one sublayer of one layer does to the stream; the decoder's rows are those of its input."""

    layer: int
    """From 0."""
    part: str
    """``self_attn``, ``cross_attn`` or ``feed_forward``."""
    before: FloatArray
    """[T, D] x, the stream that enters."""
    added: FloatArray
    """[T, D] what the sublayer gives: Sublayer(x), or Sublayer(LayerNorm(x)) where the model normalises first."""
    after: FloatArray
    """[T, D] the stream that leaves, as the model computed it."""

    @property
    def name(self) -> str:
        """For people; layers count from 1."""
        return f"layer {self.layer + 1} · {PART_NAMES[self.part]}"

    @property
    def summed(self) -> FloatArray:
        """[T, D] x + Sublayer(x)"""
        return self.before + self.added


@dataclass(frozen=True, eq=False)
class Lengths:
    """How long the vectors of the residual stream are (Euclidean norm) on their way through a stack."""

    names: tuple[str, ...]
    """N sublayers, in their order."""
    before: Floats
    """[N, T] of the stream that enters a sublayer."""
    added: Floats
    """[N, T] of what the sublayer gives."""
    summed: Floats
    """[N, T] of the sum of both."""
    after: Floats
    """[N, T] of the stream that leaves; where the model normalises last (the paper), after the normalisation."""
    likeness: Floats
    """[N, T] cosine of the stream that leaves with the vector that entered the stack: 1 as long as it points the same
    way."""
    check: Check


@dataclass(frozen=True, eq=False)
class Normalised:
    """One normalisation of one sublayer, at every position."""

    read: FloatArray
    """[T, D] what it reads: x + Sublayer(x), or x where the model normalises first."""
    standard: Floats
    """[T, D] mean 0 and variance 1 at every position."""
    given: Floats
    """[T, D] times gamma, plus beta."""
    gain: FloatArray
    """[D] gamma"""
    bias: FloatArray
    """[D] beta"""
    eps: float
    check: Check
    """Whether ``given`` is what the model computed."""


def observe(
    translator: Translator, text: str, target_ids: Sequence[int], names: Iterable[str]
) -> dict[str, NDArray[np.generic]]:
    """What the named probes saw while the model read a sentence and wrote ``target_ids``; see ``capture``.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: what the decoder writes, as a hypothesis holds it; it reads ``<SOS>`` and all but the last.
        names: dotted probe names.

    Raises:
        InputError: an empty or too long sentence or target.
    """
    source = translator.tokenizer.encode(text)
    if len(source) <= 2:
        raise InputError(problem("sentence", "must hold at least one word or sign", text, "type something"))
    return capture(translator.model, source, [SOS_ID, *target_ids[:-1]], names)


def sublayers(translator: Translator, text: str, target_ids: Sequence[int], stack: str) -> list[Sublayer]:
    """Every sublayer of a stack with what goes in, what it adds and what comes out; errors as ``observe``.

    Raises:
        InputError: another stack than ``encoder`` and ``decoder``.
    """
    refuse_stack(stack)
    model = translator.model
    places = [(layer, part) for layer in range(layers_of(translator, stack)) for part in PARTS[stack]]
    names = [f"{stack}.{layer}.stream_in" for layer, part in places if part == "self_attn"]
    names += [f"{stack}.{layer}.stream_after_{part}" for layer, part in places]
    names += [f"{stack}.{layer}.{part}.{_quantity(part)}" for layer, part in places]
    seen = cast("dict[str, FloatArray]", observe(translator, text, target_ids, names))
    found: list[Sublayer] = []
    for layer, part in places:
        path = f"{stack}.{layer}.{part}"
        inner = "outer" if part == "feed_forward" else "output"
        weight, bias = (
            cast("FloatArray", to_numpy(model.get_parameter(f"{path}.{inner}.{name}"))) for name in ("weight", "bias")
        )
        made = seen[f"{path}.{_quantity(part)}"]
        added = made @ weight.T + bias if part == "feed_forward" else attention_output(made, weight, bias)
        before = seen[f"{stack}.{layer}.stream_in"] if part == "self_attn" else found[-1].after
        found.append(Sublayer(layer, part, before, added, seen[f"{stack}.{layer}.stream_after_{part}"]))
    return found


def lengths(translator: Translator, text: str, target_ids: Sequence[int], stack: str) -> Lengths:
    """The stream's lengths through a stack; arguments and errors as in ``sublayers``."""
    found = sublayers(translator, text, target_ids, stack)
    entering = found[0].before.astype(np.float64)
    norms = {name: np.stack([_norm(getattr(one, name)) for one in found]) for name in _KINDS_OF_LENGTH}
    expected = np.stack([_leaving(translator, stack, one) for one in found])
    check = _check(
        "the stream is its own sum",
        expected,
        np.stack([one.after for one in found]),
        f"What leaves each of the {len(found)} sublayers, added up and normalised again here, differs from the model's",
    )
    likeness = np.stack([_cosine(one.after.astype(np.float64), entering) for one in found])
    return Lengths(tuple(one.name for one in found), **norms, likeness=likeness, check=check)


def normalised(
    translator: Translator, text: str, target_ids: Sequence[int], stack: str, layer: int, part: str
) -> Normalised:
    """What the normalisation of one sublayer does at every position.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: as in ``observe``.
        stack: ``encoder`` or ``decoder``.
        layer: from 0.
        part: ``self_attn``, ``cross_attn`` (decoder only) or ``feed_forward``.

    Raises:
        InputError: as ``sublayers``; or a layer or part that is not there.
    """
    found = [one for one in sublayers(translator, text, target_ids, stack) if (one.layer, one.part) == (layer, part)]
    if not found:
        raise InputError(
            problem("sublayer", f"must be one of the {stack}'s", (layer, part), "choose one that is there")
        )
    read = found[0].before if translator.config.norm_first else found[0].summed
    gain, bias = _norm_parameters(translator, stack, layer, part)
    eps = translator.config.layer_norm_eps
    given = layer_norm(read, gain, bias, eps)
    if translator.config.norm_first:  # no probe sees what it gives
        own = through(translator, translator.model.get_submodule(f"{stack}.{layer}.{part}_norm"), read)
    else:
        own = found[0].after
    detail = f"{read.shape[0]} vectors normalised again here differ from the model's"
    return Normalised(
        read,
        standardised(read, eps),
        given,
        gain,
        bias,
        eps,
        _check("normalised as the model does", given, own, detail),
    )


def refuse_stack(stack: str) -> None:
    """Refuse a stack that no model has.

    Raises:
        InputError: it is neither ``encoder`` nor ``decoder``.
    """
    if stack not in STACKS:
        raise InputError(problem("stack", f"must be one of {', '.join(STACKS)}", stack, "choose one of them"))


def layers_of(translator: Translator, stack: str) -> int:
    """How many layers a stack has."""
    return translator.config.encoder_layers if stack == "encoder" else translator.config.decoder_layers


def through(translator: Translator, function: Callable[[Tensor], Tensor], x: FloatArray) -> FloatArray:
    """What a module of the model gives for [T, D]."""
    device = next(translator.model.parameters()).device
    with torch.inference_mode():
        return cast("FloatArray", to_numpy(function(torch.from_numpy(np.array(x)).to(device))))


_KINDS_OF_LENGTH = ("before", "added", "summed", "after")


def _quantity(part: str) -> str:
    return "hidden" if part == "feed_forward" else "head_output"


def _norm_parameters(translator: Translator, stack: str, layer: int, part: str) -> tuple[FloatArray, FloatArray]:
    path = f"{stack}.{layer}.{part}_norm"
    gain, bias = (to_numpy(translator.model.get_parameter(f"{path}.{name}")) for name in ("weight", "bias"))
    return cast("FloatArray", gain), cast("FloatArray", bias)


def _leaving(translator: Translator, stack: str, one: Sublayer) -> Floats:
    """[T, D] the stream behind a sublayer, computed here."""
    summed = one.before.astype(np.float64) + one.added
    if translator.config.norm_first:
        return summed
    return layer_norm(
        summed, *_norm_parameters(translator, stack, one.layer, one.part), translator.config.layer_norm_eps
    )


def _norm(x: FloatArray) -> Floats:
    """[T, D] -> [T]"""
    found: Floats = np.linalg.norm(x.astype(np.float64), axis=-1)
    return found


def _cosine(first: Floats, second: Floats) -> Floats:
    """[T, D] twice -> [T]; 0 where one is zero."""
    product = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    found: Floats = (first * second).sum(axis=-1) / np.where(product > 0.0, product, 1.0)
    return found


def _check(name: str, ours: NDArray[np.floating], model: NDArray[np.floating], detail: str) -> Check:
    difference = float(np.abs(ours - model).max(initial=0.0))
    value = difference / max(1.0, float(np.abs(model).max(initial=0.0)))
    return Check(name, bool(value <= LIMIT), value, LIMIT, f"{detail} by at most {difference:.1e}.")
