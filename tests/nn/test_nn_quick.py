"""``Quick`` computes what the model's own modules compute."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from transformer.config import EOS_ID, PAD_ID, SOS_ID, ModelConfig
from transformer.decoding.batch import translate_ids
from transformer.decoding.options import SearchOptions
from transformer.decoding.step import start
from transformer.nn.model import Transformer
from transformer.nn.probe import register_hooks, watching
from transformer.nn.quick import Quick

SOURCE = torch.tensor([[SOS_ID, 5, 6, 7, EOS_ID], [SOS_ID, 9, EOS_ID, PAD_ID, PAD_ID], [SOS_ID, 4, 4, 8, EOS_ID]])
VARIANTS: list[dict] = [
    {},
    {"norm_first": True},
    {"activation": "gelu"},
    {"positions": "learned", "tie_embeddings": "none"},
    {"encoder_layers": 1, "decoder_layers": 3, "heads": 1},
]


def build(**changes) -> Transformer:
    torch.manual_seed(5)
    model = Transformer(dataclasses.replace(ModelConfig(40, 16, 4, 2, 2, 24, max_length=32), **changes)).eval()
    for parameter in model.parameters():  # biases and normalisations that do something
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@torch.inference_mode()
def test_it_equals_the_modules_through_beams_that_grow_change_and_leave(variant) -> None:
    model = build(**variant)
    mask = SOURCE != PAD_ID
    quick = Quick(model)
    state, expected = quick.start(SOURCE, mask), model.start(model.encode(SOURCE, mask), mask)
    torch.testing.assert_close(state.source[mask.all(1)], expected.source[mask.all(1)], atol=1e-5, rtol=1e-5)
    orders = ([0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 4, 5], [0, 1, 4, 5], [3, 3, 2], [0, 1, 2], [2, 0])
    for turn, order in enumerate(orders):
        last = torch.arange(4, 4 + state.rows) + turn
        hidden, state = quick.step(last, state)
        wanted, expected = model.step(last, expected)
        torch.testing.assert_close(hidden, wanted, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(state.own, expected.own, atol=1e-5, rtol=1e-5)
        state, expected = state.reorder(torch.tensor(order)), expected.reorder(torch.tensor(order))
        assert state.rows == expected.rows == len(order)


@torch.inference_mode()
def test_old_states_stay_usable() -> None:
    model = build()
    quick = Quick(model)
    _, one = quick.step(torch.tensor([5, 6, 7]), quick.start(SOURCE, SOURCE != PAD_ID))
    first, two = quick.step(torch.tensor([8, 9, 10]), one)
    quick.step(torch.tensor([11, 12, 13]), one.reorder(torch.tensor([2, 2, 1])))
    quick.step(torch.tensor([14, 15, 16]), two)
    again, _ = quick.step(torch.tensor([8, 9, 10]), one)
    assert torch.equal(first, again)


@torch.inference_mode()
def test_a_source_of_padding_alone_is_attended_to_with_nothing() -> None:
    model = build()
    source = torch.tensor([[SOS_ID, 5, EOS_ID], [PAD_ID, PAD_ID, PAD_ID]])
    mask = source != PAD_ID
    quick = Quick(model)
    hidden, _ = quick.step(torch.tensor([5, 5]), quick.start(source, mask))
    expected, _ = model.step(torch.tensor([5, 5]), model.start(model.encode(source, mask), mask))
    torch.testing.assert_close(hidden, expected, atol=1e-5, rtol=1e-5)
    assert torch.isfinite(hidden).all()


@pytest.mark.parametrize("order", [[0, 0, 1, 1], [1, 1, 1, 0, 0, 0], [0, 1, 1], [1], [0, 0, 0, 0, 1, 1], [1, 0, 1, 0]])
@torch.inference_mode()
def test_rows_keep_their_sources(order) -> None:
    model = build()
    state = model.start(model.encode(SOURCE), SOURCE != PAD_ID).reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
    picked = state.reorder(torch.tensor([2 * one for one in order]))
    for layer in range(2):
        keys, values, mask = picked.of_every_row(layer)
        assert torch.equal(keys, state.source[order, layer, 0])
        assert torch.equal(values, state.source[order, layer, 1])
        assert torch.equal(mask, state.source_mask[order])


def test_who_looks_sees_every_step_and_may_change_it() -> None:
    class Zeroing:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def wants(self, name: str) -> bool:
            return name.endswith(("cross_attn.pattern", "encoder.0.self_attn.pattern"))

        def receive(self, name: str, value: torch.Tensor) -> torch.Tensor:
            self.seen.append(name)
            return torch.zeros_like(value)

    model = build()
    register_hooks(model)
    source = SOURCE[0].tolist()
    options = SearchOptions(beam_size=2, max_extra=3)
    (plain,) = translate_ids(model, [source], options)
    sink = Zeroing()
    with watching(sink):
        (changed,) = translate_ids(model, [source], options)
    assert changed[0].log_probs != plain[0].log_probs
    assert "encoder.0.self_attn.pattern" in sink.seen
    assert "decoder.1.cross_attn.pattern" in sink.seen


def test_weights_are_those_of_the_moment() -> None:
    model = build()
    step, state = start(model, [SOURCE[0].tolist()])
    with torch.inference_mode():
        before, _ = step(torch.tensor([5]), state)
        for parameter in model.parameters():
            parameter += 0.1
        after_step, after = start(model, [SOURCE[0].tolist()])
        changed, _ = after_step(torch.tensor([5]), after)
        expected, _ = model.step(torch.tensor([5]), model.start(model.encode(SOURCE[:1]), SOURCE[:1] != PAD_ID))
        torch.testing.assert_close(changed, torch.log_softmax(model.project(expected), -1), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(before, changed)
