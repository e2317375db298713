"""Encoder and decoder put together: who reads what, and cross-attention from its matrices (paper, Sections 3.1, 3.2.3).

Letters: S source length, T target length, D d_model, H heads, K = D / H width of a head, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.capture.capture import capture
from transformer.capture.names import attention_module, attention_probe, stream_probe
from transformer.capture.record import KINDS, Check, FloatArray
from transformer.capture.sink import to_numpy
from transformer.config import SOS_ID
from transformer.errors import InputError, problem
from transformer.lessons.projections import equal, normalised, stored
from transformer.nn.probe import watching

if TYPE_CHECKING:
    from transformer.engine import Translator

Floats = NDArray[np.float64]
Shape = tuple[int, ...]
MOST_STEPS = 40
"""Steps of cached decoding that ``crossing`` takes and compares."""


@dataclass(frozen=True)
class AttentionShapes:
    """The shapes in the first layer of one kind of attention, as a pass had them."""

    kind: str
    layers: int
    queries: Shape
    """[H, T, K]; T is S in the encoder."""
    keys: Shape
    """[H, S, K], those of the values too."""
    scores: Shape
    """[H, T, S]"""
    mask: Shape
    """Broadcast over the heads: [1, T, S], or [1, 1, S] where all queries have the same."""
    hidden: int
    """Cells of one head's score table that the mask hides."""


@dataclass(frozen=True)
class Assembly:
    """What flows between encoder and decoder while one pair passes through."""

    source: int
    """S"""
    target: int
    """T"""
    entering_encoder: Shape
    """[S, D]"""
    memory: Shape
    """[S, D] the encoder's output."""
    entering_decoder: Shape
    """[T, D]"""
    logits: Shape
    """[T, V]"""
    attentions: tuple[AttentionShapes, ...]
    """One for each of ``encoder``, ``decoder``, ``cross``."""
    check: Check
    """Whether keys and values of every decoder layer's cross-attention are the encoder's output times its matrices."""


@dataclass(frozen=True, eq=False)
class Crossing:
    """Queries, keys and values of one head of cross-attention, computed here in float64 from the stored matrices."""

    memory: Floats
    """[S, D] the encoder's output, what keys and values are made of."""
    reading: Floats
    """[T, D] what the queries are made of: the decoder's stream (normalised first in a pre-norm model)."""
    queries: Floats
    """[T, K]"""
    keys: Floats
    """[S, K]"""
    values: Floats
    """[S, K]"""
    steps: int
    """How many positions of the target were decoded step by step as well: all, or the first ``MOST_STEPS``."""
    tables: int
    """How many tables of keys this layer read in these steps, counted in memory: 1."""
    checks: tuple[Check, ...]
    """Whether they are the model's, in the whole pass and at every step of cached decoding."""

    @property
    def multiplications(self) -> int:
        """For the keys and values of all heads of this layer, once: 2 S D²."""
        return 2 * len(self.memory) * int(self.memory.shape[1]) ** 2


def assembly(translator: Translator, text: str, target_ids: Sequence[int]) -> Assembly:
    """Run a pair through the model and note the shapes of what its parts read and give.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: T >= 1 pieces of the target, ``<EOS>`` last if it is complete.
    """
    model, config = translator.model, translator.config
    source, read = translator.tokenizer.encode(text), [SOS_ID, *target_ids[:-1]]
    quantities = ("query_heads", "key_heads", "scores", "mask")
    names = [attention_probe(kind, 0, quantity) for kind in KINDS for quantity in quantities]
    cross = [
        attention_probe("cross", layer, quantity)
        for layer in range(config.decoder_layers)
        for quantity in ("key_heads", "value_heads")
    ]
    inputs = ["source_input.sum", "target_input.sum"]
    seen = capture(model, source, read, dict.fromkeys([*names, *cross, *inputs]))
    memory, logits = _ends(translator, source, read)
    ours, models = [], []
    for layer in range(config.decoder_layers):
        path = attention_module("cross", layer)
        for role in ("key", "value"):
            weight, bias = (stored(translator, f"{path}.{role}.{part}") for part in ("weight", "bias"))
            ours.append(memory @ weight.T + bias)
            found = cast(FloatArray, seen[attention_probe("cross", layer, f"{role}_heads")])
            models.append(found.transpose(1, 0, 2).reshape(len(source), -1))
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers, "cross": config.decoder_layers}
    shapes = []
    for kind in KINDS:
        queries, keys, scores, mask = (seen[attention_probe(kind, 0, quantity)] for quantity in quantities)
        hidden = int((~np.broadcast_to(mask, scores.shape)[0].astype(np.bool_)).sum())
        shapes.append(AttentionShapes(kind, layers[kind], queries.shape, keys.shape, scores.shape, mask.shape, hidden))
    detail = (
        f"Keys and values of all heads of {config.decoder_layers} decoder layers, computed here from the encoder's "
        "output, against the model's."
    )
    return Assembly(
        len(source),
        len(read),
        seen["source_input.sum"].shape,
        memory.shape,
        seen["target_input.sum"].shape,
        logits,
        tuple(shapes),
        equal("every decoder layer reads the encoder's output", detail, np.stack(ours), np.stack(models)),
    )


