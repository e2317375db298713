"""Many heads: D cut into H slices, put back together, mixed by W^O, at no extra cost (paper, Section 3.2.2).

Letters: n positions, S source pieces, D d_model, H heads, K = D / H width of a head.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from transformer.analysis.metrics import HeadFigures
from transformer.capture.capture import capture
from transformer.capture.names import attention_module, attention_probe, stream_probe
from transformer.capture.norms import outward_slices
from transformer.capture.record import Check, FloatArray
from transformer.config import SOS_ID
from transformer.errors import InputError, problem
from transformer.lessons.projections import equal, normalised, stored
from transformer.nn.attention import MultiHeadAttention
from transformer.nn.probe import watching

if TYPE_CHECKING:
    from transformer.engine import Translator

Floats = NDArray[np.float64]
NARROWEST = 8
"""The least d_k of the heads that are counted, unless the model's own are narrower."""
COMPARED = {
    "encoder": ("previous", "same", "next"),
    "decoder": ("previous", "same"),
    "cross": ("sink", "evenness", "diagonality"),
}
"""The figures, each 0 to 1, by which two heads of a kind are told apart: of self-attention where it looks from the
piece that asks, of cross-attention, which has no such place, how its map is shaped. Many heads rest on a special piece;
of self-attention that is left out, or such a head would be in every pair."""


@dataclass(frozen=True, eq=False)
class Slices:
    """One position of one encoder layer: what each head says, and what becomes of it."""

    outputs: Floats
    """[H, K] the weighted sum of values of each head."""
    shares: Floats
    """[H, D] each through its own rows of W^O: what it adds to the output."""
    bias: Floats
    """[D] of W^O."""
    output: Floats
    """[D] Concat(head_1 … head_H) W^O + bias."""
    checks: tuple[Check, ...]
    """Whether the output is what the model went on with."""

    def __post_init__(self) -> None:
        for array in (self.outputs, self.shares, self.bias, self.output):
            array.setflags(write=False)

    @property
    def concatenated(self) -> Floats:
        """[D] the heads one behind the other."""
        return self.outputs.ravel()

    @property
    def lengths(self) -> Floats:
        """[H] Euclidean length of each head's share of the output."""
        found: Floats = np.linalg.norm(self.shares, axis=-1)
        return found


@dataclass(frozen=True)
class Multiplications:
    """Multiplications of matrix products in one self-attention over n positions, counted while it ran."""

    heads: int
    width: int
    """K = D / H."""
    counted: int
    expected: int
    """4 n D² for the projections and 2 n² D for scores and weighted sums."""
    exponentials: int
    """H n², what the softmax takes; this does grow with the heads."""


@dataclass(frozen=True)
class Pair:
    """Two heads of one kind that do different things."""

    first: HeadFigures
    second: HeadFigures
    by: str
    """The figure that tells them apart most; the first has more of it."""
    difference: float
    """0 to 1, root of the mean squared difference of the figures in ``COMPARED`` that both have."""


def slices(translator: Translator, text: str, layer: int, position: int) -> Slices:
    """Follow one position through the self-attention of one encoder layer, head by head.

    Args:
        translator: the model.
        text: the sentence.
        layer: from 0.
        position: of the source, from 0.

    Raises:
        InputError: a layer or position that is not there.
    """
    config = translator.config
    ids = translator.tokenizer.encode(text)
    for name, value, count in (("layer", layer, config.encoder_layers), ("position", position, len(ids))):
        if not 0 <= value < count:
            raise InputError(problem(name, f"must be from 0 to {count - 1}", value, "choose one that is there"))
    path = attention_module("encoder", layer)
    heads, before, after = (
        attention_probe("encoder", layer, "head_output"),
        stream_probe("encoder", layer),
        f"encoder.{layer}.stream_after_self_attn",
    )
    seen = capture(translator.model, ids, [SOS_ID], [heads, before, after])
    outputs = cast(FloatArray, seen[heads])[:, position].astype(np.float64)
    weight, bias = (stored(translator, f"{path}.output.{part}") for part in ("weight", "bias"))
    output = outputs.ravel() @ weight.T + bias
    shares = np.einsum("hk,hkd->hd", outputs, outward_slices(weight.astype(np.float32), config.heads))
    leaving = seen[before][position] + output
    if not config.norm_first:
        scale, shift = (stored(translator, f"{path}_norm.{part}") for part in ("weight", "bias"))
        leaving = normalised(leaving, scale, shift, config.layer_norm_eps)
    checks = (
        equal(
            "shares and bias add up to the output",
            "What each head adds, and the bias of W^O, against the concatenation times the whole of W^O.",
            shares.sum(axis=0) + bias,
            output,
        ),
        equal(
            "output as the model has it",
            "The stream behind this attention, computed here from the stream before it and the output, against the "
            "model's.",
            leaving,
            cast(FloatArray, seen[after])[position],
        ),
    )
    return Slices(outputs, shares, bias, output, checks)


