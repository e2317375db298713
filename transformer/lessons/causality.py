"""The causal mask of the decoder's self-attention: what it hides, and what happens without it (paper, Section 3.2.3).

Letters: T positions of the decoder, H heads, L decoder layers, V vocabulary. Position t reads the pieces 0 … t of the
decoder's input and writes piece t of the target; the right piece stands one place further on in the input, at t + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.capture.names import attention_probe
from transformer.capture.record import BoolArray, Check, FloatArray
from transformer.capture.sink import to_numpy
from transformer.config import EOS_ID, SOS_ID, SPECIAL_PIECES
from transformer.decoding.rules import forbid
from transformer.errors import InputError, problem
from transformer.lessons.changing import MOST as MOST_WRITTEN
from transformer.lessons.changing import Changed, Written, greedy, log_probs
from transformer.lessons.projections import equal
from transformer.lessons.scaling import softmax
from transformer.nn.layers import DecoderLayer
from transformer.nn.masks import causal_mask
from transformer.nn.probe import watching

if TYPE_CHECKING:
    from transformer.engine import Translator

Floats = NDArray[np.float64]
MOST = 24
"""Positions that ``influence`` looks at: it runs the decoder over each of them once for every other."""
LONGER = 10
"""Pieces that a free translation without the mask may have beyond the target that it is compared with."""


@dataclass(frozen=True, eq=False)
class CausalHead:
    """One head of the decoder's self-attention, with the mask and as the same scores would weigh without it."""

    scores: Floats
    """[T, T] q·k / sqrt(d_k), before the mask."""
    allowed: BoolArray
    """[T, T] True where the query may look."""
    weights: Floats
    """[T, T] softmax over the allowed keys."""
    open_weights: Floats
    """[T, T] softmax over all keys."""
    check: Check
    """Whether ``weights`` are those of the model."""

    @property
    def future(self) -> Floats:
        """[T] what each row would give to the keys that the mask hides from it, 0 to 1."""
        found: Floats = np.where(self.allowed, 0.0, self.open_weights).sum(axis=-1)
        return found


@dataclass(frozen=True, eq=False)
class Unmasked:
    """One teacher-forced pass without the causal mask, and one free translation."""

    changed: Changed
    """Log-probabilities of the target with the mask and without it. Its texts are those of decoding step by step with
    cached keys and values, where no later piece is there to be hidden: they are one and the same."""
    likeliest: tuple[int, ...]
    """T pieces: what the model would write at each position without the mask."""
    likeliest_log_probs: FloatArray
    """[T]"""
    future: Floats
    """[T] weight on later positions, mean over the heads of the layers without the mask; 0 at the last position."""
    answer: Floats
    """[T] the same on the next position alone, the one that reads the right piece."""
    free_text: str
    """What greedy search writes if all positions are computed anew at every step, each seeing all the others."""
    free_finished: bool
    """Whether it ended with ``<EOS>`` within ``LONGER`` pieces more than the target has, and ``changing.MOST``."""

    def __post_init__(self) -> None:
        for array in (self.likeliest_log_probs, self.future, self.answer):
            array.setflags(write=False)


@dataclass(frozen=True, eq=False)
class Influence:
    """How the prediction of each position moves when one piece of the decoder's input is replaced.

    Cells [T, T - 1]: row t is the position that writes piece t, column c replaces input c + 1 (the first input,
    ``<SOS>``, stays). A cell is the total variation distance of the two distributions over the vocabulary: the share of
    probability that moves, 0 to 1.
    """

    replaced_by: tuple[int, ...]
    """T - 1 pieces: at each place what the model would have written there if not this piece."""
    masked: Floats
    """[T, T - 1] with the causal mask."""
    unmasked: Floats
    """[T, T - 1] without it, in any layer."""

    def __post_init__(self) -> None:
        self.masked.setflags(write=False)
        self.unmasked.setflags(write=False)

    @property
    def earlier(self) -> BoolArray:
        """[T, T - 1] True where the prediction comes before the replaced piece, which it must not know."""
        rows, columns = self.masked.shape
        found: BoolArray = np.arange(rows)[:, None] <= np.arange(columns)[None, :]
        return found


