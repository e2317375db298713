"""Boolean masks; True means "may attend" everywhere in the project."""

from __future__ import annotations

import torch
from torch import Tensor

from transformer.config import PAD_ID


def padding_mask(ids: Tensor) -> Tensor:
    """Which pieces are real: ids [B, S] -> bool [B, S], False at ``<PAD>``."""
    return ids != PAD_ID


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Which positions a decoder position may see: bool [T, T], the lower triangle with its diagonal (paper, Section
    3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def key_mask(mask: Tensor) -> Tensor:
    """A mask over keys [B, S] in the form that attention broadcasts: [B, 1, 1, S]."""
    return mask[:, None, None, :]


def decoder_mask(target_mask: Tensor) -> Tensor:
    """The causal mask joined with the target's padding: [B, T] -> [B, 1, T, T]."""
    return causal_mask(target_mask.size(1), target_mask.device)[None, None] & key_mask(target_mask)
