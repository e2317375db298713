"""Why attention: what a fixed vector loses, how far a signal travels, and what that costs (paper, Section 4, Table 1).

Letters: n positions, d = D width of a vector, k kernel width, H heads, S source pieces, T target pieces.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transformer.errors import InputError, problem
from transformer.lessons.changing import Changed, Changing, Written, compare
from transformer.nn.probe import watching

if TYPE_CHECKING:
    from transformer.engine import Translator
    from transformer.nn.attention import MultiHeadAttention

LENGTHS = (16, 32, 64, 128, 256, 512)
"""Positions at which a layer is measured."""
KERNEL = 3


@dataclass(frozen=True)
class LayerKind:
    """One row of the paper's Table 1 at one length, in whole numbers instead of orders."""

    name: str
    order: str
    """Multiplications as a formula."""
    multiplications: int
    steps: int
    """Operations that must wait for each other within one layer."""
    path_order: str
    path: int
    """Layers, or steps of a recurrent one, that a signal passes between the first and the last position."""


@dataclass(frozen=True, eq=False)
class Measured:
    """One layer of this model timed at several lengths, beside a recurrent one; arrays are [N], one a length."""

    lengths: NDArray[np.int64]
    attention_seconds: NDArray[np.float64]
    """Self-attention of the first encoder layer, all its projections included; the quickest of a few runs."""
    recurrent_seconds: NDArray[np.float64]
    """A recurrent layer of the same width (PyTorch's ``RNN``, random weights: this model has none)."""
    map_bytes: NDArray[np.int64]
    """What the attention maps of one layer take, all heads."""
    vector_bytes: NDArray[np.int64]
    """What the vectors of the positions take, [n, D]."""


def path_lengths(length: int, kernel: int = KERNEL) -> dict[str, int]:
    """How far the first position is from the last, counted in layers (in steps for ``recurrent``).

    A convolution is taken to read a position and the k - 1 before it; dilated by 1, k, k^2 and so on, each layer
    multiplies what is seen by k.

    Args:
        length: n >= 2 positions.
        kernel: k >= 2.

    Returns:
        ``recurrent`` n - 1, ``contiguous`` ceil((n - 1) / (k - 1)), ``dilated`` ceil(log_k n), ``attention`` 1.

    Raises:
        InputError: a number that is too small.
    """
    _refuse("length", length)
    _refuse("kernel", kernel)
    dilated, seen = 0, 1
    while seen < length:
        dilated, seen = dilated + 1, seen * kernel
    return {
        "recurrent": length - 1,
        "contiguous": -((1 - length) // (kernel - 1)),
        "dilated": dilated,
        "attention": 1,
    }


def layer_kinds(length: int, width: int, kernel: int = KERNEL) -> tuple[LayerKind, ...]:
    """The rows of Table 1 for n positions of width d, without its restricted self-attention.

    Like the table, it counts what grows fastest: for self-attention one n x n product of vectors of width d. What a
    whole layer of this model multiplies is ``transformer.lessons.heads.multiplications``.

    Raises:
        InputError: as ``path_lengths``.
    """
    paths = path_lengths(length, kernel)
    return (
        LayerKind("self-attention", "n² · d", length**2 * width, 1, "1", paths["attention"]),
        LayerKind("recurrent", "n · d²", length * width**2, length, "n − 1", paths["recurrent"]),
        LayerKind(
            "convolution",
            "k · n · d²",
            kernel * length * width**2,
            1,
            "⌈(n − 1) / (k − 1)⌉",
            paths["contiguous"],
        ),
        LayerKind("convolution, dilated", "k · n · d²", kernel * length * width**2, 1, "⌈log_k n⌉", paths["dilated"]),
    )


def bottleneck(
    translator: Translator,
    text: str,
    target_ids: Sequence[int],
    position: int | None = None,
    plain: Written | None = None,
) -> Changed:
    """Let the decoder read one vector of the source instead of one a position, and see what it still can say.

    The vector is the encoder's output at ``position``, or the average of all if that is None: every cross-attention
    of every layer looks at it alone. A recurrent encoder without attention hands over one vector too (Cho et al. 2014,
    Bahdanau et al. 2015). It would have been trained for that; this model was not.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: T pieces to score, ``<EOS>`` last if complete.
        position: from 0.
        plain: ``changing.greedy`` of the model as it is, if it is known.

    Raises:
        InputError: a position that the source does not have.
    """
    count = len(translator.tokenizer.encode(text))
    if position is not None and not 0 <= position < count:
        rule = f"must be a position from 0 to {count - 1}, or None"
        raise InputError(problem("position", rule, position, "choose a piece of the source"))

    def one_vector(pattern: Tensor) -> Tensor:
        if position is None:
            return torch.full_like(pattern, 1.0 / pattern.size(-1))
        chosen = torch.zeros_like(pattern)
        chosen[..., position] = 1.0
        return chosen

    return compare(translator, text, target_ids, Changing("cross_attn.pattern", one_vector), plain)


def measure(translator: Translator, text: str, lengths: Sequence[int] = LENGTHS, repeats: int = 5) -> Measured:
    """Time the self-attention of the first encoder layer on the sentence, repeated until it is long enough.

    The explicit softmax runs, which holds the maps; the fused kernel, which the model uses when nobody looks, never
    holds them whole. Lengths that the model has no positions for are left out; if that is all, its longest is measured.

    Args:
        translator: the model.
        text: the sentence.
        lengths: n of each measurement.
        repeats: runs of each; the quickest counts.
    """
    model = translator.model
    attention: MultiHeadAttention = next(iter(model.encoder)).self_attn
    device = next(model.parameters()).device
    recurrent = _recurrent(model.config.d_model).to(device)
    ids = translator.tokenizer.encode(text)
    longest = model.config.max_length
    fitting = [length for length in lengths if length <= longest] or [longest]
    rows = []
    for length in fitting:
        repeated = (ids * (length // len(ids) + 1))[:length]
        mask = torch.ones(1, 1, 1, length, dtype=torch.bool, device=device)
        watcher = _Weighing()
        with torch.inference_mode():
            x = model.source_input(torch.tensor([repeated], device=device))
            with watching(watcher):
                attending = _quickest(partial(attention, x, x, mask), repeats)
            recurring = _quickest(partial(recurrent, x), repeats)
        rows.append((attending, recurring, watcher.bytes, x.element_size() * x.numel()))
    return Measured(
        np.array(fitting, dtype=np.int64),
        np.array([row[0] for row in rows]),
        np.array([row[1] for row in rows]),
        np.array([row[2] for row in rows], dtype=np.int64),
        np.array([row[3] for row in rows], dtype=np.int64),
    )


class _Weighing:
    """A sink that notes how many bytes an attention pattern takes."""

    def __init__(self) -> None:
        self.bytes = 0

    def wants(self, name: str) -> bool:
        return name.endswith(".pattern")

    def receive(self, name: str, value: Tensor) -> None:
        self.bytes = value.element_size() * value.numel()


def _recurrent(width: int) -> nn.Module:
    """A recurrent layer with weights from a generator of its own: the global one belongs to others."""
    layer = nn.RNN(width, width, batch_first=True, device="meta").to_empty(device="cpu")
    generator = torch.Generator().manual_seed(0)
    for parameter in layer.parameters():
        drawn = torch.randn(parameter.shape, generator=generator) / width**0.5
        parameter.data.copy_(drawn)
    return layer.eval()


def _quickest(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the quickest run, after one that does not count."""
    work()
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


def _refuse(name: str, value: int) -> None:
    if value < 2:
        raise InputError(problem(name, "must be a whole number of at least 2", value, "choose a larger one"))
