from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from between_models import SENTENCE, normalising_first, through_modules

from transformer.errors import InputError
from transformer.lessons import vocabulary


@pytest.fixture(scope="module", params=["paper", "normalises first"])
def model(request, translator, tiny_tokenizer, tmp_path_factory):
    if request.param == "paper":
        return translator
    return normalising_first(tiny_tokenizer, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def ids(model) -> tuple[int, ...]:
    return model.translate(SENTENCE, beam_size=2, max_extra=4).ids


def test_softmax_by_hand() -> None:
    logits = np.log([1.0, 2.0, 5.0]).astype(np.float32)
    np.testing.assert_allclose(vocabulary.softmax(logits), [1 / 8, 2 / 8, 5 / 8], rtol=1e-6)
    np.testing.assert_allclose(vocabulary.softmax(logits, 0.5), [1 / 30, 4 / 30, 25 / 30], rtol=1e-6)
    np.testing.assert_allclose(vocabulary.softmax(logits, 1e9), [1 / 3] * 3, rtol=1e-6)
    np.testing.assert_allclose(vocabulary.softmax(np.array([1e4, 0.0])), [1.0, 0.0])
    np.testing.assert_allclose(vocabulary.softmax(logits + 100.0), vocabulary.softmax(logits), rtol=1e-4)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_temperatures_that_cannot_be(temperature: float) -> None:
    with pytest.raises(InputError, match="temperature must be above 0"):
        vocabulary.softmax(np.zeros(3), temperature)


def test_entropy_by_hand() -> None:
    assert vocabulary.entropy(np.full(8, 1 / 8)) == pytest.approx(math.log(8))
    assert vocabulary.entropy(np.array([0.0, 1.0])) == 0.0
    assert vocabulary.entropy(np.array([0.25, 0.75])) == pytest.approx(0.5623351)


def test_the_best_are_in_order() -> None:
    assert vocabulary.best(np.array([1.0, 3.0, 3.0, 2.0]), 3) == [1, 2, 3]
    assert vocabulary.best(np.array([1.0, 2.0]), 5) == [1, 0]


def test_logits_are_the_matrix_times_the_last_vector(model, ids) -> None:
    found = vocabulary.choice(model, SENTENCE, ids, 1)
    hidden, own = through_modules(model, ids)["projection"]
    matrix = model.model.state_dict()["projection.weight"].numpy().astype(float)
    np.testing.assert_allclose(found.logits, matrix @ hidden[1], atol=1e-4)
    np.testing.assert_allclose(found.logits, own[1], atol=1e-4)
    assert found.written == ids[1]
    assert len(found.logits) == vocabulary.output_layer(model)[1]


def test_positions_that_are_not_there(translator) -> None:
    with pytest.raises(InputError, match="position must be from 0 to 1"):
        vocabulary.choice(translator, SENTENCE, (5, 3), 2)
    with pytest.raises(InputError, match="target_ids must hold a piece"):
        vocabulary.lens(translator, SENTENCE, ())


def test_the_lens_of_the_last_layer_is_the_model_itself(model, ids) -> None:
    found = vocabulary.lens(model, SENTENCE, ids, count=3)
    record = model.inspect(SENTENCE, target_ids=ids)
    np.testing.assert_allclose(np.log(found.written_probabilities[-1]), record.log_probs, atol=1e-4)
    assert found.check.ok
    assert found.written == ids
    steps = model.steps(SENTENCE, ids, count=3)  # one more than ids where the end was cut off
    for position, step in enumerate(steps[: len(ids)]):
        mine = dict(zip(found.top_ids[-1, position], found.top_probabilities[-1, position], strict=True))
        for candidate in step.candidates:  # those that may be written; the lens names all
            if candidate.piece.id in mine:
                assert mine[candidate.piece.id] == pytest.approx(candidate.probability, abs=1e-4)
                assert found.labels[candidate.piece.id] == candidate.piece.label


def test_the_lens_of_every_layer_is_the_matrix_times_its_vector(model, ids) -> None:
    found = vocabulary.lens(model, SENTENCE, ids, count=3)
    seen = through_modules(model, ids)
    matrix = model.model.projection.weight.numpy().astype(float)
    layers = model.config.decoder_layers
    assert found.top_ids.shape == (layers + 1, len(ids), 3)
    for row in range(layers + 1):
        if model.config.norm_first:
            first = seen[f"decoder.{row}.self_attn_norm"][0] if row < layers else seen["decoder.norm"][0]
            with torch.inference_mode():
                stream = model.model.decoder.norm(torch.from_numpy(first.copy())).numpy()
        else:
            stream = seen["decoder.0.self_attn"][0] if row == 0 else seen[f"decoder.{row - 1}.feed_forward_norm"][1]
        for position, written in enumerate(ids):
            logits = matrix @ stream[position].astype(float)
            shares = np.exp(logits - logits.max())
            shares /= shares.sum()
            order = np.argsort(-shares)
            assert found.top_ids[row, position].tolist() == order[:3].tolist()
            np.testing.assert_allclose(found.top_probabilities[row, position], shares[order[:3]], rtol=1e-3)
            assert found.written_probabilities[row, position] == pytest.approx(shares[written], rel=1e-3)
            assert found.written_ranks[row, position] == list(order).index(written)


def test_every_named_piece_has_its_label(model, ids) -> None:
    found = vocabulary.lens(model, SENTENCE, ids, count=3)
    for number in {*found.top_ids.ravel().tolist(), *ids}:
        assert found.labels[number] == model.tokenizer.target_pieces([number])[0].label


def test_the_output_layer_is_the_embeddings_where_they_are_tied(model) -> None:
    wide, pieces, tied = vocabulary.output_layer(model)
    assert model.model.projection.weight.shape == (pieces, wide)
    assert tied == (model.model.projection.weight is model.model.target_input.lookup.weight)
