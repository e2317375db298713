"""Scaled dot-product attention in two kernels, and the multi-head layer around it (paper, Section 3.2)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.nn.dropout import Dropout
from transformer.nn.probe import Probe, observed


def attention_scores(queries: Tensor, keys: Tensor) -> Tensor:
    """Q K^T / sqrt(d_k): [B, H, T, K] and [B, H, S, K] -> [B, H, T, S], before any mask."""
    return torch.matmul(queries / math.sqrt(queries.size(-1)), keys.transpose(-2, -1))


def attention_pattern(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys that ``mask`` allows: [B, H, T, S] -> [B, H, T, S].

    A row with nothing to attend to is all zeros. (A softmax of only -inf would be NaN, and -1e9 instead of -inf would
    silently make such a row uniform; the lowest finite number and a product with the mask give neither.)
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def fused_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """The same result from PyTorch's fused kernel, without ever holding the pattern. [B, H, T, K].

    ``causal`` says that ``mask`` is the causal mask and nothing else: told so instead of shown it, a GPU has its
    quickest kernel. ``dropout`` is the probability of dropping a weight of the pattern.
    """
    if causal:
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=True, dropout_p=dropout)
    if mask is None:
        return F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout)
    attended = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=dropout)
    # Kernels differ in what they give a row that may attend to nothing; the law here is zero.
    return attended.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


def training_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: Dropout) -> Tensor:
    """The same once more, for training on a CPU: at the lengths of sentences three plain products and a softmax are
    quicker than the fused kernel, which has to recompute the pattern for the gradient. [B, H, T, K].

    The mask goes in as the addend of the first product, the softmax is float32 even under autocast (a bfloat16 one is
    several times slower), and the pattern can be dropped out.
    """
    batch, heads, length, width = queries.shape
    shape = (batch * heads, length, keys.size(2))
    if mask is None:
        addend = queries.new_zeros(1, 1, 1)
    else:
        lowest = torch.finfo(queries.dtype).min / 2  # half, so that adding to it stays finite
        addend = torch.zeros_like(mask, dtype=queries.dtype).masked_fill_(~mask, lowest)
        addend = addend.expand(batch, heads, length, keys.size(2)).reshape(shape)
    scores = torch.baddbmm(
        addend, queries.flatten(0, 1), keys.flatten(0, 1).transpose(1, 2), alpha=1.0 / math.sqrt(width)
    )
    pattern = torch.softmax(scores, dim=-1, dtype=torch.float32).view(batch, heads, length, -1)
    if mask is not None and not bool(mask.any(dim=-1).all()):
        pattern = pattern * mask  # a row with nothing to attend to is all zeros
    return torch.matmul(dropout(pattern.to(values.dtype)), values)


class MultiHeadAttention(nn.Module):
    """H attentions of width K side by side: Concat(head_1 … head_H) W^O (paper, Section 3.2.2).

    Probes: ``query_heads`` [B, H, T, K], ``key_heads`` and ``value_heads`` [B, H, S, K], ``scores`` [B, H, T, S]
    (scaled, before the mask), ``mask`` (bool, broadcastable to the scores), ``pattern`` [B, H, T, S] (after the
    softmax, before dropout) and ``head_output`` [B, H, T, K].
    """

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        self.dropout = Dropout(dropout)
        self.query_heads = Probe()
        self.key_heads = Probe()
        self.value_heads = Probe()
        self.scores = Probe()
        self.mask = Probe()
        self.pattern = Probe()
        self.head_output = Probe()

    def forward(self, query_input: Tensor, key_input: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        """Attend from ``query_input`` [B, T, D] to ``key_input`` [B, S, D]: [B, T, D].

        ``mask`` is bool, broadcastable to [B, H, T, S]; None allows everything. ``causal`` says that it is the causal
        mask alone.
        """
        if self.training and not observed():
            return self._mix(self._train(query_input, key_input, mask, causal))
        keys, values = self.project_keys_values(key_input)
        return self.attend(query_input, keys, values, mask)

    def project_keys_values(self, key_input: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of all heads, [B, S, D] -> two of [B, H, S, K]; what a decoder state keeps."""
        return self._split(self.key(key_input)), self._split(self.value(key_input))

    def attend(self, query_input: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from [B, T, D] to keys and values that are already projected, [B, H, S, K]: [B, T, D]."""
        queries = self._split(self.query(query_input))
        if observed():
            return self._mix(self._attend_in_view(queries, keys, values, mask))
        return self._mix(fused_attention(queries, keys, values, mask))

    def _mix(self, attended: Tensor) -> Tensor:
        """The heads side by side, through W^O: [B, H, T, K] -> [B, T, D]"""
        mixed: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return mixed

    def _train(self, query_input: Tensor, key_input: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """Attention while training: [B, H, T, K]. Projections of the same input are one product."""
        if query_input is key_input:
            queries, keys, values = self._project(query_input, self.query, self.key, self.value)
        else:
            (queries,) = self._project(query_input, self.query)
            keys, values = self._project(key_input, self.key, self.value)
        if queries.device.type == "cpu":
            return training_attention(queries, keys, values, mask, self.dropout)
        return fused_attention(queries, keys, values, mask, causal, self.dropout.rate)

    def _project(self, x: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
        """[B, T, D] -> for each layer [B, H, T, K], contiguous"""
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        batch, length, width = x.shape
        projected = F.linear(x, weight, bias).view(batch, length, len(layers), self.heads, width // self.heads)
        return projected.permute(2, 0, 3, 1, 4).contiguous().unbind()

    def _attend_in_view(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        queries, keys, values = self.query_heads(queries), self.key_heads(keys), self.value_heads(values)
        scores = self.scores(attention_scores(queries, keys))
        if mask is None:
            mask = torch.ones(1, 1, 1, scores.size(-1), dtype=torch.bool, device=scores.device)
        mask = self.mask(mask)
        pattern = self.pattern(attention_pattern(scores, mask))
        head_output: Tensor = self.head_output(torch.matmul(self.dropout(pattern), values))
        return head_output

    def _split(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, K]"""
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
