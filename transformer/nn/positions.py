"""Where a piece stands, told to a model that has no other sense of order (paper, Section 3.5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from transformer.errors import InputError, problem


def sinusoidal_table(length: int, d_model: int) -> Tensor:
    """The paper's table, [length, D]: sine in even, cosine in odd dimensions, interleaved.

    PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)). Computed in float64 and rounded
    once, so that late positions are as exact as early ones.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table.float()


class Positions(nn.Module):
    """A table of one vector per position, computed (or learned) once and sliced.

    ``kind`` is "sinusoidal" (a buffer that is not saved), "learned" (a parameter) or "none" (zeros).
    """

    table: Tensor

    def __init__(self, kind: str, max_length: int, d_model: int) -> None:
        super().__init__()
        self.max_length = max_length
        if kind == "learned":
            self.table = nn.Parameter(torch.empty(max_length, d_model))
            nn.init.normal_(self.table, std=d_model**-0.5)
        elif kind == "sinusoidal":
            self.register_buffer("table", sinusoidal_table(max_length, d_model), persistent=False)
        else:
            self.register_buffer("table", torch.zeros(max_length, d_model), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        """Vectors of the positions start … start + length - 1: [length, D].

        Raises:
            InputError: the sequence is longer than the table.
        """
        if start + length > self.max_length:
            raise InputError(
                problem(
                    "sequence length",
                    f"must be at most {self.max_length} pieces (max_length of the model)",
                    start + length,
                    "shorten the text",
                )
            )
        return self.table[start : start + length]
