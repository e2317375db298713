"""Laws of the record, for any weights; and a proof that its checks can fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from transformer.capture.capture import PADDING, capture, record_attention
from transformer.capture.checks import CapturedPass, run_checks
from transformer.capture.names import attention_probe
from transformer.capture.record import KINDS, AttentionRecord
from transformer.capture.sink import Recorder, to_numpy
from transformer.config import SOS_ID
from transformer.engine import Translator
from transformer.errors import InputError
from transformer.nn.probe import watching

SOURCE, TARGET = "Two dogs run through the tall grass.", "Zwei Hunde rennen."


@pytest.fixture(scope="module")
def record(translator: Translator) -> AttentionRecord:
    return translator.inspect(SOURCE, target=TARGET)


def _ids(record: AttentionRecord) -> tuple[list[int], list[int]]:
    return [piece.id for piece in record.source], [piece.id for piece in record.target_input]


def test_shapes_follow_the_pieces_and_each_stack(record: AttentionRecord) -> None:
    source, target = len(record.source), len(record.target_input)
    assert source != target  # or the shapes below would prove little
    assert record.encoder.shape == (3, 4, source, source)
    assert record.decoder.shape == (2, 4, target, target)
    assert record.cross.shape == (2, 4, target, source)
    assert record.log_probs.shape == (target,)
    for kind in KINDS:
        assert record.attention(kind).dtype == np.float32
        rows, columns = record.axes(kind)
        assert record.attention(kind).shape[2:] == (len(rows), len(columns))


def test_axes_name_what_was_read_and_written(record: AttentionRecord, translator: Translator) -> None:
    assert (record.source_text, record.target_text) == (SOURCE, TARGET)
    assert [piece.id for piece in record.source] == translator.tokenizer.encode(SOURCE)
    target = translator.tokenizer.encode_target(TARGET)
    assert [piece.id for piece in record.target_input] == [2, *target]
    assert [piece.id for piece in record.target_output] == [*target, 3]
    assert record.target_tokens[0] == "<SOS>"
    assert record.output_tokens[-1] == "<EOS>"
    assert record.target_tokens[1:] == record.output_tokens[:-1]


def test_rows_sum_to_one_and_nothing_looks_ahead(record: AttentionRecord) -> None:
    for kind in KINDS:
        np.testing.assert_allclose(record.attention(kind).sum(-1), 1.0, atol=1e-5)
        assert (record.attention(kind) >= 0).all()
    length = len(record.target_input)
    assert (record.decoder[:, :, *np.triu_indices(length, 1)] == 0).all()
    assert (record.causal_mask == np.tril(np.ones((length, length), bool))).all()


def test_every_check_holds_and_says_what_it_measured(record: AttentionRecord) -> None:
    assert record.ok
    assert len(record.checks) == 7
    for check in record.checks:
        assert check.ok
        assert check.value <= check.limit
        assert check.detail.endswith(".")


def test_the_padding_of_the_recorded_pass_changes_nothing(record: AttentionRecord, translator: Translator) -> None:
    names = {kind: attention_probe(kind, 1) for kind in KINDS}
    plain = capture(translator.model, *_ids(record), names.values())
    for kind, name in names.items():
        np.testing.assert_allclose(record.attention(kind)[1], plain[name], atol=1e-6)


def test_a_pattern_is_the_softmax_of_its_masked_scores(record: AttentionRecord, translator: Translator) -> None:
    names = [attention_probe("decoder", 0, quantity) for quantity in ("scores", "mask", "pattern")]
    seen = capture(translator.model, *_ids(record), names)
    scores, mask, pattern = (seen[name] for name in names)
    weights = np.where(mask, np.exp(scores.astype(np.float64)), 0.0)
    np.testing.assert_allclose(pattern, weights / weights.sum(-1, keepdims=True), atol=1e-6)
    assert mask.dtype == np.bool_


def test_one_pass_equals_what_cached_decoding_computed(record: AttentionRecord, translator: Translator) -> None:
    """Contract 7: row t of the maps is what step t of decoding looked at."""
    model = translator.model
    source_ids, target_ids = _ids(record)
    source = torch.tensor([source_ids])
    real = torch.ones_like(source, dtype=torch.bool)
    with torch.inference_mode():
        state = model.start(model.encode(source, real), real)
        for t, last in enumerate(target_ids):
            recorder = Recorder(attention_probe(kind, layer) for kind in ("decoder", "cross") for layer in range(2))
            with watching(recorder):
                hidden, state = model.step(torch.tensor([last]), state)
            for layer in range(2):
                own = recorder.values[attention_probe("decoder", layer)][0, :, 0]
                cross = recorder.values[attention_probe("cross", layer)][0, :, 0]
                np.testing.assert_allclose(record.decoder[layer, :, t, : t + 1], own, atol=1e-5)
                np.testing.assert_allclose(record.cross[layer, :, t], cross, atol=1e-5)
            log_probs = torch.log_softmax(model.project(hidden), dim=-1)[0]
            assert float(log_probs[record.target_output[t].id]) == pytest.approx(float(record.log_probs[t]), abs=1e-4)


def test_a_prefix_has_the_top_left_corner_of_the_maps(record: AttentionRecord, translator: Translator) -> None:
    ids = [piece.id for piece in record.target_output]
    for t in (1, 3):
        prefix = translator.inspect(SOURCE, target_ids=ids[:t])
        np.testing.assert_allclose(prefix.decoder, record.decoder[:, :, :t, :t], atol=1e-6)
        np.testing.assert_allclose(prefix.cross, record.cross[:, :, :t], atol=1e-6)
        np.testing.assert_allclose(prefix.log_probs, record.log_probs[:t], atol=1e-5)


def test_every_probe_can_be_captured(record: AttentionRecord, translator: Translator) -> None:
    source_ids, target_ids = _ids(record)
    width = translator.config.d_model
    names = {
        "source_input.embedding": (len(source_ids), width),
        "source_input.positions": (len(source_ids), width),
        "target_input.sum": (len(target_ids), width),
        "encoder.2.stream_after_feed_forward": (len(source_ids), width),
        "decoder.1.stream_after_cross_attn": (len(target_ids), width),
        "encoder.0.feed_forward.hidden": (len(source_ids), 64),
        "decoder.1.cross_attn.head_output": (4, len(target_ids), width // 4),
        "decoder.1.cross_attn.key_heads": (4, len(source_ids), width // 4),
    }
    seen = capture(translator.model, source_ids, target_ids, names)
    assert {name: value.shape for name, value in seen.items()} == names


def test_an_unknown_probe_is_refused(translator: Translator) -> None:
    with pytest.raises(InputError, match=r"decoder\.9"):
        capture(translator.model, [2, 9, 3], [2], ["decoder.9.cross_attn.pattern"])
    with pytest.raises(InputError, match="kind"):
        attention_probe("both", 0)


def test_maps_are_copies_and_cannot_be_changed(record: AttentionRecord) -> None:
    with pytest.raises(ValueError, match="read-only"):
        record.cross[0, 0, 0, 0] = 1.0
    value = torch.ones(2, 2)
    kept = to_numpy(value)
    value.zero_()
    assert (kept == 1).all()


def test_a_kind_that_is_none_is_refused(record: AttentionRecord) -> None:
    with pytest.raises(InputError, match="encoder, decoder, cross"):
        record.attention("self")


def test_a_model_in_training_is_not_captured(translator: Translator) -> None:
    model = translator.model
    model.train()
    try:
        with pytest.raises(RuntimeError, match="evaluation mode"):
            capture(model, [2, 9, 3], [2], [])
    finally:
        model.eval()


class _Uniform:
    """An intervention: every head of one attention looks everywhere alike, even ahead."""

    def wants(self, name: str) -> bool:
        return name == "decoder.0.self_attn.pattern"

    def receive(self, name: str, value: Tensor) -> Tensor:
        return torch.full_like(value, 1.0 / value.size(-1))


def test_whoever_looks_around_the_call_does_not_change_the_record(
    record: AttentionRecord, translator: Translator
) -> None:
    with watching(_Uniform()):
        inside = translator.inspect(SOURCE, target=TARGET)
    assert inside.ok
    assert np.array_equal(inside.decoder, record.decoder)


def test_sentences_that_fill_the_model_are_recorded_and_say_so(translator: Translator) -> None:
    longest = translator.config.max_length
    pieces = translator.tokenizer.target_pieces([9] * longest)
    record = record_attention(
        translator.model,
        pieces,
        pieces,
        start=translator.tokenizer.target_pieces([SOS_ID])[0],
        source_text="",
        target_text="",
        checkpoint_sha256="",
    )
    assert record.ok
    assert record.cross.shape == (2, 4, longest, longest)
    (padding,) = [check for check in record.checks if check.name == "nothing on padding"]
    assert "no padding" in padding.detail


# ------------------------------------------------------------------------------------- checks that do not hold


def _good() -> CapturedPass:
    """Made by hand: 2 encoder and 1 decoder layers, 1 head, S = 3, T = 2, and PADDING more of both."""
    source, target = 3 + PADDING, 2 + PADDING
    maps = {
        "encoder": np.zeros((2, 1, source, source), np.float32),
        "decoder": np.zeros((1, 1, target, target), np.float32),
        "cross": np.zeros((1, 1, target, source), np.float32),
    }
    maps["encoder"][..., :3] = 1 / 3
    maps["decoder"][..., 0] = 1.0
    maps["cross"][..., 1] = 1.0
    logits = np.arange(10, dtype=np.float32).reshape(2, 5)
    mask = np.tril(np.ones((1, target, target), bool))
    norms = {kind: np.ones((*weights.shape[:2], weights.shape[3]), np.float32) for kind, weights in maps.items()}
    return CapturedPass(maps, mask, 3, 2, logits, logits.copy(), norms)


def _checked(passed: CapturedPass) -> list[str]:
    return [check.name for check in run_checks(passed, ["a", "b", "c"], ["x", "y"]) if not check.ok]


def test_a_good_pass_fails_no_check() -> None:
    assert _checked(_good()) == []


def _row_short(p: CapturedPass) -> None:
    p.maps["encoder"][1, 0, 2, 0] -= 2e-5


def _looks_ahead(p: CapturedPass) -> None:
    p.maps["decoder"][0, 0, 0, :2] = (1 - 1e-7, 1e-7)


def _on_padding(p: CapturedPass) -> None:
    p.maps["cross"][0, 0, 1, 3] = 1e-9


def _wrong_mask(p: CapturedPass) -> None:
    p.causal_masks[0, 0, 1] = True


def _not_a_number(p: CapturedPass) -> None:
    p.maps["cross"][0, 0, 0, 0] = np.nan


def _norm_not_a_number(p: CapturedPass) -> None:
    p.value_norms["cross"][0, 0, 2] = np.inf


def _kernels_differ(p: CapturedPass) -> None:
    p.fused_logits[1, 1] += 2e-3


@pytest.mark.parametrize(
    ("harm", "names"),
    [
        (_row_short, ["rows sum to one"]),
        (_looks_ahead, ["nothing above the diagonal"]),
        (_on_padding, ["nothing on padding"]),
        (_kernels_differ, ["explicit equals fused"]),
        (_wrong_mask, ["causal mask is the lower triangle"]),
        (_not_a_number, ["rows sum to one", "all finite"]),
        (_norm_not_a_number, ["all finite"]),
    ],
)
def test_a_fault_fails_its_check(harm: Callable[[CapturedPass], None], names: list[str]) -> None:
    passed = _good()
    harm(passed)
    assert _checked(passed) == names


def test_labels_of_another_length_fail_their_check() -> None:
    failed = [check.name for check in run_checks(_good(), ["a", "b"], ["x", "y"]) if not check.ok]
    assert failed == ["axes match the pieces"]


def test_padding_rows_are_not_asked_to_sum_to_one() -> None:
    passed = _good()
    passed.maps["encoder"][:, :, 3:] = 0.0
    assert _checked(passed) == []


def test_a_record_with_a_failed_check_is_not_ok(record: AttentionRecord) -> None:
    bad = dataclasses.replace(record.checks[0], ok=False)
    assert not dataclasses.replace(record, checks=(bad, *record.checks[1:])).ok
