"""Label-smoothed cross-entropy, with the projection to the vocabulary inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float = 0.0, chunk: int = 256, precise: bool = True
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
        precise: multiply in the dtype of ``hidden`` and ``weight``; False multiplies in bfloat16. Softmax and sums are
            float32 in either case.

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
        weight_gradient = (
            torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if needs_gradient else None
        )
        loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
        likelihood = torch.zeros((), dtype=torch.float32, device=hidden.device)
        # The smoothing's share of logits and gradients is the same vector for every row, so it never needs V passes.
        table_sum = table.sum(dim=0, dtype=torch.float32)
        uniform = smoothing / weight.size(0)
        for start in range(0, rows.size(0), chunk):
            part = rows[start : start + chunk]
            label = labels[start : start + chunk, None]
            logits = torch.matmul(part, table.t()).float()
            highest = logits.amax(dim=1, keepdim=True)
            label_logit = logits.gather(1, label)
            exponential = logits.sub_(highest).exp_()
            total = exponential.sum(dim=1, keepdim=True)
            normaliser = (highest + total.log()).sum()
            negative = normaliser - label_logit.sum()
            likelihood += negative
            loss += (1.0 - smoothing) * negative
            if smoothing:
                loss += smoothing * normaliser - uniform * torch.dot(part.sum(dim=0, dtype=torch.float32), table_sum)
            if hidden_gradient is None or weight_gradient is None:
                continue
            # The softmax stays multiplied by its row's total; the D-wide factors are divided instead of the V-wide one.
            gradient = exponential.scatter_add_(1, label, total * (smoothing - 1.0)).to(dtype)
            shrunk = (part / total).to(dtype)
            hidden_gradient[start : start + chunk] = torch.matmul(gradient, table) / total - uniform * table_sum
            weight_gradient += torch.matmul(gradient.t(), shrunk)
        if smoothing and weight_gradient is not None:
            weight_gradient -= uniform * rows.sum(dim=0, dtype=torch.float32)
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
