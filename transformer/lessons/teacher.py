"""Teacher forcing on one pair: what the decoder reads, what it shall write, what each guess costs, how long it takes.

Letters: T positions of the decoder, V vocabulary, D width. Losses are in nats. Dropout is off, as always in a loaded
model, so a loss here is a little lower than the training saw for the same weights.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.config import SOS_ID
from transformer.errors import InputError, problem
from transformer.training.loss import smoothed_cross_entropy

if TYPE_CHECKING:
    from transformer.engine import Translator
    from transformer.text.tokenizer import Piece

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class TeacherRow:
    """One position: it reads the right piece before it, whatever the model would have written there."""

    position: int
    """t, from 0."""
    read: Piece
    """The newest piece that the decoder has read: the label of the row before, ``<SOS>`` in the first."""
    label: Piece
    """What it shall write."""
    probability: float
    """Of the label."""
    loss: float
    """Cross-entropy, -ln of that probability."""
    uniform: float
    """Mean of -ln p over all V pieces: what label smoothing weighs by its e."""
    best: Piece
    """What the model itself finds most probable."""
    best_probability: float
    rank: int
    """How many pieces the model finds more probable than the label."""

    def smoothed(self, smoothing: float) -> float:
        """The label-smoothed loss, (1 - e) loss + e uniform (Szegedy et al. 2016, Section 7; paper, Section 5.4)."""
        return (1.0 - smoothing) * self.loss + smoothing * self.uniform


@dataclass(frozen=True)
class TeacherTable:
    """Every position of one pair."""

    rows: tuple[TeacherRow, ...]
    vocab_size: int

    @property
    def loss(self) -> float:
        """Mean cross-entropy per piece."""
        return statistics.fmean(row.loss for row in self.rows)

    @property
    def perplexity(self) -> float:
        """exp(loss): between how many equally likely pieces the model hesitates on average."""
        return math.exp(self.loss)

    def smoothed(self, smoothing: float) -> float:
        """Mean label-smoothed loss per piece, what the training lowers."""
        return statistics.fmean(row.smoothed(smoothing) for row in self.rows)


def teacher_table(translator: Translator, text: str, target_ids: Sequence[int]) -> TeacherTable:
    """All positions of a pair, from one pass.

    Args:
        translator: the model.
        text: the source sentence.
        target_ids: the right translation as pieces, ``<EOS>`` last.

    Raises:
        InputError: an empty target.
    """
    source, read, labels = _pair(translator, text, target_ids)
    logs = _log_probs(translator, source, read)
    label = torch.tensor(labels, device=logs.device)
    of_label = logs.gather(1, label[:, None])[:, 0]
    best = logs.max(dim=1)
    ranks = (logs > of_label[:, None]).sum(dim=1)
    pieces = [_pieces(translator, ids) for ids in (read, labels, best.indices.tolist())]
    numbers = [values.tolist() for values in (of_label, logs.mean(dim=1), best.values, ranks)]
    rows = tuple(
        TeacherRow(
            position=position,
            read=pieces[0][position],
            label=pieces[1][position],
            probability=math.exp(log),
            loss=-log,
            uniform=-mean,
            best=pieces[2][position],
            best_probability=math.exp(top),
            rank=rank,
        )
        for position, (log, mean, top, rank) in enumerate(zip(*numbers, strict=True))
    )
    return TeacherTable(rows, logs.size(1))


def trained_loss(translator: Translator, text: str, target_ids: Sequence[int], smoothing: float) -> float:
    """Mean label-smoothed loss per piece as the trainer's own function computes it, from hidden states.

    Raises:
        InputError: an empty target.
    """
    source, read, labels = _pair(translator, text, target_ids)
    model = translator.model
    with torch.inference_mode():
        hidden = model.hidden(_batch(translator, source), _batch(translator, read))[0]
        label = torch.tensor(labels, device=hidden.device)
        loss, _ = smoothed_cross_entropy(hidden, model.projection.weight, label, smoothing)
    return float(loss) / len(labels)


@dataclass(frozen=True)
class Wanted:
    """One piece at one position: how probable it is, how probable it shall be, and which way its logit is pushed."""

    piece: Piece
    probability: float
    wanted: float
    """Of the smoothed label."""
    rank: int

    @property
    def gradient(self) -> float:
        """Derivative of the position's loss by the logit of the piece, p - q: above zero the training lowers it."""
        return self.probability - self.wanted


