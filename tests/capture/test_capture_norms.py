"""Value norms against loops over heads and keys that follow the formula of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from transformer.capture.capture import capture
from transformer.capture.norms import outward_slices, value_norms
from transformer.capture.record import KINDS, AttentionRecord
from transformer.engine import Translator


@pytest.fixture(scope="module")
def record(translator: Translator) -> AttentionRecord:
    return translator.inspect("Two dogs run through the tall grass.", target="Zwei Hunde rennen.")


def test_norms_are_those_of_the_formula(record: AttentionRecord, translator: Translator) -> None:
    """||(x W^V_h + b^V_h) W^O_h||, x read off the residual stream, matrices off the model."""
    model = translator.model
    memory = "encoder.2.stream_after_feed_forward"
    streams = {
        "encoder": [f"encoder.{layer}.stream_in" for layer in range(3)],
        "decoder": [f"decoder.{layer}.stream_in" for layer in range(2)],
        "cross": [memory, memory],
    }
    names = [name for kind in KINDS for name in streams[kind]]
    ids = [piece.id for piece in record.source], [piece.id for piece in record.target_input]
    seen = capture(model, *ids, names)
    weights = {name: parameter.numpy().astype(np.float64) for name, parameter in model.named_parameters()}
    for kind in KINDS:
        stack, module = ("encoder" if kind == "encoder" else "decoder"), ("cross" if kind == "cross" else "self")
        for layer, stream in enumerate(streams[kind]):
            path = f"{stack}.{layer}.{module}_attn"
            into, bias = weights[f"{path}.value.weight"], weights[f"{path}.value.bias"]
            out = weights[f"{path}.output.weight"]
            for head in range(4):
                own = range(8 * head, 8 * head + 8)
                for key, x in enumerate(seen[stream]):
                    value = [sum(x * into[row]) + bias[row] for row in own]
                    carried = sum(number * out[:, row] for number, row in zip(value, own, strict=True))
                    expected = np.sqrt(sum(carried**2))
                    assert record.value_norms[kind][layer, head, key] == pytest.approx(expected, rel=1e-4), kind


def test_norms_follow_the_keys_and_cannot_be_changed(record: AttentionRecord) -> None:
    assert list(record.value_norms) == list(KINDS)
    for kind in KINDS:
        maps, norms = record.attention(kind), record.value_norms[kind]
        assert norms.shape == (*maps.shape[:2], maps.shape[3])
        assert norms.dtype == np.float32
        with pytest.raises(ValueError, match="read-only"):
            norms[0, 0, 0] = 1.0


def test_a_small_case_on_paper() -> None:
    """Two heads of width one, D = 2. W^O, stored transposed, is [[3, 4], [0, 2]]."""
    weight = np.array([[3.0, 0.0], [4.0, 2.0]], np.float32)
    np.testing.assert_array_equal(outward_slices(weight, 2), [[[3.0, 4.0]], [[0.0, 2.0]]])
    values = np.array([[[1.0], [-2.0], [0.0]], [[1.0], [-2.0], [0.5]]], np.float32)
    np.testing.assert_array_equal(value_norms(values, weight), [[5.0, 10.0, 0.0], [2.0, 4.0, 1.0]])


def test_the_padding_of_the_recorded_pass_does_not_show(record: AttentionRecord, translator: Translator) -> None:
    ids = [piece.id for piece in record.source], [piece.id for piece in record.target_input]
    values = capture(translator.model, *ids, ["decoder.1.cross_attn.value_heads"])["decoder.1.cross_attn.value_heads"]
    weight = translator.model.get_parameter("decoder.1.cross_attn.output.weight").numpy()
    np.testing.assert_allclose(record.value_norms["cross"][1], value_norms(values, weight), rtol=1e-5)
