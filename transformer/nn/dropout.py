"""Dropout that draws and applies its mask quickly on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def keep_bits(shape: torch.Size, drop: int, width: int) -> Tensor:
    """An integer of ``width`` bytes for each element: no bit set with probability ``drop`` / 256, else every bit.

    ANDed to the bits of a number it makes 0.0 of it or leaves it. Eight elements share one 64-bit draw: its bytes are
    compared two at a time, as the upper and, after a shift, the lower half of an int16, because comparing, negating
    and ANDing numbers of equal width are the quickest things that a CPU does to a tensor.
    """
    count = shape.numel()
    half = 4 * ((count + 7) // 8)
    words = torch.empty(half // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    threshold = (drop - 128) << 8
    bits = torch.empty(2 * half, dtype=torch.int16)
    torch.ge(words, threshold, out=bits[:half])
    torch.ge(words.bitwise_left_shift_(8), threshold, out=bits[half:])
    return bits.neg_()[:count].view(shape).to(_INTEGERS[width])


def kept(x: Tensor, bits: Tensor) -> Tensor:
    """x where ``keep_bits`` says so, and 0 elsewhere."""
    return x.contiguous().view(bits.dtype).bitwise_and(bits).view(x.dtype)


class _DropAndAdd(torch.autograd.Function):
    """residual + dropout(x), or dropout(x) without a residual."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor | None, drop: int) -> Tensor:
        bits = keep_bits(x.shape, drop, x.element_size())
        ctx.scale = 256.0 / (256 - drop)
        ctx.save_for_backward(bits)
        ctx.residual_dtype = None if residual is None else residual.dtype
        dropped = kept(x, bits)
        return dropped.mul_(ctx.scale) if residual is None else torch.add(residual, dropped, alpha=ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (bits,) = ctx.saved_tensors
        own = gradient.to({2: torch.bfloat16, 4: torch.float32, 8: torch.float64}[bits.element_size()])
        return kept(own, bits).mul_(ctx.scale), gradient if ctx.residual_dtype is not None else None, None


class Dropout(nn.Module):
    """Zero each element with probability ``rate`` while training and scale the rest (Srivastava et al. 2014).

    On a CPU the rate is rounded to the nearest 1/256 (0.3 becomes 77/256 = 0.3008) and the scale is that of the rounded
    rate, so that the expectation is exact; other devices use PyTorch's own kernel.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.drop = min(round(rate * 256), 255)

    def forward(self, x: Tensor) -> Tensor:
        """[...] -> [...]"""
        if not self.training or self.rate == 0.0:
            return x
        if x.device.type != "cpu":
            other: Tensor = F.dropout(x, self.rate, training=True)
            return other
        return _drop(x, None, self.drop)

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + dropout(x), in fewer passes over memory than one after the other."""
        if not self.training or self.rate == 0.0 or x.device.type != "cpu" or x.dtype != residual.dtype:
            total: Tensor = residual + self(x)
            return total
        return _drop(x, residual, self.drop)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


_drop: Callable[[Tensor, Tensor | None, int], Tensor] = _DropAndAdd.apply
