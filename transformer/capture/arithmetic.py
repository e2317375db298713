"""What one query of one head is computed from, seen in one pass.

Letters: S keys, K = D / H width of a head, D d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from transformer.capture.capture import capture
from transformer.capture.names import attention_module, attention_probe
from transformer.capture.norms import outward_slices
from transformer.capture.record import BoolArray, FloatArray
from transformer.capture.sink import to_numpy
from transformer.errors import InputError, problem

if TYPE_CHECKING:
    from transformer.nn.model import Transformer


@dataclass(frozen=True, eq=False)
class CapturedHead:
    """The vectors of one query of one head, and what the model made of them."""

    query: FloatArray
    """[K]"""
    keys: FloatArray
    """[S, K]"""
    values: FloatArray
    """[S, K]"""
    mask: BoolArray
    """[S] True where the query may look."""
    outward: FloatArray
    """[K, D] the rows of W^O that this head's output meets."""
    whole: FloatArray
    """[D] the output of the attention for this query, all heads and the bias of W^O."""
    scores: FloatArray
    """[S] scaled, before the mask."""
    pattern: FloatArray
    """[S] the row of the attention map."""
    head_output: FloatArray
    """[K]"""


def capture_head(
    model: Transformer,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    kind: str,
    layer: int,
    head: int,
    query: int,
) -> CapturedHead:
    """Run the model once over a source and a decoder input and pick out one query of one head.

    Args:
        model: one whose hooks are registered.
        source_ids: S ids with ``<SOS>`` and ``<EOS>``.
        target_ids: T ids of the decoder input, ``<SOS>`` first.
        kind: ``encoder``, ``decoder`` or ``cross``.
        layer: from 0.
        head: from 0.
        query: row of the map, from 0.

    Raises:
        InputError: another kind, or a number out of range.
    """
    config = model.config
    _refuse("layer", layer, _layers(model, kind))
    _refuse("head", head, config.heads)
    _refuse("query", query, len(source_ids if kind == "encoder" else target_ids))
    quantities = ("query_heads", "key_heads", "value_heads", "mask", "scores", "pattern", "head_output")
    names = [attention_probe(kind, layer, quantity) for quantity in quantities]
    seen = capture(model, source_ids, target_ids, names)
    queries, keys, values, mask, scores, pattern, outputs = (seen[name] for name in names)
    name = attention_module(kind, layer)
    weight = cast(FloatArray, to_numpy(model.get_parameter(f"{name}.output.weight")))
    bias = cast(FloatArray, to_numpy(model.get_parameter(f"{name}.output.bias")))
    return CapturedHead(
        query=cast(FloatArray, queries[head, query]),
        keys=cast(FloatArray, keys[head]),
        values=cast(FloatArray, values[head]),
        mask=cast(BoolArray, np.broadcast_to(mask, scores.shape)[head, query]),
        outward=outward_slices(weight, config.heads)[head],
        whole=weight @ cast(FloatArray, outputs[:, query]).ravel() + bias,
        scores=cast(FloatArray, scores[head, query]),
        pattern=cast(FloatArray, pattern[head, query]),
        head_output=cast(FloatArray, outputs[head, query]),
    )


def capture_scores(
    model: Transformer, source_ids: Sequence[int], target_ids: Sequence[int], kind: str, layer: int
) -> FloatArray:
    """The scores of one layer before the mask, [H, T, S]; arguments and errors as in ``capture_head``."""
    _refuse("layer", layer, _layers(model, kind))
    name = attention_probe(kind, layer, "scores")
    return cast(FloatArray, capture(model, source_ids, target_ids, [name])[name])


def _layers(model: Transformer, kind: str) -> int:
    attention_module(kind, 0)  # refuses another kind
    return model.config.encoder_layers if kind == "encoder" else model.config.decoder_layers


def _refuse(argument: str, value: int, count: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not 0 <= value < count:
        rule = f"must be a whole number from 0 to {count - 1}"
        raise InputError(problem(argument, rule, value, "choose one of them"))
