from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from between_models import SENTENCE, normalising_first, through_modules

from transformer.errors import InputError
from transformer.lessons import residual


@pytest.fixture(scope="module", params=["paper", "normalises first"])
def model(request, translator, tiny_tokenizer, tmp_path_factory):
    if request.param == "paper":
        return translator
    return normalising_first(tiny_tokenizer, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def ids(model) -> tuple[int, ...]:
    return model.translate(SENTENCE, beam_size=2, max_extra=4).ids


@pytest.mark.parametrize("stack", residual.STACKS)
def test_what_enters_is_added_and_leaves_is_what_the_modules_take_and_give(model, ids, stack: str) -> None:
    seen = through_modules(model, ids)
    found = residual.sublayers(model, SENTENCE, ids, stack)
    layers = model.config.encoder_layers if stack == "encoder" else model.config.decoder_layers
    assert [(one.layer, one.part) for one in found] == [
        (layer, part) for layer in range(layers) for part in residual.PARTS[stack]
    ]
    for one in found:
        taken, given = seen[f"{stack}.{one.layer}.{one.part}"]
        np.testing.assert_allclose(one.added, given, atol=1e-5)
        normed_from, normed_to = seen[f"{stack}.{one.layer}.{one.part}_norm"]
        if model.config.norm_first:
            np.testing.assert_allclose(one.before, normed_from, atol=1e-5)
            np.testing.assert_allclose(one.after, one.summed, atol=1e-5)
        else:
            np.testing.assert_allclose(one.before, taken, atol=1e-5)
            np.testing.assert_allclose(one.summed, normed_from, atol=1e-5)
            np.testing.assert_allclose(one.after, normed_to, atol=1e-5)
    assert [one.name for one in found][:2] == [
        "layer 1 · self-attention",
        "layer 1 · cross-attention" if stack == "decoder" else "layer 1 · feed-forward",
    ]


@pytest.mark.parametrize("stack", residual.STACKS)
def test_lengths_are_roots_of_sums_of_squares(model, ids, stack: str) -> None:
    found = residual.lengths(model, SENTENCE, ids, stack)
    layers = residual.sublayers(model, SENTENCE, ids, stack)
    assert found.check.ok
    assert found.names == tuple(one.name for one in layers)
    entering = layers[0].before
    for at, one in enumerate(layers):
        for position in range(len(entering)):
            for name in ("before", "added", "summed", "after"):
                vector = getattr(one, name)[position].astype(float)
                assert getattr(found, name)[at, position] == pytest.approx(sum(vector * vector) ** 0.5, rel=1e-5)
            first, last = entering[position].astype(float), one.after[position].astype(float)
            cosine = first @ last / (first @ first * (last @ last)) ** 0.5
            assert found.likeness[at, position] == pytest.approx(cosine, abs=1e-5)


def test_a_stream_that_is_not_its_own_sum_is_noticed(translator, monkeypatch) -> None:
    ids = translator.translate(SENTENCE, beam_size=1, max_extra=4).ids
    real = residual.sublayers

    def wrong(*arguments):
        found = real(*arguments)
        return [*found[:-1], dataclasses.replace(found[-1], after=found[-1].after + 1.0)]

    monkeypatch.setattr(residual, "sublayers", wrong)
    assert not residual.lengths(translator, SENTENCE, ids, "encoder").check.ok
    assert not residual.normalised(translator, SENTENCE, ids, "encoder", 2, "feed_forward").check.ok


@pytest.mark.parametrize("stack", residual.STACKS)
def test_the_normalisation_is_the_model_s(model, ids, stack: str) -> None:
    seen = through_modules(model, ids)
    for part in residual.PARTS[stack]:
        found = residual.normalised(model, SENTENCE, ids, stack, 1, part)
        read, given = seen[f"{stack}.1.{part}_norm"]
        np.testing.assert_allclose(found.read, read, atol=1e-5)
        np.testing.assert_allclose(found.given, given, atol=1e-5)
        np.testing.assert_allclose(found.standard.mean(axis=-1), 0.0, atol=1e-6)
        np.testing.assert_allclose(found.standard.std(axis=-1), 1.0, atol=1e-3)
        np.testing.assert_allclose(found.given, found.standard * found.gain + found.bias, atol=1e-9)
        assert found.check.ok


def test_what_is_not_there_is_refused(translator) -> None:
    ids = (5, 3)
    with pytest.raises(InputError, match="stack must be one of encoder, decoder"):
        residual.sublayers(translator, SENTENCE, ids, "cross")
    with pytest.raises(InputError, match="sublayer must be one of the encoder's"):
        residual.normalised(translator, SENTENCE, ids, "encoder", 0, "cross_attn")
    with pytest.raises(InputError, match="sublayer must be one of the decoder's"):
        residual.normalised(translator, SENTENCE, ids, "decoder", 2, "self_attn")
    with pytest.raises(InputError, match="sentence must hold at least one word"):
        residual.lengths(translator, "  ", ids, "encoder")
