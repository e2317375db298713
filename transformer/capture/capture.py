"""One teacher-forced pass under observation: from ids to arrays, and from arrays to a checked record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.capture.checks import CapturedPass, run_checks
from transformer.capture.names import attention_module, attention_probe, stream_probe
from transformer.capture.norms import value_norms
from transformer.capture.record import KINDS, AttentionRecord, BoolArray, FloatArray
from transformer.capture.residual import attention_output, kept_share
from transformer.capture.sink import Recorder, to_numpy
from transformer.config import PAD_ID, SOS_ID
from transformer.errors import InputError, problem
from transformer.nn.probe import probe_names, watching

if TYPE_CHECKING:
    from transformer.nn.model import Transformer
    from transformer.text.tokenizer import Piece

PADDING = 2
"""``<PAD>`` pieces put behind both sequences of a recorded pass, so that "nothing on padding" is measured."""


def capture(
    model: Transformer, source_ids: Sequence[int], target_ids: Sequence[int], names: Iterable[str]
) -> dict[str, NDArray[np.generic]]:
    """What the named probes saw in one pass over a source and a decoder input, both as they are.

    Args:
        model: one whose hooks are registered (``transformer.load`` does it); it is run in evaluation mode.
        source_ids: S ids with ``<SOS>`` and ``<EOS>``.
        target_ids: T ids of the decoder input, ``<SOS>`` first.
        names: dotted probe names, for example ``decoder.2.cross_attn.scores``.

    Returns:
        By name, without batch axis: float32 arrays, bool for masks (broadcastable to their scores).

    Raises:
        InputError: a name that is no probe of this model.
    """
    wanted = list(dict.fromkeys(names))
    known = set(probe_names(model))
    for name in wanted:
        if name not in known:
            raise InputError(problem("probe", "must be one of the model's", name, "see transformer.nn.probe_names"))
    values, _ = _observed_pass(model, source_ids, target_ids, wanted)
    # Positions [T, D] are the only values that no batch axis leads.
    return {name: value[0] if value.ndim > 2 else value for name, value in values.items()}


def record_attention(
    model: Transformer,
    source: Sequence[Piece],
    target_output: Sequence[Piece],
    *,
    start: Piece,
    source_text: str,
    target_text: str,
    checkpoint_sha256: str,
) -> AttentionRecord:
    """Run the model once over a source and what it shall write, and return every attention map with its checks.

    Two passes run: one observed, with the explicit softmax and ``PADDING`` pieces behind both sequences (as many as the
    model's length has room for), which gives the record; and one as the model runs when nobody looks, to compare.

    Args:
        model: one whose hooks are registered.
        source: S pieces with ``<SOS>`` and ``<EOS>``.
        target_output: T >= 1 pieces, what each row writes; ends with ``<EOS>`` if the target is complete.
        start: the piece that the decoder reads first, ``<SOS>``.
        source_text: the source as typed.
        target_text: the target as a person reads it.
        checkpoint_sha256: hash of the weights.
    """
    target_input = (start, *target_output[:-1])
    source_ids = [piece.id for piece in source]
    input_ids = [SOS_ID, *(piece.id for piece in target_output[:-1])]
    output_ids = [piece.id for piece in target_output]
    config = model.config
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers, "cross": config.decoder_layers}
    names = [
        attention_probe(kind, layer, quantity)
        for kind in KINDS
        for layer in range(layers[kind])
        for quantity in ("pattern", "value_heads", "head_output")
    ]
    streams = [stream_probe(kind, layer) for kind in KINDS for layer in range(layers[kind])]
    masks = [attention_probe("decoder", layer, "mask") for layer in range(config.decoder_layers)]
    longest = config.max_length
    padded = _padded(source_ids, longest), _padded(input_ids, longest)
    values, observed_logits = _observed_pass(model, *padded, [*names, *streams, *masks])
    fused_logits = _unobserved_logits(model, source_ids, input_ids)
    passed = CapturedPass(
        maps={kind: _stacked(values, kind, layers[kind], "pattern") for kind in KINDS},
        causal_masks=cast(BoolArray, np.stack([values[name][0, 0] for name in masks])),
        source_length=len(source_ids),
        target_length=len(input_ids),
        explicit_logits=cast(FloatArray, to_numpy(observed_logits[: len(input_ids)])),
        fused_logits=cast(FloatArray, to_numpy(fused_logits)),
        value_norms={kind: _norms(model, kind, _stacked(values, kind, layers[kind], "value_heads")) for kind in KINDS},
    )
    log_probs = torch.log_softmax(observed_logits[: len(output_ids)].float(), dim=-1)
    chosen = log_probs.gather(1, torch.tensor(output_ids, device=log_probs.device)[:, None])[:, 0]
    length = len(input_ids)
    return AttentionRecord(
        source_text=source_text,
        target_text=target_text,
        source=tuple(source),
        target_input=target_input,
        target_output=tuple(target_output),
        log_probs=cast(FloatArray, to_numpy(chosen)),
        encoder=passed.real("encoder").copy(),
        decoder=passed.real("decoder").copy(),
        cross=passed.real("cross").copy(),
        causal_mask=passed.causal_masks[0, :length, :length].copy(),
        checkpoint_sha256=checkpoint_sha256,
        checks=run_checks(passed, [piece.label for piece in source], [piece.label for piece in target_input]),
        value_norms={kind: passed.real_norms(kind).copy() for kind in KINDS},
        kept_shares={kind: _kept(model, values, kind, layers[kind])[:, : passed.lengths(kind)[0]] for kind in KINDS},
    )


def _stacked(values: dict[str, NDArray[np.generic]], kind: str, layers: int, quantity: str) -> FloatArray:
    """What the probes of one kind saw: [L, H, ...]"""
    return cast(FloatArray, np.stack([values[attention_probe(kind, layer, quantity)][0] for layer in range(layers)]))


def _norms(model: Transformer, kind: str, values: FloatArray) -> FloatArray:
    """[L, H, S, K] -> [L, H, S]"""
    paths = [f"{attention_module(kind, layer)}.output.weight" for layer in range(len(values))]
    weights = [cast(FloatArray, to_numpy(model.get_parameter(path))) for path in paths]
    return np.stack([value_norms(*pair) for pair in zip(values, weights, strict=True)])


def _kept(model: Transformer, values: dict[str, NDArray[np.generic]], kind: str, layers: int) -> FloatArray:
    """[L, T'] of one kind, padding included"""
    shares = []
    for layer in range(layers):
        path = f"{attention_module(kind, layer)}.output"
        weight, bias = (
            cast(FloatArray, to_numpy(model.get_parameter(f"{path}.{name}"))) for name in ("weight", "bias")
        )
        heads = cast(FloatArray, values[attention_probe(kind, layer, "head_output")][0])
        stream = cast(FloatArray, values[stream_probe(kind, layer)][0])
        shares.append(kept_share(stream, attention_output(heads, weight, bias)))
    return np.stack(shares)


def _observed_pass(
    model: Transformer, source_ids: Sequence[int], target_ids: Sequence[int], names: Iterable[str]
) -> tuple[dict[str, NDArray[np.generic]], Tensor]:
    """Values of the named probes with batch axis, and logits [T, V], of one pass with the explicit kernel."""
    recorder = Recorder(names)
    with torch.inference_mode(), watching(recorder):
        logits = _logits(model, source_ids, target_ids)
    return recorder.values, logits


def _unobserved_logits(model: Transformer, source_ids: Sequence[int], target_ids: Sequence[int]) -> Tensor:
    """Logits [T, V] as the model computes them when nobody looks, even if somebody around this call does."""
    with torch.inference_mode():
        return Context().run(_logits, model, source_ids, target_ids)


def _logits(model: Transformer, source_ids: Sequence[int], target_ids: Sequence[int]) -> Tensor:
    if model.training:
        raise RuntimeError("the model must be in evaluation mode while it is captured: dropout would show in the maps")
    device = next(model.parameters()).device
    source = torch.tensor([list(source_ids)], dtype=torch.int64, device=device)
    target = torch.tensor([list(target_ids)], dtype=torch.int64, device=device)
    logits: Tensor = model(source, target)
    return logits[0]


def _padded(ids: Sequence[int], longest: int) -> list[int]:
    return [*ids, *[PAD_ID] * max(0, min(PADDING, longest - len(ids)))]
