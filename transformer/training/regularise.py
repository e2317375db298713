"""Regularisers for small corpora that act on the loss and on the ids: R-Drop and word dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from transformer.config import EOS_ID, PAD_ID, SOS_ID, UNK_ID
from transformer.errors import ConfigError, problem
from transformer.training.loss import smoothed_cross_entropy

_PARTS = 16
"""Parts of a chunk that a CPU works on one after the other, so that their float32 numbers stay in its cache."""


def word_dropout(ids: Tensor, rate: float, generator: torch.Generator | None = None) -> Tensor:
    """Hide real pieces behind ``<UNK>``, each with probability ``rate``, so that a model cannot lean on any single one.

    For source ids (Sennrich et al. 2016, "Edinburgh Neural Machine Translation Systems for WMT 16", who set embeddings
    to zero) and for the decoder's input (Bowman et al. 2016, "Generating Sentences from a Continuous Space", who put
    ``<UNK>``). ``<UNK>`` because it needs no change of the model, and because its embedding learns to mean "some word":
    in a corpus whose letters all have pieces it would otherwise never be trained, and yet readers type unknown letters.

    Args:
        ids: int64 [B, S]; never changed in place, since labels may share its memory.
        rate: from 0 to 1; at 0 ``ids`` itself comes back and nothing is drawn.
        generator: on the device of ``ids``; PyTorch's default one if None.

    Returns:
        int64 [B, S]; ``<PAD>``, ``<SOS>`` and ``<EOS>`` are where they were.

    Raises:
        ConfigError: ``rate`` out of range.
    """
    if not 0.0 <= rate <= 1.0:
        raise ConfigError(problem("word dropout", "must be from 0 to 1", rate, "0.1 is usual"))
    if rate == 0.0:
        return ids
    hidden = torch.rand(ids.shape, generator=generator, device=ids.device) < rate
    return ids.masked_fill(hidden & (ids != PAD_ID) & (ids != SOS_ID) & (ids != EOS_ID), UNK_ID)


def r_drop_cross_entropy(
    first: Tensor,
    second: Tensor,
    weight: Tensor,
    labels: Tensor,
    smoothing: float,
    alpha: float,
    chunk: int = 256,
    precise: bool = True,
) -> tuple[Tensor, Tensor]:
    """Loss of two forward passes of one batch, whose dropout differs and whose predictions should not.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", Section 2.1: the loss of a piece is
    L = L_NLL + alpha L_KL, where L_NLL is the sum of both passes' cross-entropies (here with label smoothing) and
    L_KL = (KL(p || q) + KL(q || p)) / 2 for their distributions p and q. What is returned is **L / 2**: alpha weighs as
    in the paper (5 for translation there), and the value stays comparable with ``smoothed_cross_entropy``, which it
    equals when both passes agree.

    Like there, rows are worked through in chunks and the gradient is made in the same pass, so that 2 x chunk x V
    logits are held instead of 2 x N x V.

    Args:
        first: [N, D], of one pass, padding rows already left out.
        second: [N, D], the same rows of the other pass.
        weight: [V, D], the output embedding.
        labels: int64 [N].
        smoothing: e of label smoothing.
        alpha: weight of the divergence; 0 leaves the mean of two plain losses.
        chunk: rows of each pass worked on at a time.
        precise: multiply in the dtype of ``weight``; False multiplies in bfloat16.

    Returns:
        (loss, negative log-likelihood), both float32 scalars summed over rows; the second is the mean of both passes
        and has no gradient.
    """
    if not alpha:
        plain = [
            smoothed_cross_entropy(hidden, weight, labels, smoothing, chunk, precise) for hidden in (first, second)
        ]
        return (plain[0][0] + plain[1][0]) / 2, (plain[0][1] + plain[1][1]) / 2
    if not torch.is_grad_enabled():
        first, second, weight = first.detach(), second.detach(), weight.detach()
    apply: Callable[..., tuple[Tensor, Tensor]] = _ChunkedRDrop.apply
    return apply(first, second, weight, labels, smoothing, alpha, chunk, precise)


class _ChunkedRDrop(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        weight: Tensor,
        labels: Tensor,
        smoothing: float,
        alpha: float,
        chunk: int,
        precise: bool,
    ) -> tuple[Tensor, Tensor]:
        dtype = weight.dtype if precise else torch.bfloat16
        table = weight.detach().to(dtype)
        passes = (first.detach().to(dtype), second.detach().to(dtype))
        needs_gradient = any(ctx.needs_input_grad)
        gradients = [torch.empty_like(rows) for rows in passes] if needs_gradient else []
        weight_gradient = torch.zeros_like(weight, dtype=torch.float32) if needs_gradient else None
        share = alpha / 4  # of either divergence in L / 2
        # The smoothing's share of logits and gradients is the same vector for every row, so it never needs V passes.
        table_sum = table.sum(dim=0, dtype=torch.float32)
        uniform = smoothing / table.size(0) / 2
        sums = torch.zeros(3, dtype=torch.float32, device=table.device)
        # Many small operations would only keep a GPU waiting.
        size = max(1, chunk // _PARTS) if table.device.type == "cpu" else chunk
        part = _Part(min(size, labels.size(0)), table, share, smoothing, needs_gradient)
        products = table.new_empty(2 * min(chunk, labels.size(0)), table.size(0))
        for start in range(0, labels.size(0), chunk):
            rows = torch.cat([hidden[start : start + chunk] for hidden in passes])
            product = products[: rows.size(0)]
            torch.mm(rows, table.t(), out=product)
            logits = product.view(2, -1, table.size(0))
            for at in range(0, logits.size(1), part.size):
                some = logits[:, at : at + part.size]
                sums += part.replace(some, labels[start + at : start + at + some.size(1)])
            if weight_gradient is not None:
                back = (torch.mm(product, table) + uniform / share * table_sum) * -share
                for gradient, half in zip(gradients, back.chunk(2), strict=True):
                    gradient[start : start + chunk] = half
                weight_gradient += torch.mm(product.t(), rows)
        row_sum = passes[0].sum(dim=0, dtype=torch.float32) + passes[1].sum(dim=0, dtype=torch.float32)
        if weight_gradient is not None:
            weight_gradient.mul_(-share).sub_(uniform * row_sum)
        negative, label_logits, divergence = sums
        # The logarithm of a row's normaliser is its negative log-likelihood plus the label's logit.
        likelihood = negative / 2
        loss = likelihood + smoothing / 2 * label_logits - uniform * (row_sum @ table_sum) + share * divergence
        ctx.hidden_dtype, ctx.weight_dtype = first.dtype, weight.dtype
        ctx.save_for_backward(*gradients, weight_gradient)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        first, second, weight = ctx.saved_tensors
        return (
            (first.float() * loss_gradient).to(ctx.hidden_dtype),
            (second.float() * loss_gradient).to(ctx.hidden_dtype),
            (weight * loss_gradient).to(ctx.weight_dtype),
            *[None] * 5,
        )


class _Part:
    """The work on the logits of a few rows, [2, n, V], in memory that is used again: fresh memory costs a pass itself.

    With d = log p - log q, the divergence of a row, KL(p || q) + KL(q || p), is E_p[d] - E_q[d]. Its gradient by the
    first logits is p (d - E_p[d]) + p - q; by the second, q (E_q[d] - d) + q - p.
    """

    def __init__(self, size: int, table: Tensor, share: float, smoothing: float, needs_gradient: bool) -> None:
        self.size = size
        self.share = share
        self.label_share = (1.0 - smoothing) / 2
        self.needs_gradient = needs_gradient
        width = table.size(0)
        self.work = torch.empty(2 * size, width, dtype=torch.float32, device=table.device)
        self.logs = torch.empty_like(self.work)
        self.difference = torch.empty_like(self.work[:size])

    def replace(self, logits: Tensor, labels: Tensor) -> Tensor:
        """[negative log-likelihood, label's logits, divergence], summed over rows and passes.

        In the place of the logits it leaves their gradient divided by -share, but for the smoothing's constant.
        """
        count = labels.size(0)
        label = labels[:, None].expand(2, count, 1)
        work = self.work[: 2 * count].view_as(logits).copy_(logits)
        logs, difference = self.logs[: 2 * count].view_as(work), self.difference[:count]
        label_logit = work.gather(2, label)
        torch.log_softmax(work, dim=2, out=logs)
        negative = -logs.gather(2, label)
        torch.sub(logs[0], logs[1], out=difference)
        p, q = distribution = logs.exp_()
        torch.mul(distribution, difference, out=work)
        first_mean, second_mean = work.sum(dim=2, keepdim=True)  # E_p[d], E_q[d]
        if self.needs_gradient:
            # q - p (d - E_p[d] + own) and p + q (d - E_q[d] - own): after the division, one multiply-add for each pass.
            own = 1.0 + 0.5 / self.share
            torch.addcmul(q, p, difference.add_(own - first_mean), value=-1.0, out=work[0])
            torch.addcmul(p, q, difference.sub_(2.0 * own + second_mean - first_mean), out=work[1])
            work.scatter_add_(2, label, work.new_full((1, 1, 1), self.label_share / self.share).expand(2, count, 1))
            logits.copy_(work)
        return torch.stack((negative.sum(), label_logit.sum(), (first_mean - second_mean).sum()))
