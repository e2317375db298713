"""How a translation is written: what is computed once and what at every step, what is weighed at each, and what the
length penalty decides.

Letters: S source pieces, T written pieces, D, F, V and L as everywhere, N hypotheses, A values of alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from transformer.capture.intervene import forced_pass
from transformer.capture.record import FloatArray
from transformer.config import EOS_ID, SOS_ID, ModelConfig
from transformer.decoding.options import length_penalty
from transformer.decoding.rules import NEVER_WRITTEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from transformer.engine import Translator
    from transformer.text.tokenizer import Piece


@dataclass(frozen=True, eq=False)
class Work:
    """Multiplications that a translation takes, counted from the model's shape; sums and softmax are left out."""

    once: int
    """The encoder over the source, and the keys and values of cross-attention that are kept."""
    kept: NDArray[np.int64]
    """[T] of each step when keys and values are kept: only the newest position goes through the decoder."""
    anew: NDArray[np.int64]
    """[T] of each step when nothing is kept: all positions so far go through it, and the memory is projected again."""

    @property
    def saved(self) -> float:
        """How many times more all steps together take without keeping."""
        return float(self.anew.sum() / self.kept.sum())


def work(config: ModelConfig, source_length: int, steps: int) -> Work:
    """Count the multiplications of a translation.

    Args:
        config: the model's shape.
        source_length: S >= 1 pieces of the source with its special pieces.
        steps: T >= 1 pieces that are written, ``<EOS>`` included.
    """
    width, inner, layers = config.d_model, config.feed_forward, config.decoder_layers
    square, network = width * width, 2 * width * inner
    memory = layers * source_length * 2 * square
    encoder = config.encoder_layers * (
        source_length * (4 * square + network) + 2 * source_length * source_length * width
    )
    positions = np.arange(1, steps + 1, dtype=np.int64)
    vocabulary = width * config.vocab_size
    of_one = 4 * square + 2 * square + 2 * source_length * width + network  # cross-attention has only W^Q and W^O here
    kept = layers * (of_one + 2 * positions * width) + vocabulary
    anew = layers * positions * (of_one + 2 * positions * width) + memory + vocabulary
    return Work(encoder + memory, kept, anew)


@dataclass(frozen=True, eq=False)
class Weighing:
    """What the model weighed at each step of a translation, whatever was chosen."""

    chosen: FloatArray
    """[T] probability of what was written."""
    rivals: tuple[Piece, ...]
    """T: the most probable other piece that may be written."""
    rival: FloatArray
    """[T] its probability."""
    end: FloatArray
    """[T] probability of ``<EOS>``."""
    best: tuple[bool, ...]
    """T: whether what was written was the most probable."""


def weighing(translator: Translator, text: str, target_ids: Sequence[int]) -> Weighing:
    """Ask for every step of a translation how sure the model was, and of what else it thought.

    Args:
        translator: the model.
        text: the sentence.
        target_ids: T >= 1 pieces that were written, ``<EOS>`` last if it is complete.

    Raises:
        InputError: as ``Translator.inspect``.
    """
    target = [int(number) for number in target_ids]
    log_probs, _ = forced_pass(translator.model, translator.tokenizer.encode(text), [SOS_ID, *target[:-1]])
    shares = log_probs.double().exp().cpu().numpy()
    places = np.arange(len(target))
    others = shares.copy()
    others[:, list(NEVER_WRITTEN)] = -1.0
    others[places, target] = -1.0
    rivals = others.argmax(axis=1)
    chosen, rival = shares[places, target], shares[places, rivals]
    return Weighing(
        chosen=chosen.astype(np.float32),
        rivals=tuple(translator.tokenizer.target_pieces([int(number)])[0] for number in rivals),
        rival=rival.astype(np.float32),
        end=shares[:, EOS_ID].astype(np.float32),
        best=tuple(bool(one >= other) for one, other in zip(chosen, rival, strict=True)),
    )


def scores_by_alpha(totals: Sequence[float], lengths: Sequence[int], alphas: Sequence[float]) -> NDArray[np.float64]:
    """The score of each hypothesis for each length penalty: [N, A], total / ((5 + n) / 6) ** alpha.

    Args:
        totals: N log-probabilities.
        lengths: N numbers of pieces, ``<EOS>`` included.
        alphas: A exponents.
    """
    rows = [
        [total / length_penalty(length, alpha) for alpha in alphas]
        for total, length in zip(totals, lengths, strict=True)
    ]
    return cast("NDArray[np.float64]", np.array(rows, dtype=np.float64).reshape(len(rows), len(alphas)))
