"""Sentences of different lengths in one batch: padding, what it wastes, and what happens if nothing masks it.

Letters: B sentences, n the pieces of one of them, S source length, P columns of padding, T target length, L layers, H
heads, D d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.capture.names import attention_probe
from transformer.capture.record import Check, FloatArray
from transformer.capture.sink import Recorder, to_numpy
from transformer.config import EOS_ID, PAD_ID, SOS_ID
from transformer.decoding.rules import forbid
from transformer.errors import InputError, problem
from transformer.lessons.changing import MOST, Written, greedy
from transformer.lessons.projections import equal
from transformer.nn.probe import watching

if TYPE_CHECKING:
    from transformer.engine import Translator

Floats = NDArray[np.float64]
PLACES = ("encoder and cross-attention", "encoder", "cross-attention")
"""Where a padding mask can be switched off."""
LONGER = 30
"""Pieces that a translation may have beyond the source while padding is looked at: without its mask it may not end.
It has at most ``changing.MOST``, too."""


@dataclass(frozen=True)
class Batching:
    """How some sentences are put into rectangular batches."""

    lengths: tuple[int, ...]
    """Pieces of each sentence, ``<SOS>`` and ``<EOS>`` included."""
    batches: tuple[tuple[int, ...], ...]
    """Which sentences each batch holds, from 0."""
    widths: tuple[int, ...]
    """Columns of each batch."""

    @property
    def positions(self) -> int:
        """Positions that are computed: rows times columns, all batches together."""
        return sum(len(rows) * width for rows, width in zip(self.batches, self.widths, strict=True))

    @property
    def scores(self) -> int:
        """Cells of the score tables of one head of one encoder layer: rows times columns squared."""
        return sum(len(rows) * width**2 for rows, width in zip(self.batches, self.widths, strict=True))

    @property
    def wasted_positions(self) -> float:
        """Share of the positions that hold padding, 0 to 1."""
        return 1.0 - sum(self.lengths) / self.positions

    @property
    def wasted_scores(self) -> float:
        """Share of the score cells whose query or key is padding, 0 to 1."""
        return 1.0 - sum(length**2 for length in self.lengths) / self.scores

    def ids(self, rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], ...]:
        """Each batch as the model gets it, [B, width]: the sentences' pieces and ``<PAD>`` behind them."""
        found = []
        for chosen, width in zip(self.batches, self.widths, strict=True):
            table = np.full((len(chosen), width), PAD_ID, dtype=np.int64)
            for line, index in zip(table, chosen, strict=True):
                line[: self.lengths[index]] = rows[index]
            found.append(table)
        return tuple(found)


def padded_to(lengths: Sequence[int], width: int) -> Batching:
    """All sentences in one batch of a fixed width.

    Raises:
        InputError: no sentence, or one that is longer.
    """
    _refuse(lengths)
    if max(lengths) > width:
        raise InputError(problem("width", "must have room for the longest sentence", width, f"take {max(lengths)}"))
    return Batching(tuple(lengths), (tuple(range(len(lengths))),), (width,))


def padded_to_longest(lengths: Sequence[int], size: int = 0, by_length: bool = False) -> Batching:
    """Batches as wide as their longest sentence.

    Args:
        lengths: pieces of each sentence.
        size: most sentences of a batch; 0 puts all into one.
        by_length: sort the sentences by length before they are cut into batches; equal lengths keep their order.

    Raises:
        InputError: no sentence, or a negative size.
    """
    _refuse(lengths)
    if size < 0:
        raise InputError(problem("size", "must be at least 0", size, "0 puts all into one batch"))
    order = sorted(range(len(lengths)), key=lambda index: lengths[index]) if by_length else list(range(len(lengths)))
    step = size or len(order)
    batches = tuple(tuple(order[start : start + step]) for start in range(0, len(order), step))
    widths = tuple(max(lengths[index] for index in batch) for batch in batches)
    return Batching(tuple(lengths), batches, widths)


@dataclass(frozen=True, eq=False)
class PaddingOff:
    """One sentence with P columns of ``<PAD>`` behind it, as it should be and with padding masks switched off."""

    encoder_maps: FloatArray
    """[L, H, S, S + P] rows of the real positions, masks off."""
    cross_maps: FloatArray
    """[L, H, T, S + P]"""
    masked_encoder_maps: FloatArray
    """The same with the masks on."""
    masked_cross_maps: FloatArray
    moved: Floats
    """[S] how far the encoder's output at each real position is from that of the sentence alone, as a share of its
    length."""
    log_probs: FloatArray
    """[T] of the target, from the sentence alone."""
    changed_log_probs: FloatArray
    """[T] with padding and masks off."""
    text: str
    """What greedy search writes from the sentence alone."""
    changed_text: str
    """What it writes with padding and masks off; both are cut off at ``changing.MOST`` pieces, and this one ``LONGER``
    beyond the source."""
    finished: bool
    """Whether ``text`` ended with ``<EOS>`` before it was cut off."""
    changed_finished: bool
    """Whether ``changed_text`` did."""
    checks: tuple[Check, ...]
    """With the masks on: nothing on padding, and encoder output and log-probabilities those of the sentence alone."""

    @property
    def columns(self) -> int:
        """P."""
        return int(self.encoder_maps.shape[3] - self.encoder_maps.shape[2])

    @property
    def encoder_shares(self) -> Floats:
        """[L, H] weight on padding, mean over the real rows, masks off."""
        return self._shares(self.encoder_maps)

    @property
    def cross_shares(self) -> Floats:
        """[L, H] the same of cross-attention."""
        return self._shares(self.cross_maps)

    def _shares(self, maps: FloatArray) -> Floats:
        real = maps.shape[3] - self.columns
        found: Floats = maps[..., real:].astype(np.float64).sum(axis=-1).mean(axis=-1)
        return found


