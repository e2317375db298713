"""From the stream to a piece: the last linear map and the softmax (paper, Section 3.4), and the logit lens.

Letters: L layers of the decoder, T positions of its input, D d_model, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.capture.record import Check
from transformer.capture.sink import to_numpy
from transformer.config import SOS_ID
from transformer.errors import InputError, problem
from transformer.lessons.residual import LIMIT, observe

if TYPE_CHECKING:
    from transformer.capture.record import FloatArray
    from transformer.engine import Translator

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Choice:
    """What the softmax is taken of at one position, as the model weighs every piece of its vocabulary."""

    position: int
    """From 0."""
    logits: FloatArray
    """[V]"""
    written: int
    """The piece that is written there."""


@dataclass(frozen=True, eq=False)
class Lens:
    """What every layer of the decoder would have said if it had been the last (nostalgebraist 2020)."""

    written: tuple[int, ...]
    """T pieces, what is written at each position."""
    top_ids: NDArray[np.int64]
    """[L + 1, T, count] the most probable pieces, best first. Row 0 is the stream that enters the decoder."""
    top_probabilities: Floats
    """[L + 1, T, count]"""
    written_probabilities: Floats
    """[L + 1, T] of the piece that is written."""
    written_ranks: NDArray[np.int64]
    """[L + 1, T] its place among all pieces, from 0: how many are more probable."""
    labels: Mapping[int, str]
    """What people call the pieces that are named."""
    check: Check
    """Whether the last layer says what the model says."""


def output_layer(translator: Translator) -> tuple[int, int, bool]:
    """D, V, and whether the matrix between them is also that of the target's embeddings."""
    config = translator.config
    return config.d_model, config.vocab_size, config.tie_embeddings != "none"


def choice(translator: Translator, text: str, target_ids: Sequence[int], position: int) -> Choice:
    """The logits of one position.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: what the decoder writes, as a hypothesis holds it.
        position: from 0; it reads ``<SOS>`` and the pieces before, and writes ``target_ids[position]``.

    Raises:
        InputError: an empty or too long sentence or target, or a position that is not there.
    """
    if not 0 <= position < len(target_ids):
        rule = f"must be from 0 to {len(target_ids) - 1}"
        raise InputError(problem("position", rule, position, "choose one of them"))
    name = f"decoder.{translator.config.decoder_layers - 1}.stream_after_feed_forward"
    stream = observe(translator, text, target_ids, [name])[name]
    logits = cast("FloatArray", to_numpy(_projected(translator, stream[position])))
    return Choice(position, logits, int(target_ids[position]))


def label(translator: Translator, number: int) -> str:
    """What people call a piece of the vocabulary."""
    return translator.tokenizer.target_pieces([number])[0].label


def softmax(logits: NDArray[np.floating], temperature: float = 1.0) -> Floats:
    """exp(z / t) / sum of exp(z / t), over the last axis.

    Raises:
        InputError: a temperature that is not above zero.
    """
    if not (math.isfinite(temperature) and temperature > 0.0):
        raise InputError(problem("temperature", "must be above 0", temperature, "1 leaves the softmax as it is"))
    exact = np.asarray(logits, dtype=np.float64)
    raised = np.exp((exact - exact.max(axis=-1, keepdims=True)) / temperature)
    found: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return found


def entropy(probabilities: NDArray[np.floating]) -> float:
    """Of [V], in nats: ln V if all pieces are alike, 0 if one has everything."""
    some = probabilities[probabilities > 0.0]
    return abs(float((some * np.log(some)).sum()))


def best(values: NDArray[np.floating], count: int) -> list[int]:
    """Where the ``count`` largest of [V] are, the largest first; of equals the first."""
    return [int(at) for at in np.argsort(-np.asarray(values), kind="stable")[:count]]


def lens(translator: Translator, text: str, target_ids: Sequence[int], count: int = 5) -> Lens:
    """Put the stream behind every layer of the decoder through the output layer.

    A model that normalises first has its last normalisation applied before, as the model itself does.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: what the decoder writes.
        count: pieces to name at each place.

    Raises:
        InputError: an empty or too long sentence or target, or nothing that is written.
    """
    if not len(target_ids):
        raise InputError(problem("target_ids", "must hold a piece", list(target_ids), "give what is written"))
    layers = range(translator.config.decoder_layers)
    names = ["decoder.0.stream_in", *(f"decoder.{layer}.stream_after_feed_forward" for layer in layers)]
    seen = observe(translator, text, target_ids, names)
    written = torch.tensor([int(number) for number in target_ids])
    rows: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    logits = torch.empty(0)
    for name in names:
        logits = _projected(translator, seen[name]).cpu()
        probabilities = torch.softmax(logits.double(), dim=-1)
        own = probabilities.gather(1, written[:, None])
        top = probabilities.topk(min(count, probabilities.size(1)), dim=-1)
        rows.append((top.indices, top.values, own[:, 0], (probabilities > own).sum(dim=-1)))
    ids, values, owns, ranks = (torch.stack(column).numpy() for column in zip(*rows, strict=True))
    named = {int(number) for number in ids.ravel()} | {int(number) for number in target_ids}
    labels = {number: label(translator, number) for number in sorted(named)}
    check = _check(logits, _own_logits(translator, text, target_ids))
    return Lens(tuple(int(number) for number in target_ids), ids, values, owns, ranks, labels, check)


def _projected(translator: Translator, stream: NDArray[np.generic]) -> Tensor:
    """[..., D] -> logits [..., V] float32"""
    model = translator.model
    with torch.inference_mode():
        given = torch.from_numpy(np.array(stream)).to(model.projection.weight.device)
        logits: Tensor = model.project(model.decoder.norm(given)).float()
    return logits


def _own_logits(translator: Translator, text: str, target_ids: Sequence[int]) -> Tensor:
    """The model's own logits [T, V], with nobody looking."""
    device = translator.model.projection.weight.device
    source = torch.tensor([translator.tokenizer.encode(text)], device=device)
    target = torch.tensor([[SOS_ID, *target_ids[:-1]]], device=device)
    with torch.inference_mode():
        logits: Tensor = translator.model(source, target)[0].float().cpu()
    return logits


def _check(ours: Tensor, model: Tensor) -> Check:
    difference = float((ours - model).abs().max())
    value = difference / max(1.0, float(model.abs().max()))
    detail = f"{ours.numel():,} logits of the last layer differ from the model's own by at most {difference:.1e}."
    return Check("the last layer says what the model says", bool(value <= LIMIT), value, LIMIT, detail)
