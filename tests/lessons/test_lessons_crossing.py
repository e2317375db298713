"""Encoder and decoder put together, against what PyTorch's own modules take and give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from between_models import SENTENCE, normalising_first, through_modules

from transformer.errors import InputError
from transformer.lessons import crossing


@pytest.fixture(scope="module", params=["paper", "normalises first"])
def model(request, translator, tiny_tokenizer, tmp_path_factory):
    if request.param == "paper":
        return translator
    return normalising_first(tiny_tokenizer, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def ids(model) -> tuple[int, ...]:
    return model.translate(SENTENCE, beam_size=2, max_extra=0).ids


def test_shapes_of_a_pass(model, ids) -> None:
    found, config = crossing.assembly(model, SENTENCE, ids), model.config
    source, target, width = len(model.tokenizer.encode(SENTENCE)), len(ids), config.d_model
    assert (found.source, found.target) == (source, target)
    assert found.entering_encoder == found.memory == (source, width)
    assert found.entering_decoder == (target, width)
    assert found.logits == (target, config.vocab_size)
    encoder, decoder, cross = found.attentions
    heads = config.heads
    assert [one.kind for one in found.attentions] == ["encoder", "decoder", "cross"]
    assert [one.layers for one in found.attentions] == [config.encoder_layers, 2, 2]
    assert encoder.queries == encoder.keys == (heads, source, width // heads)
    assert decoder.queries == decoder.keys == cross.queries == (heads, target, width // heads)
    assert cross.keys == (heads, source, width // heads)
    assert (encoder.scores, decoder.scores, cross.scores) == (
        (heads, source, source),
        (heads, target, target),
        (heads, target, source),
    )
    assert (encoder.hidden, decoder.hidden, cross.hidden) == (0, target * (target - 1) // 2, 0)
    assert decoder.mask == (1, target, target)
    assert found.check.ok


def test_cross_attention_from_its_matrices(model, ids) -> None:
    found = crossing.crossing(model, SENTENCE, ids, 1, 1)
    assert all(check.ok for check in found.checks)
    assert found.tables == 1
    assert len(found.checks) == 5
    attention = model.model.get_submodule("decoder.1.cross_attn")
    seen = through_modules(model, ids)
    reading, _ = seen["decoder.1.cross_attn"]  # the queries' side; keys and values come as the second argument
    width = model.config.head_width
    own = slice(width, 2 * width)
    with torch.inference_mode():
        memory = model.model.encode(torch.tensor([model.tokenizer.encode(SENTENCE)]))[0]
        keys, values = attention.key(memory)[:, own].numpy(), attention.value(memory)[:, own].numpy()
        queries = attention.query(torch.from_numpy(reading))[:, own].numpy()
    np.testing.assert_allclose(found.memory, memory.numpy(), atol=1e-5)
    np.testing.assert_allclose(found.reading, reading, atol=1e-5)
    np.testing.assert_allclose(found.keys, keys, atol=1e-5)
    np.testing.assert_allclose(found.values, values, atol=1e-5)
    np.testing.assert_allclose(found.queries, queries, atol=1e-5)
    scores = found.queries @ found.keys.T / width**0.5
    expected = model.inspect(SENTENCE, target_ids=ids).cross[1, 1]
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    size, full = memory.shape
    assert found.multiplications == sum(2 * full for _ in range(size) for _ in range(full))


def test_keys_that_are_computed_anew_are_counted(translator, monkeypatch) -> None:
    """A decoder that copied its tables at every step would be found out."""
    real = type(translator.model).step

    def copying(self, last, state):
        attention = self.decoder.get_submodule("0").cross_attn

        handle = attention.key_heads.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 0.0,))
        try:
            return real(self, last, state)
        finally:
            handle.remove()

    monkeypatch.setattr(type(translator.model), "step", copying)
    assert crossing.crossing(translator, SENTENCE, (5, 6, 7), 0, 0).tables == 3


def test_keys_of_something_else_are_noticed(translator, monkeypatch) -> None:
    real = crossing._ends

    def other(translator, source, read):
        memory, logits = real(translator, source, read)
        return memory + 0.01, logits

    monkeypatch.setattr(crossing, "_ends", other)
    assert not crossing.assembly(translator, SENTENCE, (5, 6)).check.ok
    found = crossing.crossing(translator, SENTENCE, (5, 6), 0, 0)
    assert [check.ok for check in found.checks] == [True, False, False, True, True]


@pytest.mark.parametrize(("layer", "head", "named"), [(2, 0, "layer"), (-1, 0, "layer"), (0, 4, "head")])
def test_what_is_not_there_is_refused(translator, layer: int, head: int, named: str) -> None:
    with pytest.raises(InputError, match=f"{named} must be from 0 to"):
        crossing.crossing(translator, SENTENCE, (5, 6), layer, head)


def test_one_piece(translator) -> None:
    found = crossing.assembly(translator, "a", (5,))
    assert (found.target, found.attentions[1].hidden) == (1, 0)
    assert crossing.crossing(translator, "a", (5,), 0, 0).queries.shape == (1, 8)
