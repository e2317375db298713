"""One query of one head as the model has it, and the laws that bind all heads of a query."""

from __future__ import annotations

import numpy as np
import pytest

from transformer.analysis.arithmetic import HeadArithmetic
from transformer.capture.capture import capture
from transformer.capture.record import KINDS, AttentionRecord
from transformer.engine import Translator

SOURCE, TARGET = "Two dogs run through the tall grass.", "Zwei Hunde rennen."


@pytest.fixture(scope="module")
def record(translator: Translator) -> AttentionRecord:
    return translator.inspect(SOURCE, target=TARGET)


def ask(translator: Translator, record: AttentionRecord, *where: int | str) -> HeadArithmetic:
    return translator.arithmetic(SOURCE, [piece.id for piece in record.target_output], *where)


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_are_those_of_the_record(kind: str, record: AttentionRecord, translator: Translator) -> None:
    maps = record.attention(kind)
    layers, heads, rows, columns = maps.shape
    for layer, head, query in ((0, 0, 0), (layers - 1, heads - 1, rows - 1), (1, 2, 1)):
        found = ask(translator, record, kind, layer, head, query)
        assert found.ok, found.checks
        assert len(found.checks) == 3
        np.testing.assert_allclose(found.weights, maps[layer, head, query], atol=1e-6)
        assert (found.query.shape, found.keys.shape, found.values.shape) == ((8,), (columns, 8), (columns, 8))
        assert (found.share.shape, found.whole.shape) == ((32,), (32,))
        allowed = record.causal_mask[query] if kind == "decoder" else np.ones(columns, bool)
        np.testing.assert_array_equal(found.mask, allowed)
        assert found.weights.sum() == pytest.approx(1.0)
        assert found.unscaled_weights.sum() == pytest.approx(1.0)
        assert (found.unscaled_weights[~found.mask] == 0.0).all()
        np.testing.assert_allclose(np.sqrt(found.width) * found.scores, found.raw_scores)


@pytest.mark.parametrize(
    ("kind", "path", "before", "after"),
    [
        ("encoder", "encoder.1.self_attn", "encoder.1.stream_in", "encoder.1.stream_after_self_attn"),
        ("decoder", "decoder.1.self_attn", "decoder.1.stream_in", "decoder.1.stream_after_self_attn"),
        (
            "cross",
            "decoder.1.cross_attn",
            "decoder.1.stream_after_self_attn",
            "decoder.1.stream_after_cross_attn",
        ),
    ],
)
def test_shares_and_bias_make_the_output_that_went_on(
    kind: str, path: str, before: str, after: str, record: AttentionRecord, translator: Translator
) -> None:
    """The stream behind the attention is LayerNorm(x + output), and the output the sum of what the heads add."""
    model, query = translator.model, 2
    every = [ask(translator, record, kind, 1, head, query) for head in range(4)]
    bias = model.get_parameter(f"{path}.output.bias").numpy()
    whole = sum(found.share for found in every) + bias
    for found in every:
        np.testing.assert_allclose(found.whole, whole, atol=1e-5)
    ids = [piece.id for piece in record.source], [piece.id for piece in record.target_input]
    seen = capture(model, *ids, [before, after])
    added = seen[before][query] + whole
    norm = model.get_submodule(f"{path}_norm")
    scale, shift = norm.weight.numpy(), norm.bias.numpy()
    expected = (added - added.mean()) / np.sqrt(added.var() + model.config.layer_norm_eps) * scale + shift
    np.testing.assert_allclose(seen[after][query], expected, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_is_the_sum_of_weighted_values_carried_out(
    kind: str, record: AttentionRecord, translator: Translator
) -> None:
    """A key that got all attention would give a share as long as its value norm."""
    found = ask(translator, record, kind, 1, 3, 1)
    bound = float(found.weights @ record.value_norms[kind][1, 3].astype(np.float64))
    assert found.share_norm <= bound * (1 + 1e-5)
    if kind == "decoder":  # the first query may look at one key only
        first = ask(translator, record, kind, 1, 3, 0)
        assert first.weights[0] == 1.0
        assert first.share_norm == pytest.approx(float(record.value_norms[kind][1, 3, 0]), rel=1e-5)
