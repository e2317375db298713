"""The dials of a search, and what a search hands back. No torch here: pages and the command line use them as well."""

from __future__ import annotations

import math
from dataclasses import dataclass

from transformer.errors import InputError, problem

WIDEST_BEAM = 100
"""Memory and time grow with M, and the translations of a beam this wide are no better, often worse."""


@dataclass(frozen=True)
class SearchOptions:
    """How to search. The defaults but for the beam (4 there) are the paper's, Section 6.1.

    Raises:
        InputError: a value out of range, or ``nbest`` above ``beam_size``.
    """

    beam_size: int = 5
    """M, live hypotheses kept after every step; 1 is greedy decoding, ``WIDEST_BEAM`` the most."""
    length_penalty: float = 0.6
    """alpha of Wu et al. 2016, Section 7: a score is the total log-probability over ((5 + n) / 6) ** alpha, n counting
    the written pieces with <EOS>. 0 compares plain totals. Never below 0: the stopping rule would no longer hold."""
    max_extra: int = 50
    """A translation may have this many pieces more than its source (both counted with their special pieces)."""
    nbest: int = 1
    """Hypotheses returned for each sentence, at most M. It never changes which ones are the best, only how many."""

    def __post_init__(self) -> None:
        for name, low in (("beam_size", 1), ("max_extra", 0), ("nbest", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise InputError(problem(name, f"must be a whole number of at least {low}", value, "correct it"))
        if self.beam_size > WIDEST_BEAM:
            raise InputError(problem("beam_size", f"must be at most {WIDEST_BEAM}", self.beam_size, "narrow the beam"))
        alpha = self.length_penalty
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0.0 <= alpha <= 10.0:
            raise InputError(
                problem("length_penalty", "must be a number from 0 to 10", alpha, "0.6 is the paper's, 0 turns it off")
            )
        if self.nbest > self.beam_size:
            raise InputError(
                problem("nbest", f"must not exceed beam_size = {self.beam_size}", self.nbest, "widen the beam")
            )

    def max_length(self, source_length: int, positions: int) -> int:
        """The most pieces, <EOS> included, that a sentence may be given.

        Args:
            source_length: pieces of the source, <SOS> and <EOS> included.
            positions: the model's ``config.max_length``. The decoder reads <SOS> and all written pieces but the last,
                so writing n pieces takes exactly n positions.
        """
        return min(source_length + self.max_extra, positions)


@dataclass(frozen=True)
class Hypothesis:
    """One translation found by a search."""

    tokens: tuple[int, ...]
    """Written pieces without <SOS>, with the closing <EOS> if there is one."""
    log_probs: tuple[float, ...]
    """The model's own log-probability (nats) of each piece, not renormalised over the allowed ones."""
    total_log_prob: float
    """Their sum, as the search accumulated it in float32."""
    score: float
    """``total_log_prob`` divided by the length penalty of ``len(tokens)``: what hypotheses are compared by."""
    finished: bool
    """Whether it ends with <EOS>; False when the longest allowed length cut it off."""


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6) ** alpha, by which a total log-probability is divided (Wu et al. 2016, Equation 14).

    Args:
        length: number of written pieces, <EOS> included.
        alpha: 0 gives 1 for every length; larger values favour longer translations.

    >>> length_penalty(1, 0.6), round(length_penalty(7, 1.0), 6)
    (1.0, 2.0)
    """
    return math.pow((5.0 + length) / 6.0, alpha)
