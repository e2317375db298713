"""Attention records as files: compressed numpy arrays, JSON, or what BertViz takes."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np

from transformer.capture.record import KINDS, AttentionRecord


def record_npz(record: AttentionRecord) -> bytes:
    """A record as the bytes of an ``.npz`` file, readable with ``numpy.load(…, allow_pickle=False)``.

    Arrays: ``encoder``, ``decoder``, ``cross``, ``causal_mask``, ``log_probs``; ``encoder_value_norms`` … [L, H, keys]
    and ``encoder_kept_shares`` … [L, rows] of each kind, if the record has them; per axis ``source_tokens``,
    ``target_tokens`` (what the decoder reads), ``output_tokens`` (what it writes) and their ``…_ids``; ``source_spans``
    [S, 2]; ``source_text``, ``target_text``, ``checkpoint_sha256``; ``check_names``, ``check_ok``, ``check_values``,
    ``check_limits``.
    """
    plain = record.to_dict()
    arrays: dict[str, Any] = {kind: record.attention(kind) for kind in KINDS}
    arrays |= _sizes(record)
    arrays |= {"causal_mask": record.causal_mask, "log_probs": record.log_probs}
    for name in ("source_tokens", "target_tokens", "output_tokens", "source_text", "target_text", "checkpoint_sha256"):
        arrays[name] = np.array(plain[name], dtype=np.str_)
    for name in ("source_ids", "target_ids", "output_ids", "source_spans"):
        arrays[name] = np.array(plain[name], dtype=np.int64)
    arrays["check_names"] = np.array([check.name for check in record.checks], dtype=np.str_)
    arrays["check_ok"] = np.array([check.ok for check in record.checks], dtype=np.bool_)
    arrays["check_values"] = np.array([check.value for check in record.checks])
    arrays["check_limits"] = np.array([check.limit for check in record.checks])
    return _npz(arrays)


def record_json(record: AttentionRecord) -> str:
    """A record as one JSON object: ``AttentionRecord.to_dict()`` with all arrays as nested lists.

    Names are those of ``record_npz``. A number that is not finite becomes null.
    """
    plain = record.to_dict() | {kind: record.attention(kind).tolist() for kind in KINDS}
    plain |= {name: norms.tolist() for name, norms in _sizes(record).items()}
    plain["causal_mask"] = record.causal_mask.tolist()
    return json.dumps(plain if record.ok else _finite(plain), ensure_ascii=False, allow_nan=False) + "\n"


def bertviz_arguments(record: AttentionRecord) -> dict[str, Any]:
    """A record as the arguments of ``bertviz.model_view`` and ``bertviz.head_view``, but for the tensors.

    ``encoder_attention`` (L arrays [1, H, S, S]), ``decoder_attention`` ([1, H, T, T]) and ``cross_attention``
    ([1, H, T, S]) are lists of float32 arrays that ``torch.from_numpy`` takes; ``encoder_tokens`` and
    ``decoder_tokens`` (what the decoder reads) are lists of labels.
    """
    arguments: dict[str, Any] = {
        f"{kind}_attention": [layer[None].copy() for layer in record.attention(kind)] for kind in KINDS
    }
    return arguments | {"encoder_tokens": record.source_tokens, "decoder_tokens": record.target_tokens}


def record_bertviz(record: AttentionRecord) -> bytes:
    """``bertviz_arguments`` as the bytes of an ``.npz`` file without pickle, layers stacked: [L, 1, H, rows, columns].

    In a notebook, with ``numpy``, ``torch`` and ``model_view`` of ``bertviz`` imported, two lines show it::

        maps = numpy.load("maps.bertviz.npz")
        model_view(**{k: list(torch.from_numpy(maps[k])) if maps[k].ndim > 1 else maps[k].tolist() for k in maps})

    BertViz 1.4 takes the number of layers of all kinds from the encoder: if the decoder has fewer, it fails; if it has
    more, they are missing. Show such a model in two calls, one without ``encoder_attention``, one with that and
    ``encoder_tokens`` alone.
    """
    return _npz({name: np.array(value) for name, value in bertviz_arguments(record).items()})


def _sizes(record: AttentionRecord) -> dict[str, Any]:
    known = {"value_norms": record.value_norms, "kept_shares": record.kept_shares}
    return {f"{kind}_{name}": array for name, by_kind in known.items() for kind, array in by_kind.items()}


def _npz(arrays: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