@dataclass(frozen=True)
class LabelView:
    """The two distributions that cross-entropy compares at one position."""

    label: Piece
    shown: tuple[Wanted, ...]
    """The most probable pieces, best first, and the label last if it is not among them."""
    others: int
    """How many pieces are not shown."""
    others_probability: float
    others_wanted: float
    loss: float
    smoothed: float
    floor: float
    """The least that the smoothed loss can be (``smoothed_floor``)."""


def label_view(
    translator: Translator, text: str, target_ids: Sequence[int], position: int, smoothing: float, count: int = 8
) -> LabelView:
    """What the model says at one position, and what the smoothed label wants.

    Args:
        translator: the model.
        text: the source sentence.
        target_ids: the right translation as pieces, ``<EOS>`` last.
        position: from 0.
        smoothing: e.
        count: how many of the most probable pieces are shown.

    Raises:
        InputError: an empty target, or a position that it does not have.
    """
    source, read, labels = _pair(translator, text, target_ids)
    if not 0 <= position < len(labels):
        raise InputError(problem("position", f"must be from 0 to {len(labels) - 1}", position, "choose one of them"))
    logs = _log_probs(translator, source, read)[position]
    label, size = labels[position], logs.numel()
    wanted = wanted_distribution(size, label, smoothing)
    probabilities = logs.exp()
    order: list[int] = logs.sort(descending=True, stable=True).indices.tolist()
    numbers = order[:count] if label in order[:count] else [*order[:count], label]
    shown = tuple(
        Wanted(piece, float(probabilities[number]), float(wanted[number]), order.index(number))
        for piece, number in zip(_pieces(translator, numbers), numbers, strict=True)
    )
    loss, uniform = -float(logs[label]), -float(logs.mean())
    return LabelView(
        label=_pieces(translator, [label])[0],
        shown=shown,
        others=size - len(numbers),
        others_probability=max(0.0, 1.0 - sum(one.probability for one in shown)),
        others_wanted=max(0.0, 1.0 - sum(one.wanted for one in shown)),
        loss=loss,
        smoothed=(1.0 - smoothing) * loss + smoothing * uniform,
        floor=smoothed_floor(size, smoothing),
    )


def wanted_distribution(vocab_size: int, label: int, smoothing: float) -> FloatArray:
    """The smoothed label q [V]: 1 - e + e / V on the label, e / V on every other piece (Szegedy et al. 2016)."""
    wanted = np.full(vocab_size, smoothing / vocab_size)
    wanted[label] += 1.0 - smoothing
    return wanted


def smoothed_floor(vocab_size: int, smoothing: float) -> float:
    """The entropy of the smoothed label: a loss of less is impossible, and it is reached where p = q."""
    share = smoothing / vocab_size
    top = 1.0 - smoothing + share
    rest = (vocab_size - 1) * share * math.log(share) if share else 0.0
    return 0.0 - top * math.log(top) - rest  # of a whole label 0.0, not -0.0


def least_loss(probabilities: FloatArray, vocab_size: int, smoothing: float) -> FloatArray:
    """The least smoothed loss that is possible with a given probability of the label.

    It is reached when all other pieces share the rest evenly; the further they are from that, the more it costs.

    Args:
        probabilities: [N], each above 0 and below 1.
        vocab_size: V.
        smoothing: e.
    """
    share = smoothing / vocab_size
    rest = (vocab_size - 1) * share
    losses: FloatArray = -(1.0 - rest) * np.log(probabilities)
    if rest:
        losses -= rest * np.log((1.0 - probabilities) / (vocab_size - 1))
    return losses


