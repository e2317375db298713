"""Records as files: whole, exact, and readable without pickle."""

from __future__ import annotations

import dataclasses
import io
import json
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transformer.capture.export import bertviz_arguments, record_bertviz, record_json, record_npz
from transformer.capture.record import KINDS, AttentionRecord
from transformer.engine import Translator


@pytest.fixture(scope="module")
def record(translator: Translator) -> AttentionRecord:
    return translator.inspect("Zwei 狗 <b> run.", target="Hunde „ß“ 🐕")


def test_npz_is_exact_and_needs_no_pickle(record: AttentionRecord) -> None:
    with np.load(io.BytesIO(record_npz(record)), allow_pickle=False) as arrays:
        for name in (*KINDS, "causal_mask", "log_probs"):
            assert np.array_equal(arrays[name], getattr(record, name)), name
        for kind in KINDS:
            assert np.array_equal(arrays[f"{kind}_value_norms"], record.value_norms[kind])
            assert np.array_equal(arrays[f"{kind}_kept_shares"], record.kept_shares[kind])
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
        assert np.array_equal(np.array(plain[f"{kind}_value_norms"], np.float32), record.value_norms[kind])
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


def test_a_record_without_norms_is_exported_without_them(record: AttentionRecord) -> None:
    bare = dataclasses.replace(record, value_norms={}, kept_shares={})
    assert "cross_value_norms" not in json.loads(record_json(bare))
    with np.load(io.BytesIO(record_npz(bare)), allow_pickle=False) as arrays:
        assert "cross_value_norms" not in arrays


# ---------------------------------------------------------------------------------------------------- BertViz


def test_arguments_are_those_of_bertviz(record: AttentionRecord) -> None:
    arguments = bertviz_arguments(record)
    source, target = len(record.source), len(record.target_input)
    assert source != target
    shapes = {
        "encoder_attention": (3, (1, 4, source, source)),
        "decoder_attention": (2, (1, 4, target, target)),
        "cross_attention": (2, (1, 4, target, source)),
    }
    assert set(arguments) == {*shapes, "encoder_tokens", "decoder_tokens"}
    for name, (layers, shape) in shapes.items():
        assert [layer.shape for layer in arguments[name]] == [shape] * layers
        assert all(layer.dtype == np.float32 and layer.flags.writeable for layer in arguments[name])
    assert arguments["encoder_tokens"] == record.source_tokens
    assert arguments["decoder_tokens"] == record.target_tokens


def test_changing_the_arguments_does_not_change_the_record(record: AttentionRecord) -> None:
    before = record.cross.copy()
    bertviz_arguments(record)["cross_attention"][0][:] = 7.0
    assert np.array_equal(record.cross, before)


def test_the_recipe_of_the_docstring_gives_bertviz_the_same_maps(
    record: AttentionRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "maps.bertviz.npz").write_bytes(record_bertviz(record))
    monkeypatch.chdir(tmp_path)
    lines = (record_bertviz.__doc__ or "").splitlines()
    recipe = textwrap.dedent("\n".join(line for line in lines if line.startswith(" " * 8)))
    assert len(recipe.splitlines()) == 2
    given: dict[str, Any] = {}
    exec(recipe, {"numpy": np, "torch": torch, "model_view": lambda **arguments: given.update(arguments)})
    for kind in KINDS:
        # As bertviz.util.format_attention stacks them.
        stacked = torch.stack([layer.squeeze(0) for layer in given[f"{kind}_attention"]])
        assert isinstance(given[f"{kind}_attention"], list)
        assert stacked.numpy().tobytes() == record.attention(kind).tobytes()
    assert json.loads(json.dumps(given["encoder_tokens"])) == record.source_tokens
    assert json.loads(json.dumps(given["decoder_tokens"])) == record.target_tokens
    assert len(given) == 5
