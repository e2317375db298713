"""The encoder-decoder Transformer of "Attention Is All You Need" (Vaswani et al. 2017, Figure 1)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from transformer.config import ModelConfig
from transformer.nn.embeddings import StackInput
from transformer.nn.layers import DecoderLayer, EncoderLayer
from transformer.nn.masks import causal_mask, decoder_mask, key_mask, padding_mask
from transformer.nn.state import DecoderState


class Encoder(nn.Module):
    """A stack of encoder layers, whose children are named by their number: ``encoder.2.self_attn``."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        for index in range(config.encoder_layers):
            self.add_module(str(index), EncoderLayer(config))
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps) if config.norm_first else nn.Identity()

    def __iter__(self) -> Iterator[EncoderLayer]:
        return (child for child in self.children() if isinstance(child, EncoderLayer))

    def forward(self, x: Tensor, source_mask: Tensor) -> Tensor:
        """[B, S, D], mask bool [B, S] -> memory [B, S, D]"""
        mask = key_mask(source_mask)
        for layer in self:
            x = layer(x, mask)
        normalised: Tensor = self.norm(x)
        return normalised


class Decoder(nn.Module):
    """A stack of decoder layers, whose children are named by their number: ``decoder.0.cross_attn``."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        for index in range(config.decoder_layers):
            self.add_module(str(index), DecoderLayer(config))
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps) if config.norm_first else nn.Identity()

    def __iter__(self) -> Iterator[DecoderLayer]:
        return (child for child in self.children() if isinstance(child, DecoderLayer))

    def forward(self, x: Tensor, memory: Tensor, source_mask: Tensor, target_mask: Tensor | None) -> Tensor:
        """All positions at once: [B, T, D], memory [B, S, D], masks [B, S] and [B, T] -> [B, T, D].

        Without a target mask the causal mask alone applies. That is all a target needs that is padded behind its end:
        no real position sees what comes after it.
        """
        cross_mask = key_mask(source_mask)
        causal = target_mask is None
        self_mask = causal_mask(x.size(1), x.device) if target_mask is None else decoder_mask(target_mask)
        for layer in self:
            x = layer(
                x,
                lambda y, layer=layer: layer.self_attn(y, y, self_mask, causal),
                lambda y, layer=layer: layer.cross_attn(y, memory, cross_mask),
            )
        normalised: Tensor = self.norm(x)
        return normalised

    def step(self, x: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """One more position: x [N, 1, D] and the state so far -> ([N, 1, D], the state with this position)."""
        grown: list[Tensor] = []
        for index, layer in enumerate(self):
            cross_keys, cross_values, source_mask = state.of_every_row(index)

            def self_attention(y: Tensor, layer: DecoderLayer = layer, index: int = index) -> Tensor:
                newest = torch.stack(layer.self_attn.project_keys_values(y), dim=1)
                grown.append(torch.cat((state.own[:, index], newest), dim=3))
                keys, values = grown[-1].unbind(1)
                return layer.self_attn.attend(y, keys, values, None)

            def cross_attention(
                y: Tensor,
                layer: DecoderLayer = layer,
                keys: Tensor = cross_keys,
                values: Tensor = cross_values,
                mask: Tensor = source_mask,
            ) -> Tensor:
                return layer.cross_attn.attend(y, keys, values, key_mask(mask))

            x = layer(x, self_attention, cross_attention)
        return self.norm(x), state.grown(torch.stack(grown, dim=1))


class Transformer(nn.Module):
    """Encoder, decoder, and the linear map to the vocabulary; see ModelConfig for what can be varied.

    Public parameter names (they are also the names in a checkpoint) and probe names follow the module paths.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.source_input = StackInput(config)
        self.target_input = StackInput(config)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.projection = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self._initialise()
        if config.tie_embeddings == "all":
            self.target_input.lookup.weight = self.source_input.lookup.weight
        if config.tie_embeddings != "none":
            self.projection.weight = self.target_input.lookup.weight

    def _initialise(self) -> None:
        """Xavier-uniform matrices and zero biases; the matrices on the way into the residual stream get a gain below 1.

        With a gain of 1 every sublayer adds about as much as the stream holds, most of it the same for all positions
        (attention begins as an average), and the normalisation behind it shrinks what tells positions apart: four
        post-norm layers later all of them are nearly one vector, and training does not bring them back. The gains are
        those of Wang et al. 2022 ("DeepNet", Section 4), whose residual factor is not used: the layers are the paper's.
        """
        encoder_layers, decoder_layers = self.config.encoder_layers, self.config.decoder_layers
        gains = {
            "encoder": 0.87 * (encoder_layers**4 * decoder_layers) ** (-1 / 16),
            "decoder": (12 * decoder_layers) ** (-1 / 4),
        }
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                stack, last = name.split(".")[0], name.split(".")[-1]
                inward = last in ("value", "output", "inner", "outer")
                nn.init.xavier_uniform_(module.weight, gain=gains[stack] if inward else 1.0)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Source ids [B, S] -> memory [B, S, D]. Without a mask, every ``<PAD>`` is padding."""
        mask = padding_mask(source) if source_mask is None else source_mask
        memory: Tensor = self.encoder(self.source_input(source), mask)
        return memory

    def decode(self, target: Tensor, memory: Tensor, source_mask: Tensor, target_mask: Tensor | None = None) -> Tensor:
        """Decoder input ids [B, T] (shifted right behind ``<SOS>``) -> hidden states [B, T, D] of every position."""
        mask = padding_mask(target) if target_mask is None else target_mask
        hidden: Tensor = self.decoder(self.target_input(target), memory, source_mask, mask)
        return hidden

    def hidden(
        self, source: Tensor, target: Tensor, source_mask: Tensor | None = None, target_mask: Tensor | None = None
    ) -> Tensor:
        """The decoder's last hidden states [B, T, D], before the projection to the vocabulary."""
        mask = padding_mask(source) if source_mask is None else source_mask
        return self.decode(target, self.encode(source, mask), mask, target_mask)

    def training_hidden(self, source: Tensor, target: Tensor) -> Tensor:
        """``hidden`` of a batch whose targets are padded behind their ends, where hidden states mean nothing."""
        mask = padding_mask(source)
        hidden: Tensor = self.decoder(self.target_input(target), self.encode(source, mask), mask, None)
        return hidden

    def forward(
        self, source: Tensor, target: Tensor, source_mask: Tensor | None = None, target_mask: Tensor | None = None
    ) -> Tensor:
        """Source [B, S] and decoder input [B, T] -> logits [B, T, V]; position t predicts the piece after target[t]."""
        return self.project(self.hidden(source, target, source_mask, target_mask))

    def project(self, hidden: Tensor) -> Tensor:
        """[..., D] -> logits [..., V]"""
        logits: Tensor = self.projection(hidden)
        return logits

    def start(self, memory: Tensor, source_mask: Tensor) -> DecoderState:
        """The state before the first step: keys and values of the memory [N, S, D] computed once, nothing decoded."""
        cross = [torch.stack(layer.cross_attn.project_keys_values(memory), dim=1) for layer in self.decoder]
        return DecoderState.start(torch.stack(cross, dim=1), source_mask)

    def step(self, last: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Decode one position: last ids [N] -> (hidden [N, D], new state). The old state stays usable."""
        x = self.target_input(last[:, None], state.length)
        x, grown = self.decoder.step(x, state)
        return x[:, 0], grown