MOST_TIMED = 32
"""Positions that ``timing`` measures."""


@dataclass(frozen=True)
class Timing:
    """Seconds that the decoder takes for the same numbers in three ways, its T positions given the source.

    Each is the shortest of several rounds: whatever else the computer does can only make one longer.
    """

    positions: int
    """All of the target, or the first ``MOST_TIMED``."""
    together: float
    """All positions in one pass, behind the causal mask: how it is trained."""
    cached: float
    """One after the other, keys and values kept: how it translates."""
    anew: float
    """One after the other, every prefix from its beginning, as without a cache."""
    difference: float
    """The largest deviation between hidden states of the three ways."""
    rounds: int
    """How often each was measured."""


def timing(
    translator: Translator, text: str, target_ids: Sequence[int], rounds: int = 7, budget: float = 0.3
) -> Timing:
    """Measure what the decoder needs for a whole target, all at once and one position at a time.

    The three ways take turns, after one round that does not count. Of a long target the first ``MOST_TIMED`` positions
    are taken: without a cache the work grows with the square of their number.

    Args:
        translator: the model.
        text: the source sentence.
        target_ids: the target as pieces, ``<EOS>`` last.
        rounds: most measurements of each way.
        budget: seconds after which no further round begins, once there are two.

    Raises:
        InputError: an empty target.
    """
    source, read, _ = _pair(translator, text, target_ids)
    read = read[:MOST_TIMED]
    model = translator.model
    with torch.inference_mode():
        source_ids, target = _batch(translator, source), _batch(translator, read)
        mask = torch.ones_like(source_ids, dtype=torch.bool)
        memory = model.encode(source_ids, mask)

        def together() -> Tensor:
            return model.decode(target, memory, mask)[0]

        def cached() -> Tensor:
            state, rows = model.start(memory, mask), []
            for number in target[0]:
                row, state = model.step(number[None], state)
                rows.append(row[0])
            return torch.stack(rows)

        def anew() -> Tensor:
            return torch.stack([model.decode(target[:, : end + 1], memory, mask)[0, -1] for end in range(len(read))])

        ways: tuple[Callable[[], Tensor], ...] = (together, cached, anew)
        hidden = [way() for way in ways]
        taken: list[list[float]] = [[], [], []]
        began = time.perf_counter()
        while len(taken[0]) < min(rounds, 2) or (len(taken[0]) < rounds and time.perf_counter() - began < budget):
            for way, seconds in zip(ways, taken, strict=True):
                started = time.perf_counter()
                way()
                seconds.append(time.perf_counter() - started)
    difference = max(float((hidden[0] - other).abs().max()) for other in hidden[1:])
    least = [min(seconds) for seconds in taken]
    return Timing(len(read), least[0], least[1], least[2], difference, len(taken[0]))


def _pair(translator: Translator, text: str, target_ids: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Source ids, what the decoder reads, and what it shall write: the same pieces shifted by one."""
    labels = [int(number) for number in target_ids]
    if not labels:
        raise InputError(problem("target", "must hold at least <EOS>", labels, "give a translation"))
    return translator.tokenizer.encode(text), [SOS_ID, *labels[:-1]], labels


def _log_probs(translator: Translator, source: Sequence[int], read: Sequence[int]) -> Tensor:
    """[T, V] float64"""
    with torch.inference_mode():
        logits: Tensor = translator.model(_batch(translator, source), _batch(translator, read))[0]
        return torch.log_softmax(logits.double(), dim=-1)


def _batch(translator: Translator, ids: Sequence[int]) -> Tensor:
    device = next(translator.model.parameters()).device
    return torch.tensor([list(ids)], dtype=torch.int64, device=device)


def _pieces(translator: Translator, ids: Sequence[int]) -> tuple[Piece, ...]:
    return translator.tokenizer.target_pieces(list(ids))
