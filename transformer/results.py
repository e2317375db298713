"""What the engine answers when it is asked to translate, to score, or to decode step by step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # results only hold pieces and arrays
    import numpy as np
    from numpy.typing import NDArray

    from transformer.config import ModelConfig
    from transformer.text.tokenizer import Piece


@dataclass(frozen=True)
class TranslationHypothesis:
    """One translation that beam search found, or that was drawn."""

    text: str
    pieces: tuple[Piece, ...]
    """What the decoder wrote, in order, ``<EOS>`` included if it came to an end."""
    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    """Natural logarithm of the probability of each piece, given the source and the pieces before it."""
    total_log_prob: float
    score: float
    """``total_log_prob`` divided by the length penalty, plus ``coverage``; the search ranks by it. Of a drawn one,
    ``total_log_prob``."""
    finished: bool
    """False if the longest allowed length cut it off."""
    coverage: float = 0.0
    """The coverage penalty's share of ``score``, never above 0; 0 if the penalty is off."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """Labels of the pieces."""
        return tuple(piece.label for piece in self.pieces)


@dataclass(frozen=True)
class Translation:
    """The translations of one sentence, best first; the plain fields are those of the best."""

    source_text: str
    source: tuple[Piece, ...]
    """Pieces of the source, ``<SOS>`` and ``<EOS>`` included."""
    hypotheses: tuple[TranslationHypothesis, ...]
    seconds: float
    """Wall-clock time of the search, tokenisation included."""

    @property
    def best(self) -> TranslationHypothesis:
        """The hypothesis with the highest score."""
        return self.hypotheses[0]

    @property
    def text(self) -> str:
        """The translation."""
        return self.best.text

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Pieces of the translation, ``<EOS>`` included if it came to an end."""
        return self.best.pieces

    @property
    def tokens(self) -> tuple[str, ...]:
        """Labels of the pieces."""
        return self.best.tokens

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the pieces."""
        return self.best.ids

    @property
    def log_probs(self) -> tuple[float, ...]:
        """Natural logarithm of the probability of each piece."""
        return self.best.log_probs

    @property
    def total_log_prob(self) -> float:
        """Sum of ``log_probs``."""
        return self.best.total_log_prob

    @property
    def score(self) -> float:
        """``total_log_prob`` divided by the length penalty."""
        return self.best.score


@dataclass(frozen=True)
class ScoredTarget:
    """How probable the model finds a given translation."""

    source_text: str
    target_text: str
    pieces: tuple[Piece, ...]
    """Pieces of the target, ``<EOS>`` last."""
    log_probs: tuple[float, ...]
    """Natural logarithm of the probability of each piece, given the source and the pieces before it."""
    total_log_prob: float


@dataclass(frozen=True)
class Candidate:
    """One piece that could be written next."""

    piece: Piece
    log_prob: float
    """The model's own log-probability (nats)."""
    rank: int
    """Place by log-probability, from 0, among all pieces that may be written; of equals the lower id comes first."""

    @property
    def probability(self) -> float:
        """exp(log_prob)"""
        return math.exp(self.log_prob)


@dataclass(frozen=True, eq=False)
class DecodingStep:
    """What the decoder did at one position: it read ``<SOS> y_1 … y_t`` and weighs what y_(t+1) shall be."""

    position: int
    """t, from 0, where it has read ``<SOS>`` alone."""
    candidates: tuple[Candidate, ...]
    """The most probable pieces that may be written, best first. ``<PAD>``, ``<UNK>`` and ``<SOS>`` never are."""
    chosen: Candidate | None
    """What was written here, be it among the candidates or not; None where nothing has been written yet."""
    entropy: float
    """Of the whole distribution of the model, in nats; exp(entropy) is about how many pieces it hesitates between."""
    rest: float
    """Probability outside ``candidates``."""
    cross: NDArray[np.float32]
    """[L, H, S] cross-attention of this position, read-only."""


@dataclass(frozen=True)
class CacheSizes:
    """Bytes that the keys and values of one sentence take in the decoder, in float32."""

    cross_bytes: int
    """Of cross-attention: computed once from the encoder's output, the same at every step."""
    self_bytes: int
    """Of masked self-attention: grows by one position a step."""


def cache_sizes(config: ModelConfig, source_length: int, steps: int) -> CacheSizes:
    """How large a decoder state is: keys and values, of D numbers of 4 bytes, a layer and position.

    Args:
        config: the model's shape.
        source_length: S, pieces of the source with its special pieces.
        steps: positions that the decoder has read, ``<SOS>`` included.
    """
    position = 2 * 4 * config.d_model * config.decoder_layers
    return CacheSizes(position * source_length, position * steps)
