"""One pair through the snapshots of a training: what the model would have written, what the pair cost, where it looked.

Letters: L decoder layers, H heads, T target pieces, S source pieces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from transformer.engine import Translator

MAX_EXTRA = 20
"""Pieces beyond the source's that a snapshot may write: early ones never come to an end."""


@dataclass(frozen=True)
class Look:
    """What a model, as it was at one point of its training, makes of a pair."""

    text: str
    """Its own translation, by greedy search."""
    finished: bool
    """False if its translation was cut off."""
    loss: float
    """Mean cross-entropy per piece of the given target, in nats, without smoothing or dropout."""
    log_probs: tuple[float, ...]
    """Of each piece of the given target."""
    evenness: tuple[float, ...]
    """For each decoder layer the mean entropy of its cross-attention rows, as a share of the largest possible, ln S: 1
    where every source piece gets the same."""

    @property
    def probability(self) -> float:
        """Geometric mean of the probabilities of the given target's pieces, exp(-loss)."""
        return math.exp(-self.loss)


def look(translator: Translator, text: str, target_ids: Sequence[int]) -> Look:
    """Ask one snapshot (or the finished model) about a sentence and a given translation of it.

    Args:
        translator: ``transformer.load(name, snapshot=step)``.
        text: the source sentence.
        target_ids: the given translation as pieces, ``<EOS>`` last.

    Raises:
        InputError: an empty or too long sentence, or ids that no decoder could have written.
    """
    own = translator.translate(text, beam_size=1, max_extra=MAX_EXTRA).best
    steps = translator.steps(text, target_ids, count=1)[: len(target_ids)]
    log_probs = tuple(step.chosen.log_prob for step in steps if step.chosen is not None)
    rows = np.stack([step.cross for step in steps]).astype(np.float64)  # [T, L, H, S]
    logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
    entropy = -(rows * logs).sum(axis=-1) / math.log(max(rows.shape[-1], 2))
    return Look(
        text=own.text,
        finished=own.finished,
        loss=-sum(log_probs) / len(log_probs),
        log_probs=log_probs,
        evenness=tuple(float(value) for value in entropy.mean(axis=(0, 2))),
    )