def causal_head(scores: NDArray[Any], pattern: NDArray[Any], allowed: BoolArray) -> CausalHead:
    """What the softmax makes of one head's scores, with the mask and without it.

    Args:
        scores: [T, T] before the mask (``Translator.attention_scores``).
        pattern: [T, T] the map that the model computed.
        allowed: [T, T] the mask.
    """
    exact = np.asarray(scores, dtype=np.float64)
    weights = softmax(exact, allowed)
    detail = "The softmax of the scores below the diagonal, computed here, against the weights of the model."
    check = equal("weights as the model has them", detail, weights, pattern)
    return CausalHead(exact, allowed, weights, softmax(exact), check)


def without_mask(
    translator: Translator,
    text: str,
    target_ids: Sequence[int],
    layer: int | None = None,
    plain: Written | None = None,
) -> Unmasked:
    """Run the decoder with its causal mask switched off.

    The model was trained with the mask. One trained without it would learn to copy the next position.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: T >= 1 pieces of the target, ``<EOS>`` last if it is complete.
        layer: of the decoder, from 0: the only one without the mask; None is all of them.
        plain: ``changing.greedy`` of the model as it is, if it is known.

    Raises:
        InputError: a layer that is not there.
    """
    count = translator.config.decoder_layers
    if layer is not None and not 0 <= layer < count:
        raise InputError(problem("layer", f"must be from 0 to {count - 1}", layer, "choose one that is there"))
    layers = range(count) if layer is None else (layer,)
    opening = _Opening(layers)
    ids = translator.tokenizer.encode(text)
    with torch.inference_mode():
        source, read = _row(translator, ids), _row(translator, [SOS_ID, *target_ids[:-1]])
        seen = torch.ones_like(source, dtype=torch.bool)
        memory = translator.model.encode(source, seen)
        with watching(opening):
            logits = translator.model.project(translator.model.decode(read, memory, seen))[0]
        opened = torch.log_softmax(logits.float(), dim=-1)
        without = opened.gather(1, torch.tensor(list(target_ids), device=opened.device)[:, None])[:, 0]
        best = opened.max(dim=-1)
        limit = min(len(target_ids) + LONGER, MOST_WRITTEN, translator.config.max_length)
        free = _free(translator, _Decoder(translator, memory, layers), limit)
    patterns = np.stack([opening.patterns[attention_probe("decoder", one)] for one in layers]).astype(np.float64)
    plain = plain or greedy(translator, text)
    usual = log_probs(translator, ids, target_ids)
    # A step with kept keys and values has no mask: nothing later is there. What it writes is the same without one.
    changed = Changed(
        usual, cast(FloatArray, to_numpy(without)), plain.text, plain.text, plain.finished, plain.finished
    )
    mean = patterns.mean(axis=(0, 1))
    return Unmasked(
        changed,
        tuple(best.indices.tolist()),
        cast(FloatArray, to_numpy(best.values)),
        np.triu(mean, k=1).sum(axis=-1),
        np.append(np.diagonal(mean, offset=1), 0.0),
        translator.tokenizer.decode(free),
        free[-1] == EOS_ID,
    )


