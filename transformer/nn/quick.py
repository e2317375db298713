"""Encoding and one step of decoding for when nobody looks: the same functions in as few operations as possible.

A step of a search is small work done often, so what it costs is mostly the number of operations and the copying of
caches. Here query, key and value are one product, the caches of all layers lie in one tensor, modules and probes are
passed by, and the rows of a beam, which translate the same source, are queries side by side to one copy of its keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.nn.layers import DecoderLayer, EncoderLayer
from transformer.nn.model import Transformer
from transformer.nn.state import DecoderState, bias_of


@dataclass(frozen=True, slots=True)
class _Linear:
    """Weight and bias of a linear map, or of several with the same input, below each other."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, *layers: nn.Linear) -> _Linear:
        if len(layers) == 1:
            return cls(layers[0].weight, layers[0].bias)
        return cls(torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers]))

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class _Norm:
    """A layer normalisation."""

    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> _Norm:
        return cls(norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


class _Layer:
    """What every layer has: self-attention and feed-forward. Reading a module's attributes costs as much as a small
    operation, so they are read once."""

    def __init__(self, layer: EncoderLayer | DecoderLayer) -> None:
        own, network = layer.self_attn, layer.feed_forward
        self.inward = _Linear.of(own.query, own.key, own.value)
        self.output = _Linear.of(own.output)
        self.norm = _Norm.of(layer.self_attn_norm)
        self.inner, self.outer = _Linear.of(network.inner), _Linear.of(network.outer)
        self.activation: Callable[[Tensor], Tensor] = network.activation
        self.forward_norm = _Norm.of(layer.feed_forward_norm)


class _Crossing(_Layer):
    """What a layer of the decoder has besides; keys and values of the memory are computed for all layers at once."""

    def __init__(self, layer: DecoderLayer) -> None:
        super().__init__(layer)
        self.query = _Linear.of(layer.cross_attn.query)
        self.cross_output = _Linear.of(layer.cross_attn.output)
        self.cross_norm = _Norm.of(layer.cross_attn_norm)


class Quick:
    """A model as in evaluation mode, with its weights as they are now: training on does not reach it. It feeds no
    probes."""

    def __init__(self, model: Transformer) -> None:
        self._model = model
        self._encoder = [_Layer(layer) for layer in model.encoder]
        self._decoder = [_Crossing(layer) for layer in model.decoder]
        crossing = [layer.cross_attn for layer in model.decoder]
        self._memory = _Linear.of(*chain.from_iterable((each.key, each.value) for each in crossing))
        self._heads, self._size = model.config.heads, model.config.head_width
        self._first = model.config.norm_first

    def start(self, source: Tensor, mask: Tensor) -> DecoderState:
        """Source ids [B, S], real where ``mask`` says so -> the state before the first step.

        As ``model.start(model.encode(source, mask), mask)``.
        """
        batch, length = source.shape
        entering = self._model.source_input
        x = F.embedding(source, entering.lookup.weight) * entering.scale + entering.position_table(0, length)
        bias = bias_of(mask, x.dtype)
        for layer in self._encoder:
            inward = layer.inward(layer.norm(x) if self._first else x)
            queries, keys, values = inward.view(batch, length, 3, self._heads, self._size).permute(2, 0, 3, 1, 4)
            seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
            x = self._added(x, layer.output(seen.transpose(1, 2).reshape(x.shape)), layer.norm)
            x = self._forward(x, layer)
        memory = self._memory(self._model.encoder.norm(x))
        split = memory.view(batch, length, len(self._decoder), 2, self._heads, self._size)
        return DecoderState.start(split.permute(0, 2, 3, 4, 1, 5).contiguous(), mask)

    def step(self, last: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """As ``Transformer.step``: last ids [N] -> (hidden [N, D], new state). The old state stays usable."""
        rows, time = last.size(0), state.length
        entering = self._model.target_input
        x = F.embedding(last, entering.lookup.weight) * entering.scale + entering.position_table(time, 1)
        own = torch.cat((state.own, state.own.new_empty(*state.own.shape[:4], 1, self._size)), dim=4)
        caches, memories = own.unbind(1), state.source.unbind(1)
        for layer, cache, memory in zip(self._decoder, caches, memories, strict=True):
            inward = layer.inward(layer.norm(x) if self._first else x).view(rows, 3, self._heads, 1, self._size)
            cache[:, :, :, time:] = inward[:, 1:]
            seen = F.scaled_dot_product_attention(inward[:, 0], cache[:, 0], cache[:, 1])
            x = self._added(x, layer.output(seen.view(rows, -1)), layer.norm)
            x = self._added(x, self._cross(x, layer, memory, state), layer.cross_norm)
            x = self._forward(x, layer)
        hidden: Tensor = self._model.decoder.norm(x)
        return hidden, state.grown(own)

    def _cross(self, x: Tensor, layer: _Crossing, memory: Tensor, state: DecoderState) -> Tensor:
        """Cross-attention [N, D] -> [N, D], the rows of a source as queries of one attention."""
        queries = layer.query(layer.cross_norm(x) if self._first else x)
        queries = queries.view(-1, state.width, self._heads, self._size).transpose(1, 2)
        seen = F.scaled_dot_product_attention(queries, memory[:, 0], memory[:, 1], attn_mask=state.source_bias)
        return layer.cross_output(seen.transpose(1, 2).reshape(x.shape))

    def _forward(self, x: Tensor, layer: _Layer) -> Tensor:
        """The feed-forward sublayer."""
        y = layer.forward_norm(x) if self._first else x
        return self._added(x, layer.outer(layer.activation(layer.inner(y))), layer.forward_norm)

    def _added(self, x: Tensor, y: Tensor, norm: _Norm) -> Tensor:
        """The residual connection, and behind it, in the paper's order, the normalisation."""
        return x + y if self._first else norm(x + y)
