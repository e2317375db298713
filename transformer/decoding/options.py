"""The dials of a search, and what a search hands back. No torch here: pages and the command line use them as well."""

from __future__ import annotations

import math
from dataclasses import dataclass

from transformer.config import LENGTH_PENALTY
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
    length_penalty: float = LENGTH_PENALTY
    """alpha of Wu et al. 2016, Section 7: a score is the total log-probability over ((5 + n) / 6) ** alpha, n counting
    the written pieces with <EOS>. 0 compares plain totals. Never below 0: the stopping rule would no longer hold."""
    max_extra: int = 50
    """A translation may have this many pieces more than its source (both counted with their special pieces)."""
    nbest: int = 1
    """Hypotheses returned for each sentence, at most M. It never changes which ones are the best, only how many."""
    coverage_penalty: float = 0.0
    """beta of Wu et al. 2016, Equation 14: beta times the sum over the source pieces of log(min(attention that a piece
    received, 1)) is added to a score (``coverage``). 0 is off; below 0 the stopping rule would not hold."""
    no_repeat_ngram: int = 0
    """n >= 1: no run of n pieces is written a second time (Paulus et al. 2018, Section 2.5, has n = 3). 0 is off."""

    def __post_init__(self) -> None:
        for name, low in (("beam_size", 1), ("max_extra", 0), ("nbest", 1), ("no_repeat_ngram", 0)):
            _refuse_whole(name, getattr(self, name), low)
        if self.beam_size > WIDEST_BEAM:
            raise InputError(problem("beam_size", f"must be at most {WIDEST_BEAM}", self.beam_size, "narrow the beam"))
        _refuse_number("length_penalty", self.length_penalty, 0.0, 10.0, "0.6 is the paper's, 0 turns it off")
        _refuse_number("coverage_penalty", self.coverage_penalty, 0.0, 10.0, "0.2 is usual, 0 turns it off")
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
class SamplingOptions:
    """How to draw a translation piece by piece instead of searching for the best.

    The filters work in this order, each on what the one before it left: temperature, ``top_k``, ``top_p``.

    Raises:
        InputError: a value out of range.
    """

    temperature: float = 1.0
    """Log-probabilities are divided by it: below 1 makes likely pieces likelier, above 1 evens them out."""
    top_k: int = 0
    """Only the k most probable pieces can be drawn (Fan et al. 2018, Section 5); 0 is off."""
    top_p: float = 1.0
    """Only the fewest most probable pieces that hold at least this much probability together can be drawn (Holtzman et
    al. 2020, Section 3.1); 1 is off."""
    seed: int = 0
    """The same seed gives the same translation."""
    max_extra: int = 50
    """As in ``SearchOptions``."""
    no_repeat_ngram: int = 0
    """As in ``SearchOptions``; applied before the filters."""

    def __post_init__(self) -> None:
        for name in ("top_k", "seed", "max_extra", "no_repeat_ngram"):
            _refuse_whole(name, getattr(self, name), 0)
        _refuse_number("temperature", self.temperature, 0.01, 100.0, "1 leaves the model as it is")
        _refuse_number("top_p", self.top_p, 0.0, 1.0, "0.9 is usual, 1 turns it off")
        if self.top_p == 0.0:
            raise InputError(problem("top_p", "must be above 0", self.top_p, "0.9 is usual, 1 turns it off"))

    def max_length(self, source_length: int, positions: int) -> int:
        """The most pieces, <EOS> included; see ``SearchOptions.max_length``."""
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
    """``total_log_prob`` divided by the length penalty of ``len(tokens)``, plus ``coverage``: what hypotheses are
    compared by."""
    finished: bool
    """Whether it ends with <EOS>; False when the longest allowed length cut it off."""
    coverage: float = 0.0
    """The coverage penalty's share of ``score``, never above 0; 0 if it is off."""


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6) ** alpha, by which a total log-probability is divided (Wu et al. 2016, Equation 14).

    Args:
        length: number of written pieces, <EOS> included.
        alpha: 0 gives 1 for every length; larger values favour longer translations.

    >>> length_penalty(1, 0.6), round(length_penalty(7, 1.0), 6)
    (1.0, 2.0)
    """
    return math.pow((5.0 + length) / 6.0, alpha)


def _refuse_whole(name: str, value: object, low: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise InputError(problem(name, f"must be a whole number of at least {low}", value, "correct it"))


def _refuse_number(name: str, value: object, low: float, high: float, remedy: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise InputError(problem(name, f"must be a number from {low:g} to {high:g}", value, remedy))