def multiplications(translator: Translator, length: int) -> tuple[Multiplications, ...]:
    """Count the multiplications of the first encoder layer's attention, cut into 1, 2, 4 … heads.

    The matrices are this model's: cutting them otherwise changes no shape of theirs. Heads narrower than ``NARROWEST``
    are left out. Every product that PyTorch is asked for while the layer runs over ``length`` positions is counted,
    with the explicit softmax.

    Args:
        translator: the model.
        length: n >= 1 positions.
    """
    width, own = translator.config.d_model, translator.config.heads
    powers = (2**power for power in range(width.bit_length()))
    options = sorted({own, *(heads for heads in powers if width % heads == 0 and width // heads >= NARROWEST)})
    real = next(iter(translator.model.encoder)).self_attn
    stream = torch.zeros(1, length, width, device=real.output.weight.device)
    found = []
    for heads in options:
        with torch.device("meta"):  # no weights of its own, and no random numbers drawn for them
            layer = MultiHeadAttention(width, heads, 0.0)
        layer.load_state_dict(real.state_dict(), assign=True)
        counter = _Counter()
        with torch.no_grad(), watching(_Silent()), counter:
            layer.eval()(stream, stream, None)
        expected = 4 * length * width**2 + 2 * length**2 * width
        found.append(Multiplications(heads, width // heads, counter.count, expected, heads * length**2))
    return tuple(found)


def different_heads(figures: Sequence[HeadFigures], kind: str) -> Pair | None:
    """The two heads of a kind whose figures differ most on this sentence (``COMPARED``).

    None if there are fewer than two heads, or if the sentence is so short that they have no figure in common.

    Args:
        figures: of all heads (``transformer.analysis.metrics.head_figures``).
        kind: ``encoder``, ``decoder`` or ``cross``.
    """
    best: Pair | None = None
    for one, other in itertools.combinations([figure for figure in figures if figure.kind == kind], 2):
        apart = _differences(one, other)
        if not apart:
            continue
        whole = float(np.sqrt(np.mean([value**2 for value in apart.values()])))
        if best is None or whole > best.difference:
            by = max(apart, key=lambda name: abs(apart[name]))
            first, second = (one, other) if apart[by] >= 0.0 else (other, one)
            best = Pair(first, second, by, whole)
    return best


def _differences(one: HeadFigures, other: HeadFigures) -> dict[str, float]:
    """By name, how much more the first has of each figure that both have."""
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in COMPARED[one.kind]}
    return {name: float(a - b) for name, (a, b) in pairs.items() if a is not None and b is not None}


class _Silent:
    """A sink that looks at nothing: with it the explicit softmax runs."""

    def wants(self, name: str) -> bool:
        return False

    def receive(self, name: str, value: torch.Tensor) -> None:
        return None


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the multiplications of every matrix product made in this thread."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ("mm", "bmm"):
            first, second = args[0], args[1]
        elif name in ("addmm", "baddbmm"):
            first, second = args[1], args[2]
        else:
            return func(*args, **(kwargs or {}))
        self.count += first.numel() * second.size(-1)
        return func(*args, **(kwargs or {}))
