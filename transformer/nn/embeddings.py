"""From piece ids to the vectors that enter a stack (paper, Sections 3.4 and 3.5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from transformer.config import PAD_ID, ModelConfig
from transformer.nn.dropout import Dropout
from transformer.nn.positions import Positions
from transformer.nn.probe import Probe


class StackInput(nn.Module):
    """Embedding times sqrt(D), plus position, then dropout.

    Probes: ``embedding`` [B, T, D] (scaled), ``positions`` [T, D] and ``sum`` [B, T, D] (before dropout).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(config.d_model)
        self.lookup = nn.Embedding(config.vocab_size, config.d_model, padding_idx=None)
        self.position_table = Positions(config.positions, config.max_length, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.embedding = Probe()
        self.positions = Probe()
        self.sum = Probe()
        nn.init.normal_(self.lookup.weight, std=config.d_model**-0.5)
        self.lookup.weight.data[PAD_ID].zero_()

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """ids [B, T] at positions start … start + T - 1 -> [B, T, D]"""
        embedded = self.embedding(self.lookup(ids) * self.scale)
        positions = self.positions(self.position_table(start, ids.size(1)))
        total = self.sum(embedded + positions)
        if torch.is_autocast_enabled(total.device.type):
            # The residual stream too has the autocast dtype, or every sublayer would convert it twice.
            total = total.to(torch.get_autocast_dtype(total.device.type))
        entering: Tensor = self.dropout(total)
        return entering