def influence(translator: Translator, text: str, target_ids: Sequence[int], most: int = MOST) -> Influence:
    """Replace each piece of the decoder's input by another and see which predictions move.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: T >= 1 pieces of the target; only the first ``most`` are looked at.
        most: of positions.
    """
    read = [SOS_ID, *target_ids[:-1]][:most]
    with torch.inference_mode():
        memory = translator.model.encode(_row(translator, translator.tokenizer.encode(text)))
        usual = _Decoder(translator, memory).hidden(_row(translator, read))[0]
        others = _runners_up(translator.model.project(usual).float(), read)
        variants = [read, *([*read[:at], other, *read[at + 1 :]] for at, other in enumerate(others, start=1))]
        ids = torch.tensor(variants, device=memory.device)
        sides = []
        for layers in ((), range(translator.config.decoder_layers)):
            hidden = _Decoder(translator, memory, layers).hidden(ids)
            rows = [_moved(translator.model.project(hidden[:, place])) for place in range(len(read))]
            sides.append(torch.stack(rows).cpu().numpy())
    return Influence(tuple(others), sides[0], sides[1])


class _Opening:
    """A sink that lets every position of some decoder layers see all others, and keeps what their heads look at."""

    def __init__(self, layers: Sequence[int]) -> None:
        self._masks = {attention_probe("decoder", layer, "mask") for layer in layers}
        self._maps = {attention_probe("decoder", layer) for layer in layers}
        self.patterns: dict[str, FloatArray] = {}
        """By probe [H, T, T], of the last pass."""

    def wants(self, name: str) -> bool:
        return name in self._masks or name in self._maps

    def receive(self, name: str, value: Tensor) -> Tensor | None:
        if name in self._masks:
            return torch.ones_like(value)
        self.patterns[name] = cast(FloatArray, to_numpy(value[0]))
        return None


class _Decoder:
    """The decoder over one memory [1, S, D] with some layers without their mask, while nobody looks: the fused kernel,
    and the memory's keys and values computed once for all inputs."""

    def __init__(self, translator: Translator, memory: Tensor, layers: Sequence[int] = ()) -> None:
        self._model = translator.model
        self._open = set(layers)
        self._crossing = [layer.cross_attn.project_keys_values(memory) for layer in self._model.decoder]

    def hidden(self, ids: Tensor) -> Tensor:
        """N decoder inputs [N, T] -> hidden states [N, T, D]."""
        x: Tensor = self._model.target_input(ids)
        causal = causal_mask(ids.size(1), ids.device)
        for index, layer in enumerate(self._model.decoder):
            x = self._layer(x, layer, index, None if index in self._open else causal)
        normalised: Tensor = self._model.decoder.norm(x)
        return normalised

    def _layer(self, x: Tensor, layer: DecoderLayer, index: int, mask: Tensor | None) -> Tensor:
        keys, values = (each.expand(x.size(0), -1, -1, -1) for each in self._crossing[index])
        found: Tensor = layer(
            x,
            lambda y: layer.self_attn(y, y, mask),
            lambda y: layer.cross_attn.attend(y, keys, values, None),
        )
        return found


def _moved(logits: Tensor) -> Tensor:
    """[N, V] of one position in N inputs -> [N - 1] how much probability moves from the first to each other."""
    found = torch.softmax(logits.double(), dim=-1)
    return (found[1:] - found[:1]).abs().sum(dim=-1) / 2


def _runners_up(usual: Tensor, read: Sequence[int]) -> list[int]:
    """For each input but the first the likeliest other piece that is not special, by the logits [T, V]."""
    found = []
    for place, piece in enumerate(read[1:]):
        row = usual[place].clone()
        row[: len(SPECIAL_PIECES)] = -torch.inf
        row[piece] = -torch.inf
        found.append(int(row.argmax()))
    return found


def _free(translator: Translator, decoder: _Decoder, limit: int) -> list[int]:
    """At most ``limit`` pieces, written greedily, all positions computed anew at every step."""
    written: list[int] = []
    while len(written) < limit and EOS_ID not in written:
        hidden = decoder.hidden(_row(translator, [SOS_ID, *written]))[0, -1]
        written.append(int(forbid(translator.model.project(hidden).float()).argmax()))
    return written


def _row(translator: Translator, ids: Sequence[int]) -> Tensor:
    return torch.tensor([list(ids)], device=next(translator.model.parameters()).device)
