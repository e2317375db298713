"""Layer normalisation (Ba et al. 2016; the paper, Section 3.1): by hand, learned, and beside batch normalisation.

Letters: B batch, T positions, D d_model, P numbers of padding columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from transformer.capture.residual import attention_output
from transformer.capture.sink import Recorder, to_numpy
from transformer.config import PAD_ID
from transformer.errors import InputError, problem
from transformer.nn.probe import watching

if TYPE_CHECKING:
    from transformer.capture.record import FloatArray
    from transformer.engine import Translator

Floats = NDArray[np.float64]

PADDINGS = (0, 1, 2, 4, 8, 16, 32)
"""Columns of padding behind the longest sentence that ``padded_batch`` tries."""
MOST_NUMBERS, LARGEST = 12, 1e6
"""How many numbers a hand example may have, and how large they may be."""
PART_NAMES = {"self_attn": "self-attention", "cross_attn": "cross-attention", "feed_forward": "feed-forward"}
"""What people call each sublayer of a layer, by its name in the model."""


def mean_and_variance(x: NDArray[np.floating]) -> tuple[Floats, Floats]:
    """Mean and variance of each vector of [..., D]: two of [...]. The variance divides by D, as the normalisation's."""
    exact = np.asarray(x, dtype=np.float64)
    return exact.mean(axis=-1), exact.var(axis=-1)


def standardised(x: NDArray[np.floating], eps: float) -> Floats:
    """(x - mean) / sqrt(variance + eps) of each vector of [..., D]: mean 0, variance 1 (a little less, by eps)."""
    mean, variance = mean_and_variance(x)
    found: Floats = (np.asarray(x, dtype=np.float64) - mean[..., None]) / np.sqrt(variance + eps)[..., None]
    return found


def layer_norm(x: NDArray[np.floating], gain: NDArray[np.floating], bias: NDArray[np.floating], eps: float) -> Floats:
    """gamma (x - mean) / sqrt(variance + eps) + beta of each vector of [..., D]."""
    found: Floats = standardised(x, eps) * gain + bias
    return found


@dataclass(frozen=True)
class HandExample:
    """Layer normalisation of a handful of numbers, step by step; gamma is 1 and beta 0."""

    values: tuple[float, ...]
    mean: float
    deviations: tuple[float, ...]
    """Each value less the mean."""
    variance: float
    """The mean of the squared deviations."""
    root: float
    """sqrt(variance + eps), what the deviations are divided by."""
    normalised: tuple[float, ...]


def by_hand(values: Sequence[float], eps: float) -> HandExample:
    """Normalise a few numbers: [1, -1, 3] has mean 1 and variance 8/3, and becomes [0, -1.2247, 1.2247].

    Raises:
        InputError: fewer than two numbers, more than ``MOST_NUMBERS``, or one that is no number or too large.
    """
    if not 2 <= len(values) <= MOST_NUMBERS:
        rule = f"must be 2 to {MOST_NUMBERS} of them"
        raise InputError(problem("numbers", rule, len(values), "write them like 1, -1, 3"))
    for value in values:
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise InputError(problem("number", f"must be from -{LARGEST:g} to {LARGEST:g}", value, "write another"))
    mean = math.fsum(values) / len(values)
    deviations = tuple(value - mean for value in values)
    variance = math.fsum(deviation**2 for deviation in deviations) / len(values)
    root = math.sqrt(variance + eps)
    normalised = tuple(deviation / root for deviation in deviations)
    return HandExample(tuple(values), mean, deviations, variance, root, normalised)


def numbers_of(text: str) -> tuple[float, ...]:
    """The numbers of a typed line, parted by commas, semicolons or spaces.

    Raises:
        InputError: something in it is no number.
    """
    found = []
    for word in re.split(r"[\s,;]+", text.strip("[]() \t\n")):
        if word:
            try:
                found.append(float(word.replace("−", "-")))
            except ValueError:
                raise InputError(
                    problem("number", "must be written in digits", word, "write them like 1, -1, 3.5")
                ) from None
    return tuple(found)


@dataclass(frozen=True, eq=False)
class NormParameters:
    """What one normalisation of the model has learned."""

    stack: str
    """``encoder`` or ``decoder``."""
    layer: int | None
    """From 0; None for the one behind a whole stack, which only a model that normalises first has."""
    part: str
    """The sublayer it belongs to: ``self_attn``, ``cross_attn`` or ``feed_forward``; empty behind a stack."""
    gain: FloatArray
    """[D] gamma"""
    bias: FloatArray
    """[D] beta"""

    @property
    def name(self) -> str:
        """For people; layers count from 1."""
        if self.layer is None:
            return f"behind the {self.stack}"
        return f"{self.stack} layer {self.layer + 1} · {PART_NAMES[self.part]}"


def parameters(translator: Translator) -> tuple[NormParameters, ...]:
    """The gammas and betas of every normalisation of a model, in the order of its modules."""
    found = []
    for name, module in translator.model.named_modules():
        if isinstance(module, nn.LayerNorm):
            stack, *middle = name.split(".")
            layer = int(middle[0]) if len(middle) > 1 else None
            part = middle[-1].removesuffix("_norm") if layer is not None else ""
            gain, bias = cast("FloatArray", to_numpy(module.weight)), cast("FloatArray", to_numpy(module.bias))
            found.append(NormParameters(stack, layer, part, gain, bias))
    return tuple(found)


