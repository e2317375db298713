"""Which pieces a search may write."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from transformer.config import EOS_ID, PAD_ID, SOS_ID, UNK_ID
from transformer.errors import InputError, TransformerError, problem

NEVER_WRITTEN = (PAD_ID, UNK_ID, SOS_ID)
"""<PAD> and <SOS> are never part of a target. <UNK> may be, but it stands for letters that nobody can read back, so a
search passes it over and takes the best piece that can be shown. The other log-probabilities are left as the model
gave them (no renormalisation): a number on screen is the model's own and a hypothesis scores the same everywhere."""


def forbid(scores: Tensor) -> Tensor:
    """Give the pieces that are never written a score of -inf, in place, and return the same tensor [..., V]."""
    for piece in NEVER_WRITTEN:
        scores[..., piece] = float("-inf")
    return scores


def repeats(tokens: Sequence[int], size: int) -> set[int]:
    """The pieces that would write a run of ``size`` pieces a second time behind ``tokens``.

    >>> sorted(repeats([7, 8, 9, 7, 8], 3)), sorted(repeats([7, 8, 7], 1)), repeats([7], 2)
    ([9], [7, 8], set())
    """
    begun = list(tokens[len(tokens) - size + 1 :])
    starts = range(len(tokens) - size + 1)
    return {tokens[start + size - 1] for start in starts if list(tokens[start : start + size - 1]) == begun}


def check_forced(pieces: Sequence[int]) -> None:
    """Refuse a forced prefix that goes on behind <EOS>.

    Raises:
        InputError: it does.
    """
    if EOS_ID in pieces[:-1]:
        raise InputError(problem("prefix", "must not go on behind <EOS>", list(pieces), "cut it there"))


def check_numbers(value: float) -> None:
    """Refuse a log-probability that is NaN.

    Raises:
        TransformerError: it is.
    """
    if math.isnan(value):
        raise TransformerError(problem("log-probabilities", "must be numbers", value, "check the model's weights"))