def without_padding_mask(
    translator: Translator,
    text: str,
    target_ids: Sequence[int],
    columns: int,
    place: str = PLACES[0],
    plain: Written | None = None,
) -> PaddingOff:
    """Put padding behind a sentence and let the model look at it.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: T >= 1 pieces of the target, ``<EOS>`` last if it is complete.
        columns: P >= 1 of padding; sentence and padding must fit the model.
        place: where the mask is switched off, one of ``PLACES``.
        plain: ``changing.greedy`` of the sentence alone, if it is known.

    Raises:
        InputError: no columns, more than the model has positions for, or another place.
    """
    if place not in PLACES:
        raise InputError(problem("place", f"must be one of {', '.join(PLACES)}", place, "choose one of them"))
    ids = translator.tokenizer.encode(text)
    room = translator.config.max_length - len(ids)
    if not 1 <= columns <= room:
        raise InputError(
            problem("columns", f"must be from 1 to {room}", columns, "choose fewer, or a shorter sentence")
        )
    padded = [*ids, *[PAD_ID] * columns]
    on = [True] * len(ids) + [False] * columns
    off = [True] * len(padded)
    in_encoder, in_cross = place != PLACES[2], place != PLACES[1]
    real = len(ids)
    limit = min(real + LONGER, MOST, translator.config.max_length)
    plain = plain or greedy(translator, text)
    alone = _run(translator, ids, target_ids, on[:real], on[:real], 0)
    masked = _run(translator, padded, target_ids, on, on, 0)
    opened = _run(translator, padded, target_ids, off if in_encoder else on, off if in_cross else on, limit)
    apart = np.linalg.norm(opened.memory[:real].astype(np.float64) - alone.memory, axis=-1)
    on_padding = max(float(maps[..., real:].max(initial=0.0)) for maps in (masked.encoder[:, :, :real], masked.cross))
    checks = (
        Check(
            "nothing on padding while the masks are on",
            on_padding == 0.0,
            on_padding,
            0.0,
            f"The largest weight of any real position on {columns} columns of padding, all layers and heads.",
        ),
        equal(
            "the encoder's output is that of the sentence alone",
            f"{real} vectors computed with masked padding, against those of the sentence without padding.",
            alone.memory,
            masked.memory[:real],
        ),
        equal(
            "the translation is as probable as that of the sentence alone",
            f"Log-probabilities of its {len(target_ids)} pieces with masked padding, against those without padding.",
            alone.log_probs,
            masked.log_probs,
        ),
    )
    return PaddingOff(
        opened.encoder[:, :, :real],
        opened.cross,
        masked.encoder[:, :, :real],
        masked.cross,
        apart / np.linalg.norm(alone.memory.astype(np.float64), axis=-1),
        alone.log_probs,
        opened.log_probs,
        plain.text,
        opened.text,
        plain.finished,
        opened.finished,
        checks,
    )


@dataclass(frozen=True, eq=False)
class _Run:
    encoder: FloatArray
    cross: FloatArray
    memory: FloatArray
    log_probs: FloatArray
    text: str
    finished: bool


def _run(
    translator: Translator,
    source: Sequence[int],
    target: Sequence[int],
    encoder_mask: Sequence[bool],
    cross_mask: Sequence[bool],
    limit: int,
) -> _Run:
    """One teacher-forced pass, and a greedy translation of at most ``limit`` pieces, under masks over the source's
    positions."""
    model, config = translator.model, translator.config
    device = next(model.parameters()).device
    encoder = [attention_probe("encoder", layer) for layer in range(config.encoder_layers)]
    cross = [attention_probe("cross", layer) for layer in range(config.decoder_layers)]
    ids = torch.tensor([list(source)], device=device)
    read = torch.tensor([[SOS_ID, *target[:-1]]], device=device)
    wanted = torch.tensor(list(target), device=device)[:, None]
    over_source, over_memory = (torch.tensor([list(mask)], device=device) for mask in (encoder_mask, cross_mask))
    recorder = Recorder([*encoder, *cross])
    with torch.inference_mode(), watching(recorder):
        memory = model.encode(ids, over_source)
        logits = model.project(model.decode(read, memory, over_memory))[0].float()
        log_probs = torch.log_softmax(logits, dim=-1).gather(1, wanted)[:, 0]
    written = _greedy(translator, memory, over_memory, limit)
    return _Run(
        _stacked(recorder, encoder),
        _stacked(recorder, cross),
        cast(FloatArray, to_numpy(memory[0])),
        cast(FloatArray, to_numpy(log_probs)),
        translator.tokenizer.decode(written),
        written[-1:] == [EOS_ID],
    )


def _greedy(translator: Translator, memory: Tensor, mask: Tensor, limit: int) -> list[int]:
    """At most ``limit`` pieces, the likeliest at each step."""
    model = translator.model
    written = [SOS_ID]
    with torch.inference_mode():
        state = model.start(memory, mask)
        while len(written) <= limit and written[-1] != EOS_ID:
            hidden, state = model.step(torch.tensor(written[-1:], device=memory.device), state)
            written.append(int(forbid(model.project(hidden)[0].float()).argmax()))
    return written[1:]


def _stacked(recorder: Recorder, names: Sequence[str]) -> FloatArray:
    return np.stack([cast(FloatArray, recorder.values[name][0]) for name in names])


def _refuse(lengths: Sequence[int]) -> None:
    if not lengths or min(lengths) < 1:
        raise InputError(problem("sentences", "must be at least one, each with a piece", list(lengths), "type one"))
