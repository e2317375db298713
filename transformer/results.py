"""What the engine answers when it is asked to translate or to score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # results only hold pieces
    from transformer.text.tokenizer import Piece


@dataclass(frozen=True)
class TranslationHypothesis:
    """One translation that beam search found."""

    text: str
    pieces: tuple[Piece, ...]
    """What the decoder wrote, in order, ``<EOS>`` included if it came to an end."""
    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    """Natural logarithm of the probability of each piece, given the source and the pieces before it."""
    total_log_prob: float
    score: float
    """``total_log_prob`` divided by the length penalty; the search ranks by it."""
    finished: bool
    """False if the longest allowed length cut it off."""

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
