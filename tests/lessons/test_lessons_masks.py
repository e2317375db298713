"""The causal mask: against a decoder that is run here layer by layer, and never saw a mask."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from between_models import SENTENCE, normalising_first

from transformer.config import EOS_ID, SOS_ID
from transformer.errors import InputError
from transformer.lessons import causality
from transformer.lessons.changing import Changing, compare


@pytest.fixture(scope="module", params=["paper", "normalises first"])
def model(request, translator, tiny_tokenizer, tmp_path_factory):
    if request.param == "paper":
        return translator
    return normalising_first(tiny_tokenizer, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def ids(model) -> tuple[int, ...]:
    return model.translate(SENTENCE, beam_size=2, max_extra=0).ids


def decoded(model, read, opened=(), keep=None) -> np.ndarray:
    """[T, V] probabilities of the next piece, decoder layer by decoder layer, ``opened`` ones without the mask.

    ``keep`` takes what each opened layer's self-attention reads.
    """
    network = model.model
    with torch.inference_mode():
        memory = network.encode(torch.tensor([model.tokenizer.encode(SENTENCE)]))
        everything = torch.ones(1, 1, 1, memory.size(1), dtype=torch.bool)
        x = network.target_input(torch.tensor([list(read)]))
        size = len(read)
        causal = torch.tensor([[place <= row for place in range(size)] for row in range(size)])
        for number, layer in enumerate(network.decoder):
            mask = torch.ones(size, size, dtype=torch.bool) if number in opened else causal

            def attend(y, layer=layer, mask=mask, number=number):
                if keep is not None and number in opened:
                    keep.append((layer.self_attn, y.clone()))
                return layer.self_attn(y, y, mask)

            x = layer(x, attend, lambda y, layer=layer: layer.cross_attn(y, memory, everything))
        return torch.softmax(network.project(network.decoder.norm(x))[0], dim=-1).double().numpy()


def test_a_row_with_and_without_its_mask(translator) -> None:
    ids = translator.translate(SENTENCE, beam_size=2, max_extra=0).ids
    record = translator.inspect(SENTENCE, target_ids=ids)
    scores = translator.attention_scores(SENTENCE, ids, "decoder", 1)[2]
    found = causality.causal_head(scores, record.decoder[1, 2], record.causal_mask)
    assert found.check.ok
    for row, line in enumerate(scores.astype(float)):
        powers = [np.exp(value) for value in line]
        seen = [power if place <= row else 0.0 for place, power in enumerate(powers)]
        np.testing.assert_allclose(found.weights[row], np.array(seen) / sum(seen), rtol=1e-9)
        np.testing.assert_allclose(found.open_weights[row], np.array(powers) / sum(powers), rtol=1e-9)
        assert found.future[row] == pytest.approx(sum(powers[row + 1 :]) / sum(powers), abs=1e-12)
    assert found.future[-1] == 0.0
    wrong = causality.causal_head(scores, record.decoder[1, 1], record.causal_mask)
    assert not wrong.check.ok  # of another head


@pytest.mark.parametrize("layer", [None, 0, 1])
def test_a_pass_without_the_mask(model, ids, layer: int | None) -> None:
    opened = range(2) if layer is None else (layer,)
    kept: list = []
    read = [SOS_ID, *ids[:-1]]
    usual, without = decoded(model, read), decoded(model, read, opened, kept)
    found = causality.without_mask(model, SENTENCE, ids, layer)
    places = (range(len(ids)), list(ids))
    np.testing.assert_allclose(np.exp(found.changed.log_probs), usual[places], rtol=1e-3)
    np.testing.assert_allclose(np.exp(found.changed.changed_log_probs), without[places], rtol=1e-3)
    assert found.likeliest == tuple(without.argmax(axis=-1))
    np.testing.assert_allclose(np.exp(found.likeliest_log_probs), without.max(axis=-1), rtol=1e-3)

    rows = []
    for attention, entering in kept:
        queries, keys = (attention._split(part(entering))[0].double() for part in (attention.query, attention.key))
        scores = queries @ keys.transpose(-2, -1) / queries.size(-1) ** 0.5
        rows.append(torch.softmax(scores, dim=-1).detach().numpy())
    weights = np.concatenate(rows).mean(axis=0)
    later = [sum(weights[row, row + 1 :]) for row in range(len(ids))]
    answer = [weights[row, row + 1] if row + 1 < len(ids) else 0.0 for row in range(len(ids))]
    np.testing.assert_allclose(found.future, later, atol=1e-5)
    np.testing.assert_allclose(found.answer, answer, atol=1e-5)
    assert found.future[-1] == 0.0


@pytest.mark.parametrize("layer", [None, 1])
def test_what_is_written_without_the_mask(model, ids, layer: int | None) -> None:
    opened = range(2) if layer is None else (layer,)
    limit = min(len(ids) + causality.LONGER, causality.MOST_WRITTEN)
    written: list[int] = []
    while len(written) < limit and EOS_ID not in written:
        row = decoded(model, [SOS_ID, *written], opened)[-1]
        row[:3] = -1.0  # <PAD>, <UNK> and <SOS> are never written
        written.append(int(row.argmax()))
    found = causality.without_mask(model, SENTENCE, ids, layer)
    assert found.free_text == model.tokenizer.decode(written)
    assert found.free_finished == (written[-1] == EOS_ID)
    # with cached keys and values no later piece is there that a mask could hide
    ending = "self_attn.mask" if layer is None else f"decoder.{layer}.self_attn.mask"
    stepwise = compare(model, SENTENCE, ids, Changing(ending, torch.ones_like))
    assert found.changed.changed_text == found.changed.text == stepwise.changed_text == stepwise.text
    np.testing.assert_allclose(found.changed.changed_log_probs, stepwise.changed_log_probs, atol=1e-4)


def test_what_moves_when_a_piece_is_replaced(model, ids) -> None:
    read = [SOS_ID, *ids[:-1]]
    usual, without = decoded(model, read), decoded(model, read, range(2))
    found = causality.influence(model, SENTENCE, ids)
    assert found.masked.shape == found.unmasked.shape == (len(ids), len(ids) - 1)
    for column, other in enumerate(found.replaced_by):
        ranked = [piece for piece in np.argsort(-usual[column], kind="stable") if piece > 3 and piece != ids[column]]
        assert other == ranked[0]
        changed = [*read[: column + 1], other, *read[column + 2 :]]
        for moved, before, opened in ((found.masked, usual, ()), (found.unmasked, without, range(2))):
            expected = np.abs(decoded(model, changed, opened) - before).sum(axis=-1) / 2
            np.testing.assert_allclose(moved[:, column], expected, atol=1e-5)
    for row in range(len(ids)):
        for column in range(len(ids) - 1):
            assert found.earlier[row, column] == (row < column + 1)  # position ``row`` reads inputs 0 … row
    assert found.masked[found.earlier].max() < 1e-6
    assert found.unmasked[found.earlier].min() > 1e-6
    assert found.masked[~found.earlier].max() > 1e-3


def test_long_targets_are_cut_and_short_ones_have_nothing_to_replace(translator) -> None:
    assert causality.influence(translator, SENTENCE, tuple(range(10, 20)), most=4).masked.shape == (4, 3)
    alone = causality.influence(translator, SENTENCE, (EOS_ID,))
    assert alone.masked.shape == alone.unmasked.shape == (1, 0)
    assert alone.replaced_by == ()
    one = causality.without_mask(translator, SENTENCE, (EOS_ID,))
    np.testing.assert_allclose(one.changed.log_probs, one.changed.changed_log_probs, atol=1e-5)
    np.testing.assert_array_equal(one.future, [0.0])


def test_a_layer_that_is_not_there_is_refused(translator) -> None:
    with pytest.raises(InputError, match="layer must be from 0 to 1"):
        causality.without_mask(translator, SENTENCE, (5, EOS_ID), 2)


def test_nothing_stays_changed(translator) -> None:
    before = translator.inspect(SENTENCE, target_ids=(5, 6, 7, EOS_ID))
    causality.without_mask(translator, SENTENCE, (5, 6, 7, EOS_ID))
    causality.influence(translator, SENTENCE, (5, 6, 7, EOS_ID))
    after = translator.inspect(SENTENCE, target_ids=(5, 6, 7, EOS_ID))
    np.testing.assert_array_equal(before.decoder, after.decoder)
    assert after.ok
