"""Label-smoothed cross-entropy, with the projection to the vocabulary inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS = 512
"""Rows of logits held at a time on a CPU: as many as its cache likes."""
_LOST = 1e-30
"""A probability below this has lost digits, or is zero."""


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float = 0.0, chunk: int = ROWS, precise: bool = True
) -> tuple[Tensor, Tensor]:
    """Loss of the logits ``hidden @ weight.T`` against ``labels``, summed over rows, without holding all logits.

    The target distribution is (1 - e) on the label plus e / V on every piece (Szegedy et al. 2016; paper, Section 5.4),
    the definition of ``torch.nn.functional.cross_entropy(label_smoothing=e)``. The rows are worked through in chunks,
    whose softmax gives the gradient in the same pass, so that the memory needed is chunk x V instead of N x V.

    Args:
        hidden: [N, D], padding rows already left out.
        weight: [V, D], the output embedding.
        labels: int64 [N].
        smoothing: e, the paper's 0.1.
        chunk: rows worked on at a time.
        precise: work in the dtype of ``weight``; False works in bfloat16, whose rounding of the logits (about 0.02 at a
            logit of 8) is also the error of the loss of a row. Sums over rows are float32 in either case.

    Returns:
        (loss, negative log-likelihood), both float32 scalars summed over rows; only the loss has a gradient. The second
        is what perplexity is computed from.
    """
    if not torch.is_grad_enabled():
        hidden, weight = hidden.detach(), weight.detach()  # or the gradients would be computed and thrown away
    apply: Callable[..., tuple[Tensor, Tensor]] = _ChunkedCrossEntropy.apply
    return apply(hidden, weight, labels, smoothing, chunk, precise)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, chunk: int, precise: bool
    ) -> tuple[Tensor, Tensor]:
        dtype = weight.dtype if precise else torch.bfloat16
        table = weight.detach().to(dtype)
        rows = hidden.detach().to(dtype)
        needs_gradient = any(ctx.needs_input_grad)
        hidden_gradient = torch.empty_like(rows) if needs_gradient else None
        weight_gradient = torch.zeros_like(weight, dtype=torch.float32) if needs_gradient else None
        sums = torch.zeros(2, dtype=torch.float32, device=hidden.device)
        # The smoothing's share of logits and gradients is the same vector for every row, so it never needs V passes.
        table_sum = table.sum(dim=0, dtype=torch.float32)
        uniform = smoothing / weight.size(0)
        # One workspace serves every chunk: on a CPU fresh memory of this size costs more than the arithmetic.
        size = max(1, min(chunk, rows.size(0)))
        workspace = torch.empty(size, weight.size(0), dtype=dtype, device=rows.device)
        for start in range(0, rows.size(0), size):
            part = rows[start : start + size]
            label = labels[start : start + size]
            work = torch.mm(part, table.t(), out=workspace[: part.size(0)])
            at_label = (torch.arange(part.size(0), device=work.device), label)  # scatter would convert all of bfloat16
            label_logit = work[at_label].float()
            torch.softmax(work, dim=1, out=work)
            probability = work[at_label].float()
            negative = -probability.log()
            if (probability < _LOST).any():  # too small to tell, but its logarithm is not
                exact = torch.mm(part, table.t()).float().logsumexp(dim=1) - label_logit
                negative = torch.where(probability < _LOST, exact, negative)
            sums += torch.stack((negative.sum(), label_logit.sum()))
            if hidden_gradient is not None and weight_gradient is not None:
                work[at_label] = (probability - (1.0 - smoothing)).to(dtype)
                hidden_gradient[start : start + size] = torch.mm(work, table) - uniform * table_sum
                weight_gradient += torch.mm(work.t(), part)
        row_sum = rows.sum(dim=0, dtype=torch.float32)
        if smoothing and weight_gradient is not None:
            weight_gradient -= uniform * row_sum
        likelihood, label_logits = sums
        # The logarithm of a row's normaliser is its negative log-likelihood plus the label's logit.
        loss = likelihood + smoothing * label_logits - uniform * (row_sum @ table_sum)
        ctx.hidden_dtype, ctx.weight_dtype = hidden.dtype, weight.dtype
        ctx.save_for_backward(hidden_gradient, weight_gradient)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden_gradient, weight_gradient = ctx.saved_tensors
        return (
            (hidden_gradient.float() * loss_gradient).to(ctx.hidden_dtype),
            (weight_gradient * loss_gradient).to(ctx.weight_dtype),
            None,
            None,
            None,
            None,
        )
