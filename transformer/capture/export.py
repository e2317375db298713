"""Attention records as files: compressed numpy arrays, or JSON."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np

from transformer.capture.record import KINDS, AttentionRecord


def record_npz(record: AttentionRecord) -> bytes:
    """A record as the bytes of an ``.npz`` file, readable with ``numpy.load(…, allow_pickle=False)``.

    Arrays: ``encoder``, ``decoder``, ``cross``, ``causal_mask``, ``log_probs``; per axis ``source_tokens``,
    ``target_tokens`` (what the decoder reads), ``output_tokens`` (what it writes) and their ``…_ids``; ``source_spans``
    [S, 2]; ``source_text``, ``target_text``, ``checkpoint_sha256``; ``check_names``, ``check_ok``, ``check_values``,
    ``check_limits``.
    """
    plain = record.to_dict()
    arrays: dict[str, Any] = {kind: record.attention(kind) for kind in KINDS}
    arrays |= {"causal_mask": record.causal_mask, "log_probs": record.log_probs}
    for name in ("source_tokens", "target_tokens", "output_tokens", "source_text", "target_text", "checkpoint_sha256"):
        arrays[name] = np.array(plain[name], dtype=np.str_)
    for name in ("source_ids", "target_ids", "output_ids", "source_spans"):
        arrays[name] = np.array(plain[name], dtype=np.int64)
    arrays["check_names"] = np.array([check.name for check in record.checks], dtype=np.str_)
    arrays["check_ok"] = np.array([check.ok for check in record.checks], dtype=np.bool_)
    arrays["check_values"] = np.array([check.value for check in record.checks])
    arrays["check_limits"] = np.array([check.limit for check in record.checks])
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def record_json(record: AttentionRecord) -> str:
    """A record as one JSON object: ``AttentionRecord.to_dict()`` with the maps and the mask as nested lists.

    A number that is not finite becomes null.
    """
    plain = record.to_dict() | {kind: record.attention(kind).tolist() for kind in KINDS}
    plain["causal_mask"] = record.causal_mask.tolist()
    return json.dumps(plain if record.ok else _finite(plain), ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
