"""One encoder layer and one decoder layer (paper, Section 3.1, Figure 1)."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config import ModelConfig
from transformer.nn.attention import MultiHeadAttention
from transformer.nn.dropout import Dropout
from transformer.nn.probe import Probe


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2 at every position alike (paper, Section 3.3). Probe: ``hidden`` [B, T, F]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.feed_forward)
        self.outer = nn.Linear(config.feed_forward, config.d_model)
        self.activation: Callable[[Tensor], Tensor] = F.relu if config.activation == "relu" else F.gelu
        self.dropout = Dropout(config.activation_dropout)
        self.hidden = Probe()

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]"""
        hidden: Tensor = self.hidden(self.activation(self.inner(x)))
        result: Tensor = self.outer(self.dropout(hidden))
        return result


class _ResidualLayer(nn.Module):
    """What encoder and decoder layers share: a residual connection and a layer normalisation around a sublayer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.dropout = Dropout(config.dropout)

    def add(self, x: Tensor, norm: nn.LayerNorm, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """LayerNorm(x + Sublayer(x)), the paper's order; with ``norm_first`` x + Sublayer(LayerNorm(x))."""
        if self.norm_first:
            return self.dropout.added_to(x, sublayer(norm(x)))
        normalised: Tensor = norm(self.dropout.added_to(x, sublayer(x)))
        return normalised


class EncoderLayer(_ResidualLayer):
    """Self-attention, then feed-forward. Probes of the residual stream [B, S, D]: ``stream_in``,
    ``stream_after_self_attn``, ``stream_after_feed_forward``."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.self_attn = MultiHeadAttention(config.d_model, config.heads, config.attention_dropout)
        self.self_attn_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.stream_in = Probe()
        self.stream_after_self_attn = Probe()
        self.stream_after_feed_forward = Probe()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """[B, S, D], mask [B, 1, 1, S] -> [B, S, D]"""
        x = self.stream_in(x)
        x = self.add(x, self.self_attn_norm, lambda y: self.self_attn(y, y, mask))
        x = self.stream_after_self_attn(x)
        leaving: Tensor = self.stream_after_feed_forward(self.add(x, self.feed_forward_norm, self.feed_forward))
        return leaving


class DecoderLayer(_ResidualLayer):
    """Masked self-attention, cross-attention, feed-forward. Probes of the residual stream [B, T, D]: ``stream_in``,
    ``stream_after_self_attn``, ``stream_after_cross_attn``, ``stream_after_feed_forward``."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.self_attn = MultiHeadAttention(config.d_model, config.heads, config.attention_dropout)
        self.self_attn_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.cross_attn = MultiHeadAttention(config.d_model, config.heads, config.attention_dropout)
        self.cross_attn_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.stream_in = Probe()
        self.stream_after_self_attn = Probe()
        self.stream_after_cross_attn = Probe()
        self.stream_after_feed_forward = Probe()

    def forward(
        self,
        x: Tensor,
        self_attention: Callable[[Tensor], Tensor],
        cross_attention: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """[B, T, D] -> [B, T, D].

        The two attentions come as functions of the (possibly normalised) stream because their keys and values come from
        the whole target and memory in a full pass, but from the decoder state in a step; the layer is the same.
        """
        x = self.stream_in(x)
        x = self.stream_after_self_attn(self.add(x, self.self_attn_norm, self_attention))
        x = self.stream_after_cross_attn(self.add(x, self.cross_attn_norm, cross_attention))
        leaving: Tensor = self.stream_after_feed_forward(self.add(x, self.feed_forward_norm, self.feed_forward))
        return leaving
