"""Encoding and one step of decoding for when nobody looks: the same functions in as few operations as possible.

A step of a search is small work done often, so what it costs is mostly the number of operations and the copying of
caches. Here query, key and value are one product, the caches of all layers lie in one tensor, modules and probes are
passed by, and the rows of a beam, which translate the same source, are queries side by side to one copy of its keys.
"""

from __future__ import annotations

from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.nn.attention import MultiHeadAttention
from transformer.nn.layers import DecoderLayer, EncoderLayer, FeedForward
from transformer.nn.model import Transformer
from transformer.nn.state import DecoderState, bias_of


class Quick:
    """A model as in evaluation mode, with its weights as they are now: training on does not reach it. It feeds no
    probes."""

    def __init__(self, model: Transformer) -> None:
        self._model = model
        self._encoder = [(_joined(_own(layer.self_attn)), layer) for layer in model.encoder]
        self._decoder = [(_joined(_own(layer.self_attn)), layer) for layer in model.decoder]
        # Keys and values of the memory for all decoder layers at once, in the order of ``DecoderState.source``.
        self._memory = _joined(
            list(chain.from_iterable((layer.cross_attn.key, layer.cross_attn.value) for layer in model.decoder))
        )
        self._heads, self._size = model.config.heads, model.config.head_width
        self._first = model.config.norm_first

    def start(self, source: Tensor, mask: Tensor) -> DecoderState:
        """Source ids [B, S], real where ``mask`` says so -> the state before the first step.

        As ``model.start(model.encode(source, mask), mask)``.
        """
        batch, length = source.shape
        entering = self._model.source_input
        positions = entering.position_table(0, length)
        x = F.embedding(source, entering.lookup.weight) * entering.scale + positions
        bias = bias_of(mask, x.dtype)
        for joined, layer in self._encoder:
            y = _normed(x, layer.self_attn_norm) if self._first else x
            inward = F.linear(y, *joined).view(batch, length, 3, self._heads, self._size)
            queries, keys, values = inward.permute(2, 0, 3, 1, 4)
            seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
            y = _through(seen.transpose(1, 2).reshape(x.shape), layer.self_attn.output)
            x = self._added(x, y, layer.self_attn_norm)
            x = self._forward(x, layer)
        memory = F.linear(self._model.encoder.norm(x), *self._memory)
        split = memory.view(batch, length, len(self._decoder), 2, self._heads, self._size)
        return DecoderState.start(split.permute(0, 2, 3, 4, 1, 5).contiguous(), mask)

    def step(self, last: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """As ``Transformer.step``: last ids [N] -> (hidden [N, D], new state). The old state stays usable."""
        rows, time = last.size(0), state.length
        entering = self._model.target_input
        x = F.embedding(last, entering.lookup.weight) * entering.scale + entering.position_table(time, 1)
        own = torch.cat((state.own, state.own.new_empty(*state.own.shape[:4], 1, self._size)), dim=4)
        for number, (joined, layer) in enumerate(self._decoder):
            y = _normed(x, layer.self_attn_norm) if self._first else x
            inward = F.linear(y, *joined).view(rows, 3, self._heads, 1, self._size)
            cache = own[:, number]
            cache[:, :, :, time:] = inward[:, 1:]
            seen = F.scaled_dot_product_attention(inward[:, 0], cache[:, 0], cache[:, 1])
            x = self._added(x, _through(seen.view(rows, -1), layer.self_attn.output), layer.self_attn_norm)
            y = _normed(x, layer.cross_attn_norm) if self._first else x
            x = self._added(x, self._cross(y, layer, state, number), layer.cross_attn_norm)
            x = self._forward(x, layer)
        hidden: Tensor = self._model.decoder.norm(x)
        return hidden, state.grown(own)

    def _cross(self, y: Tensor, layer: DecoderLayer, state: DecoderState, number: int) -> Tensor:
        """Cross-attention [N, D] -> [N, D], the rows of a source as queries of one attention."""
        queries = _through(y, layer.cross_attn.query).view(-1, state.width, self._heads, self._size).transpose(1, 2)
        memory = state.source[:, number]
        seen = F.scaled_dot_product_attention(queries, memory[:, 0], memory[:, 1], attn_mask=state.source_bias)
        return _through(seen.transpose(1, 2).reshape(y.shape), layer.cross_attn.output)

    def _forward(self, x: Tensor, layer: EncoderLayer | DecoderLayer) -> Tensor:
        """The feed-forward sublayer."""
        network: FeedForward = layer.feed_forward
        y = _normed(x, layer.feed_forward_norm) if self._first else x
        y = network.activation(_through(y, network.inner))
        return self._added(x, _through(y, network.outer), layer.feed_forward_norm)

    def _added(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
        """The residual connection, and behind it, in the paper's order, the normalisation."""
        return x + y if self._first else _normed(x + y, norm)


def _own(attention: MultiHeadAttention) -> list[nn.Linear]:
    return [attention.query, attention.key, attention.value]


def _joined(layers: list[nn.Linear]) -> tuple[Tensor, Tensor]:
    """Weights and biases of several maps of the same input, below each other."""
    return torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])


def _through(x: Tensor, layer: nn.Linear) -> Tensor:
    return F.linear(x, layer.weight, layer.bias)


def _normed(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
