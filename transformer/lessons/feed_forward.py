"""The position-wise feed-forward network (paper, Section 3.3): which units act, and that each position is on its own.

Letters: L layers, T positions, F units (feed-forward width), D d_model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from transformer.capture.sink import to_numpy
from transformer.config import ModelConfig
from transformer.errors import InputError, problem
from transformer.lessons.residual import layers_of, observe, refuse_stack, sublayers, through
from transformer.lessons.vocabulary import best, label

if TYPE_CHECKING:
    from transformer.capture.record import FloatArray
    from transformer.engine import Translator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """What one feed-forward network holds and costs, beside one attention of the same layer."""

    d_model: int
    inner: int
    """F"""
    parameters: int
    """2 D F + F + D"""
    attention_parameters: int
    """4 (D D + D): the matrices and biases of query, key, value and output."""
    multiplications: int
    """2 D F, for one position."""
    share: float
    """The share of the feed-forward networks in all parameters of the model, tied ones counted once."""


@dataclass(frozen=True)
class Unit:
    """One unit at one position."""

    number: int
    """From 0, as in the weights."""
    value: float
    """Its activation there."""
    length: float
    """How long the vector is that it adds to the stream: |activation| times the length of its column of W_2."""
    active_at: int
    """At how many positions of this sentence it is above zero."""


@dataclass(frozen=True)
class Alone:
    """How a sublayer's output at one position changes if that position is given to it alone."""

    feed_forward: float
    """Length of the change as a share of the output's length."""
    attention: float
    """The same of the self-attention of the same layer."""


def sizes(translator: Translator) -> Sizes:
    """Sizes of one feed-forward network of a model."""
    config: ModelConfig = translator.config
    wide, inner = config.d_model, config.feed_forward
    own = 2 * wide * inner + inner + wide
    layers = config.encoder_layers + config.decoder_layers
    return Sizes(
        wide, inner, own, 4 * (wide * wide + wide), 2 * wide * inner, layers * own / translator.parameter_count
    )


def activations(translator: Translator, text: str, target_ids: Sequence[int], stack: str) -> FloatArray:
    """What every unit of a stack's feed-forward networks gives: [L, T, F], behind the ReLU (or GELU).

    Args:
        translator: the model.
        text: the sentence.
        target_ids: what the decoder writes, as a hypothesis holds it.
        stack: ``encoder`` or ``decoder``.

    Raises:
        InputError: an empty or too long sentence or target, or another stack.
    """
    refuse_stack(stack)
    names = [f"{stack}.{layer}.feed_forward.hidden" for layer in range(layers_of(translator, stack))]
    seen = observe(translator, text, target_ids, names)
    return cast("FloatArray", np.stack([seen[name] for name in names]))


def active_share(hidden: NDArray[np.floating]) -> Floats:
    """The share of the units that are above zero: [..., F] -> [...]."""
    share: Floats = (hidden > 0.0).mean(axis=-1, dtype=np.float64)
    return share


def never_active(hidden: NDArray[np.floating]) -> int:
    """How many units of [T, F] are above zero at no position."""
    return int((~(hidden > 0.0).any(axis=0)).sum())


def busiest_first(hidden: NDArray[np.floating]) -> NDArray[np.int64]:
    """The units of [T, F] in order: those above zero at most positions first; of equals the larger sum first."""
    active = (hidden > 0.0).sum(axis=0)
    total = hidden.sum(axis=0, dtype=np.float64)
    order: NDArray[np.int64] = np.lexsort((np.arange(hidden.shape[1]), -total, -active))
    return order


def outward(translator: Translator, stack: str, layer: int) -> FloatArray:
    """The matrix W_2 of one network with a row for each unit, [F, D]: the vector that the unit adds to the stream."""
    weight = translator.model.get_parameter(f"{stack}.{layer}.feed_forward.outer.weight")
    return cast("FloatArray", to_numpy(weight).T)


def strongest(hidden: NDArray[np.floating], position: int, vectors: NDArray[np.floating], count: int) -> list[Unit]:
    """The ``count`` most active units at a position, the most active first; none that is not above zero.

    Args:
        hidden: [T, F] of one layer.
        position: from 0.
        vectors: [F, D] as ``outward`` gives them.
        count: how many.

    Raises:
        InputError: a position that is not there.
    """
    _refuse_position(position, len(hidden))
    row = hidden[position]
    found = []
    for number in np.argsort(-row, kind="stable")[:count]:
        if row[number] > 0.0:
            length = abs(float(row[number])) * float(np.linalg.norm(vectors[number].astype(np.float64)))
            found.append(Unit(int(number), float(row[number]), length, int((hidden[:, number] > 0.0).sum())))
    return found


def promoted(translator: Translator, stack: str, layer: int, units: Sequence[int], count: int) -> list[list[str]]:
    """For each unit, the pieces whose row of the output matrix its vector points at most (Geva et al. 2022).

    It is what the unit would make likelier if its vector reached the output unchanged. Between an early layer and the
    output lie other layers and normalisations, so only the last layers of the decoder can be read in this way.

    Args:
        translator: the model.
        stack: ``encoder`` or ``decoder``.
        layer: from 0.
        units: from 0.
        count: pieces for each.
    """
    if not units:
        return []
    logits = through(translator, translator.model.project, outward(translator, stack, layer)[list(units)])
    return [[label(translator, number) for number in best(row, count)] for row in logits]


def alone(translator: Translator, text: str, target_ids: Sequence[int], stack: str, layer: int, position: int) -> Alone:
    """Give one position of a sentence to the sublayers of a layer without the others, and compare.

    Arguments as in ``activations``, with layer and position from 0.

    Raises:
        InputError: as ``activations``; or a layer or position that is not there.
    """
    found = {one.part: one for one in sublayers(translator, text, target_ids, stack) if one.layer == layer}
    if not found:
        rule = f"must be from 0 to {layers_of(translator, stack) - 1}"
        raise InputError(problem("layer", rule, layer, "choose one of them"))
    _refuse_position(position, len(found["self_attn"].before))
    changes = {}
    for part in ("feed_forward", "self_attn"):
        given = found[part].before[position : position + 1]
        if translator.config.norm_first:
            given = through(translator, translator.model.get_submodule(f"{stack}.{layer}.{part}_norm"), given)
        module = translator.model.get_submodule(f"{stack}.{layer}.{part}")
        own = through(translator, module if part == "feed_forward" else partial(_attending_to_itself, module), given)
        whole = found[part].added[position].astype(np.float64)
        changes[part] = float(np.linalg.norm(own[0] - whole) / (np.linalg.norm(whole) or 1.0))
    return Alone(changes["feed_forward"], changes["self_attn"])


def _attending_to_itself(module: Callable[..., Tensor], x: Tensor) -> Tensor:
    """An attention [T, D] -> [T, D] that has no batch axis and no mask."""
    return module(x[None], x[None], None)[0]


def _refuse_position(position: int, count: int) -> None:
    if not 0 <= position < count:
        raise InputError(problem("position", f"must be from 0 to {count - 1}", position, "choose one of them"))
