"""Which pieces a search may write."""

from __future__ import annotations

from torch import Tensor

from transformer.config import PAD_ID, SOS_ID, UNK_ID

NEVER_WRITTEN = (PAD_ID, UNK_ID, SOS_ID)
"""<PAD> and <SOS> are never part of a target. <UNK> may be, but it stands for letters that nobody can read back, so a
search passes it over and takes the best piece that can be shown. The other log-probabilities are left as the model
gave them (no renormalisation): a number on screen is the model's own and a hypothesis scores the same everywhere."""


def forbid(scores: Tensor) -> Tensor:
    """Give the pieces that are never written a score of -inf, in place, and return the same tensor [..., V]."""
    for piece in NEVER_WRITTEN:
        scores[..., piece] = float("-inf")
    return scores
