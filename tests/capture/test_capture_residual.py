"""What the residual connection keeps, against the model's own sublayers run by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from transformer.capture.capture import capture
from transformer.capture.record import KINDS, AttentionRecord
from transformer.capture.residual import attention_output, kept_share
from transformer.engine import Translator
from transformer.nn.masks import causal_mask


@pytest.fixture(scope="module")
def record(translator: Translator) -> AttentionRecord:
    return translator.inspect("Two dogs run through the tall grass.", target="Zwei Hunde rennen.")


def test_shares_are_those_of_the_sublayers(record: AttentionRecord, translator: Translator) -> None:
    """||x|| / (||x|| + ||sublayer(x)||), the sublayer being the model's module, called as its layer calls it."""
    model = translator.model
    ids = [piece.id for piece in record.source], [piece.id for piece in record.target_input]
    memory = "encoder.2.stream_after_feed_forward"
    streams = {
        "encoder": [f"encoder.{layer}.stream_in" for layer in range(3)],
        "decoder": [f"decoder.{layer}.stream_in" for layer in range(2)],
        "cross": [f"decoder.{layer}.stream_after_self_attn" for layer in range(2)],
    }
    seen = capture(model, *ids, [memory, *(name for kind in KINDS for name in streams[kind])])
    read = torch.from_numpy(seen[memory])[None]
    for kind in KINDS:
        assert record.kept_shares[kind].shape == (len(streams[kind]), record.attention(kind).shape[2])
        for layer, name in enumerate(streams[kind]):
            x = torch.from_numpy(seen[name])[None]
            stack, part = ("encoder" if kind == "encoder" else "decoder"), ("cross" if kind == "cross" else "self")
            attention = model.get_submodule(f"{stack}.{layer}.{part}_attn")
            mask = causal_mask(x.size(1)) if kind == "decoder" else None
            with torch.inference_mode():
                added = attention(x, read if kind == "cross" else x, mask)[0]
            there, new = x[0].norm(dim=-1), added.norm(dim=-1)
            np.testing.assert_allclose(record.kept_shares[kind][layer], there / (there + new), rtol=1e-4)


def test_shares_cannot_be_changed_and_lie_between_none_and_all(record: AttentionRecord) -> None:
    for kind in KINDS:
        shares = record.kept_shares[kind]
        assert shares.dtype == np.float32
        assert ((shares > 0.0) & (shares < 1.0)).all()
        with pytest.raises(ValueError, match="read-only"):
            shares[0, 0] = 1.0


def test_small_cases_on_paper() -> None:
    """Two heads of width one, two positions; W^O, stored transposed, is [[3, 4], [0, 2]] and b^O (1, 0)."""
    weight, bias = np.array([[3.0, 0.0], [4.0, 2.0]], np.float32), np.array([1.0, 0.0], np.float32)
    heads = np.array([[[1.0], [0.0]], [[2.0], [1.0]]], np.float32)
    np.testing.assert_array_equal(attention_output(heads, weight, bias), [[4.0, 8.0], [1.0, 2.0]])
    stream = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0]], np.float32)
    added = np.array([[0.0, -15.0], [1.0, 0.0], [0.0, 0.0]], np.float32)
    np.testing.assert_allclose(kept_share(stream, added), [0.25, 0.0, 1.0])