def crossing(translator: Translator, text: str, target_ids: Sequence[int], layer: int, head: int) -> Crossing:
    """Queries, keys and values of one head of cross-attention, and whether decoding step by step uses the same.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: as in ``assembly``.
        layer: of the decoder, from 0.
        head: from 0.

    Raises:
        InputError: a layer or head that is not there.
    """
    config = translator.config
    for name, value, count in (("layer", layer, config.decoder_layers), ("head", head, config.heads)):
        if not 0 <= value < count:
            raise InputError(problem(name, f"must be from 0 to {count - 1}", value, "choose one that is there"))
    source, read = translator.tokenizer.encode(text), [SOS_ID, *target_ids[:-1]]
    roles = ("query", "key", "value")
    probes = [attention_probe("cross", layer, f"{role}_heads") for role in roles]
    stream = stream_probe("cross", layer)
    seen = cast("dict[str, FloatArray]", capture(translator.model, source, read, [stream, *probes]))
    memory, _ = _ends(translator, source, read)
    path = attention_module("cross", layer)
    reading = seen[stream].astype(np.float64)
    if config.norm_first:
        scale, shift = (stored(translator, f"{path}_norm.{part}") for part in ("weight", "bias"))
        reading = normalised(reading, scale, shift, config.layer_norm_eps)
    own = slice(head * config.head_width, (head + 1) * config.head_width)
    found, checks = {}, []
    for role, probe in zip(roles, probes, strict=True):
        weight, bias = (stored(translator, f"{path}.{role}.{part}")[own] for part in ("weight", "bias"))
        found[role] = (reading if role == "query" else memory) @ weight.T + bias
        origin = "decoder's stream" if role == "query" else "encoder's output"
        detail = f"The {role} of every position, computed here from the {origin}, against the model's."
        checks.append(equal(f"{role} vectors as the model has them", detail, found[role], seen[probe][head]))
    taken = min(len(read), MOST_STEPS)
    steps = _step_by_step(translator, source, read[:taken], probes)
    checks.append(
        equal(
            "the same keys and values at every step",
            f"Keys and values that {taken} steps of cached decoding read, against those of the whole pass.",
            np.stack([steps.seen[name][at][head] for name in probes[1:] for at in range(taken)]),
            np.stack([seen[name][head] for name in probes[1:] for _ in range(taken)]),
        )
    )
    checks.append(
        equal(
            "each step has the query of its own row",
            f"The queries of {taken} steps of cached decoding, against the rows of the whole pass.",
            np.concatenate([steps.seen[probes[0]][at][head] for at in range(taken)]),
            seen[probes[0]][head][:taken],
        )
    )
    tables = len(steps.addresses[probes[1]])
    return Crossing(memory, reading, found["query"], found["key"], found["value"], taken, tables, tuple(checks))


class _Steps:
    """A sink that keeps what some probes saw at every step, and where in memory it lay."""

    def __init__(self, names: Sequence[str]) -> None:
        self.seen: dict[str, list[FloatArray]] = {name: [] for name in names}
        """By probe, one a step, without batch axis."""
        self.addresses: dict[str, set[int]] = {name: set() for name in names}
        """By probe, where its values began; a table that was computed anew would lie elsewhere."""
        self._alive: list[Tensor] = []

    def wants(self, name: str) -> bool:
        return name in self.seen

    def receive(self, name: str, value: Tensor) -> None:
        self.seen[name].append(cast(FloatArray, to_numpy(value[0])))
        self.addresses[name].add(value.data_ptr())
        self._alive.append(value)  # so that no other tensor can get its address


def _step_by_step(translator: Translator, source: Sequence[int], read: Sequence[int], names: Sequence[str]) -> _Steps:
    """Decode ``read`` piece by piece with cached keys and values."""
    model = translator.model
    device = next(model.parameters()).device
    steps = _Steps(names)
    with torch.inference_mode():
        ids = torch.tensor([list(source)], device=device)
        mask = torch.ones_like(ids, dtype=torch.bool)
        state = model.start(model.encode(ids, mask), mask)
        with watching(steps):
            for piece in read:
                _, state = model.step(torch.tensor([piece], device=device), state)
    return steps


def _ends(translator: Translator, source: Sequence[int], read: Sequence[int]) -> tuple[Floats, Shape]:
    """The encoder's output [S, D] and the shape of the logits [T, V]."""
    model = translator.model
    device = next(model.parameters()).device
    with torch.inference_mode():
        ids = torch.tensor([list(source)], device=device)
        mask = torch.ones_like(ids, dtype=torch.bool)
        memory = model.encode(ids, mask)
        logits = model.project(model.decode(torch.tensor([list(read)], device=device), memory, mask))
    return to_numpy(memory[0]).astype(np.float64), tuple(logits.shape[1:])
