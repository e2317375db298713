"""Records as files: whole, exact, and readable without pickle."""

from __future__ import annotations

import dataclasses
import io
import json

import numpy as np
import pytest

from transformer.capture.export import record_json, record_npz
from transformer.capture.record import KINDS, AttentionRecord
from transformer.engine import Translator


@pytest.fixture(scope="module")
def record(translator: Translator) -> AttentionRecord:
    return translator.inspect("Zwei 狗 <b> run.", target="Hunde „ß“ 🐕")


def test_npz_is_exact_and_needs_no_pickle(record: AttentionRecord) -> None:
    with np.load(io.BytesIO(record_npz(record)), allow_pickle=False) as arrays:
        for name in (*KINDS, "causal_mask", "log_probs"):
            assert np.array_equal(arrays[name], getattr(record, name)), name
        assert arrays["encoder"].dtype == np.float32
        assert arrays["source_tokens"].tolist() == record.source_tokens
        assert arrays["target_tokens"].tolist() == record.target_tokens
        assert arrays["output_tokens"].tolist() == record.output_tokens
        assert arrays["source_ids"].tolist() == [piece.id for piece in record.source]
        assert arrays["source_text"].item() == record.source_text
        assert arrays["checkpoint_sha256"].item() == record.checkpoint_sha256
        assert arrays["check_ok"].all()
        assert len(arrays["check_names"]) == len(record.checks)


def test_json_is_exact(record: AttentionRecord) -> None:
    plain = json.loads(record_json(record))
    for kind in KINDS:
        assert np.array_equal(np.array(plain[kind], np.float32), record.attention(kind))
    assert plain["source_tokens"] == record.source_tokens
    assert plain["total_log_prob"] == pytest.approx(sum(plain["log_probs"]))
    assert plain["ok"] is True
    assert all(check["ok"] for check in plain["checks"])


def test_json_stays_json_when_a_number_is_not_finite(record: AttentionRecord) -> None:
    broken = record.cross.copy()
    broken[0, 0, 0, 0] = np.nan
    failed = dataclasses.replace(record.checks[0], ok=False, value=float("nan"))
    plain = json.loads(
        record_json(dataclasses.replace(record, cross=broken, checks=(failed,))),
        parse_constant=lambda name: pytest.fail(f"{name} is not JSON"),
    )
    assert plain["cross"][0][0][0][0] is None
    assert plain["ok"] is False
