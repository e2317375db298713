"""The same model, weight for weight, in the toolkits that people decode with: Hugging Face and CTranslate2."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.baselines import Marian
from transformer.config import SPECIAL_PIECES
from transformer.nn.attention import MultiHeadAttention
from transformer.nn.model import Transformer

BOUND = {"int8": "int8", "float32": None}
"""Names of CTranslate2's quantisations, by what the figures are called."""


def ctranslate2_is_installed() -> bool:
    """Whether it is; the product does not need it."""
    return importlib.util.find_spec("ctranslate2") is not None


def marian_of(model: Transformer) -> Marian:
    """A ``MarianMTModel`` that computes what ``model`` computes (post-norm, ReLU, tied, sinusoidal: the paper's)."""
    peer = Marian(model.config).eval()
    inner: Any = peer.model.model
    with torch.no_grad():
        inner.shared.weight.copy_(model.projection.weight)
        for theirs, ours in ((inner.encoder, model.source_input), (inner.decoder, model.target_input)):
            theirs.embed_positions.weight.copy_(ours.position_table.table)
        for theirs, ours in _layer_pairs(inner, model):
            for name, part in _parts(theirs, ours):
                part.weight.copy_(name.weight)
                part.bias.copy_(name.bias)
    peer.model.tie_weights()
    return peer


def _layer_pairs(inner: Any, model: Transformer) -> Iterator[tuple[Any, Any]]:
    yield from zip(inner.encoder.layers, model.encoder, strict=True)
    yield from zip(inner.decoder.layers, model.decoder, strict=True)


def _parts(theirs: Any, ours: Any) -> Iterator[tuple[Any, Any]]:
    """(our module, their module) of everything in a layer that has weights."""
    attentions = [("self_attn", "self_attn")]
    if hasattr(theirs, "encoder_attn"):
        attentions.append(("cross_attn", "encoder_attn"))
    for own, other in attentions:
        mine, yours = getattr(ours, own), getattr(theirs, other)
        for part, name in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "out_proj")):
            yield getattr(mine, part), getattr(yours, name)
        yield getattr(ours, f"{own}_norm"), getattr(theirs, f"{other}_layer_norm")
    yield ours.feed_forward.inner, theirs.fc1
    yield ours.feed_forward.outer, theirs.fc2
    yield ours.feed_forward_norm, theirs.final_layer_norm


def piece_names(vocab_size: int) -> list[str]:
    """What CTranslate2, which knows pieces by name, calls piece 0, 1, …"""
    return [*SPECIAL_PIECES, *(str(number) for number in range(len(SPECIAL_PIECES), vocab_size))]


def ctranslate2_of(model: Transformer, folder: Path, kind: str, threads: int) -> Any:
    """A CTranslate2 translator that computes what ``model`` computes.

    Args:
        model: post-norm, ReLU, tied: the paper's.
        folder: for the converted model; it is made.
        kind: ``float32`` or ``int8``.
        threads: that it may use.
    """
    import ctranslate2

    specs = ctranslate2.specs
    config = model.config
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers), config.heads, pre_norm=False
    )
    embedding = _array(model.projection.weight)
    for half, ours in ((spec.encoder, model.source_input), (spec.decoder, model.target_input)):
        lookup = half.embeddings[0] if isinstance(half.embeddings, list) else half.embeddings
        lookup.weight = embedding
        half.scale_embeddings = True
        half.position_encodings.encodings = _array(ours.position_table.table)
    spec.decoder.projection.weight = embedding
    for theirs, ours in (*zip(spec.encoder.layer, model.encoder, strict=True),):
        _attention(theirs.self_attention, ours.self_attn, ours.self_attn_norm, own=True)
        _forward(theirs.ffn, ours)
    for theirs, ours in (*zip(spec.decoder.layer, model.decoder, strict=True),):
        _attention(theirs.self_attention, ours.self_attn, ours.self_attn_norm, own=True)
        _attention(theirs.attention, ours.cross_attn, ours.cross_attn_norm, own=False)
        _forward(theirs.ffn, ours)
    names = piece_names(config.vocab_size)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    _, unknown, begin, end = SPECIAL_PIECES
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = unknown, begin, end
    spec.config.decoder_start_token = begin
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.validate()
    spec.optimize(quantization=BOUND[kind])
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return ctranslate2.Translator(str(folder), compute_type=kind, inter_threads=1, intra_threads=threads)


def _array(weight: torch.Tensor) -> np.ndarray[Any, Any]:
    return weight.detach().float().cpu().numpy()


def _linear(spec: Any, *layers: nn.Linear) -> None:
    spec.weight = np.concatenate([_array(layer.weight) for layer in layers])
    spec.bias = np.concatenate([_array(layer.bias) for layer in layers])


def _norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _attention(spec: Any, attention: MultiHeadAttention, norm: nn.LayerNorm, own: bool) -> None:
    if own:
        _linear(spec.linear[0], attention.query, attention.key, attention.value)
    else:
        _linear(spec.linear[0], attention.query)
        _linear(spec.linear[1], attention.key, attention.value)
    _linear(spec.linear[-1], attention.output)
    _norm(spec.layer_norm, norm)


def _forward(spec: Any, layer: Any) -> None:
    _linear(spec.linear_0, layer.feed_forward.inner)
    _linear(spec.linear_1, layer.feed_forward.outer)
    _norm(spec.layer_norm, layer.feed_forward_norm)
