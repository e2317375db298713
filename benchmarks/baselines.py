"""The same model out of other toolkits, with the training step that a competent user of them writes."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.config import EOS_ID, PAD_ID, SOS_ID, ModelConfig
from transformer.nn.positions import sinusoidal_table
from transformer.text.batching import Batch


class TorchTransformer(nn.Module):
    """``nn.Transformer`` as in PyTorch's tutorial on translation, but with one matrix for all three embeddings.

    Differences to the paper's model that ``nn.Transformer`` brings along: a norm behind each stack, and its one dropout
    rate also falls on attention weights and feed-forward activations.
    """

    positions: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(config.d_model)
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.register_buffer("positions", sinusoidal_table(config.max_length, config.d_model), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = nn.Transformer(
            config.d_model,
            config.heads,
            config.encoder_layers,
            config.decoder_layers,
            config.feed_forward,
            config.dropout,
            batch_first=True,
        )
        self.generator = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.generator.weight = self.embedding.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source [B, S] and decoder input [B, T] -> logits [B, T, V]"""
        source_padding, target_padding = source == PAD_ID, target == PAD_ID
        length = target.size(1)
        hidden = self.transformer(
            self._enter(source),
            self._enter(target),
            tgt_mask=torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1),
            src_key_padding_mask=source_padding,
            tgt_key_padding_mask=target_padding,
            memory_key_padding_mask=source_padding,
        )
        logits: Tensor = self.generator(hidden)
        return logits

    def _enter(self, ids: Tensor) -> Tensor:
        entering: Tensor = self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.size(1)])
        return entering


class Marian(nn.Module):
    """Hugging Face's ``MarianMTModel`` with random weights; nothing is downloaded.

    It is given the decoder's input and returns logits, as ``Seq2SeqTrainer`` uses it with label smoothing: with
    ``labels`` it would compute a loss without smoothing that nobody asked for.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        self.model = MarianMTModel(
            MarianConfig(
                vocab_size=config.vocab_size,
                max_position_embeddings=config.max_length,
                d_model=config.d_model,
                encoder_layers=config.encoder_layers,
                decoder_layers=config.decoder_layers,
                encoder_attention_heads=config.heads,
                decoder_attention_heads=config.heads,
                encoder_ffn_dim=config.feed_forward,
                decoder_ffn_dim=config.feed_forward,
                activation_function="relu",
                dropout=config.dropout,
                scale_embedding=True,
                init_std=config.d_model**-0.5,
                pad_token_id=PAD_ID,
                eos_token_id=EOS_ID,
                forced_eos_token_id=None,
                decoder_start_token_id=SOS_ID,
            )
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source [B, S] and decoder input [B, T] -> logits [B, T, V]"""
        mask = (source != PAD_ID).long()
        logits: Tensor = self.model(source, attention_mask=mask, decoder_input_ids=target, use_cache=False).logits
        return logits


def marian_is_installed() -> bool:
    """Whether Hugging Face's ``transformers`` is; the product does not need it."""
    return importlib.util.find_spec("transformers") is not None


def batch_loss(model: nn.Module, batch: Batch, smoothing: float) -> Tensor:
    """Label-smoothed cross-entropy of a batch, as a mean over its real target pieces."""
    logits = model(batch.source, batch.target_input)
    return F.cross_entropy(
        logits.flatten(0, 1), batch.target_output.flatten(), ignore_index=PAD_ID, label_smoothing=smoothing
    )


def training_step(model: nn.Module, bfloat16: bool, smoothing: float, clip_norm: float) -> Callable[[Batch], float]:
    """One update by a batch, with Adam as PyTorch gives it to everybody; returns the loss."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def step(batch: Batch) -> float:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = batch_loss(model, batch, smoothing)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        return loss.item()

    return step