def extremes(values: NDArray[np.floating], count: int) -> list[tuple[int, float]]:
    """The ``count`` largest of [D] values, then the ``count`` smallest from the smallest up, with their dimensions.

    Dimensions count from 0. With fewer than twice ``count`` values none comes twice.
    """
    order = np.argsort(-np.asarray(values), kind="stable")
    top = order[:count]
    low = order[count:][::-1][:count]
    return [(int(at), float(values[at])) for at in (*top, *low)]


@dataclass(frozen=True, eq=False)
class PaddedBatch:
    """The same batch with more and more padding behind it, normalised in both ways. No gamma and beta in either.

    The vectors are those that the encoder's first normalisation reads.
    """

    texts: tuple[str, ...]
    lengths: tuple[int, ...]
    """Pieces of each, ``<SOS>`` and ``<EOS>`` included."""
    position: int
    """Which position of the first text is followed, from 0."""
    columns: tuple[int, ...]
    """P numbers of padding columns behind the longest text, from 0 up."""
    batch_means: Floats
    """[P, D] mean of each dimension over all B * T' vectors of the batch, padding among them."""
    batch_variances: Floats
    """[P, D]"""
    batch_normed: Floats
    """[P, D] the followed vector by batch normalisation: less that mean, over the root of that variance."""
    layer_means: Floats
    """[P] mean over the followed vector's own D numbers."""
    layer_variances: Floats
    """[P]"""
    layer_normed: Floats
    """[P, D] the followed vector by layer normalisation."""

    @property
    def padding_shares(self) -> Floats:
        """[P] the share of the batch that is padding."""
        cells = len(self.texts) * (max(self.lengths) + np.array(self.columns, dtype=np.float64))
        shares: Floats = 1.0 - sum(self.lengths) / cells
        return shares

    @property
    def batch_moved(self) -> Floats:
        """[P] how far batch normalisation's result is from that at the first padding, as a share of its length."""
        return _moved(self.batch_normed)

    @property
    def layer_moved(self) -> Floats:
        """[P] the same of layer normalisation."""
        return _moved(self.layer_normed)


def padded_batch(translator: Translator, texts: Sequence[str], position: int) -> PaddedBatch:
    """Run a batch of source texts through the encoder with 0, 1, 2, 4 … more columns of padding behind it.

    Batch normalisation takes its statistics over the whole batch, as ``torch.nn.BatchNorm1d`` does while training.

    Args:
        translator: the model.
        texts: B >= 1 sources; those that are too long for the model must not be among them.
        position: which position of the first text to follow, from 0.

    Raises:
        InputError: no text, or a position that the first does not have.
    """
    rows = [translator.tokenizer.encode(text) for text in texts]
    if not rows:
        raise InputError(problem("texts", "must hold at least one", 0, "give one"))
    if not 0 <= position < len(rows[0]):
        raise InputError(problem("position", f"must be from 0 to {len(rows[0]) - 1}", position, "choose one of them"))
    longest = max(len(row) for row in rows)
    columns = tuple(count for count in PADDINGS if count == 0 or longest + count <= translator.config.max_length)
    eps = translator.config.layer_norm_eps
    means, variances, followed = [], [], []
    for count in columns:
        vectors = _first_read(translator, rows, longest + count).astype(np.float64)
        means.append(vectors.mean(axis=(0, 1)))
        variances.append(vectors.var(axis=(0, 1)))
        followed.append(vectors[0, position])
    own = np.stack(followed)
    batch_means, batch_variances = np.stack(means), np.stack(variances)
    layer_means, layer_variances = mean_and_variance(own)
    return PaddedBatch(
        tuple(texts),
        tuple(len(row) for row in rows),
        position,
        columns,
        batch_means,
        batch_variances,
        (own - batch_means) / np.sqrt(batch_variances + eps),
        layer_means,
        layer_variances,
        standardised(own, eps),
    )


def _first_read(translator: Translator, rows: Sequence[Sequence[int]], length: int) -> FloatArray:
    """What the encoder's first normalisation reads at every position of a padded batch: [B, length, D]."""
    model = translator.model
    device = next(model.parameters()).device
    batch = torch.full((len(rows), length), PAD_ID, dtype=torch.int64, device=device)
    for at, row in enumerate(rows):
        batch[at, : len(row)] = torch.tensor(list(row), device=device)
    recorder = Recorder(["encoder.0.stream_in", "encoder.0.self_attn.head_output"])
    with torch.inference_mode(), watching(recorder):
        model.encode(batch)
    stream = cast("FloatArray", recorder.values["encoder.0.stream_in"])
    if translator.config.norm_first:
        return stream
    output = model.get_submodule("encoder.0.self_attn.output")
    weight, bias = (cast("FloatArray", to_numpy(getattr(output, name))) for name in ("weight", "bias"))
    heads = cast("FloatArray", recorder.values["encoder.0.self_attn.head_output"])
    return stream + np.stack([attention_output(one, weight, bias) for one in heads])


def _moved(normed: Floats) -> Floats:
    length = float(np.linalg.norm(normed[0]))
    moved: Floats = np.linalg.norm(normed - normed[0], axis=-1) / (length or 1.0)
    return moved
