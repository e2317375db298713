"""Batches counted cell by cell, and padding in sight against layers that are run here with whatever mask they get."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from between_models import SENTENCE, normalising_first
from hypothesis import given
from hypothesis import strategies as st

from transformer.config import EOS_ID, PAD_ID, SOS_ID
from transformer.errors import InputError
from transformer.lessons import padding
from transformer.text.batching import padding_share

LENGTHS = st.lists(st.integers(3, 30), min_size=1, max_size=12)


@pytest.fixture(scope="module", params=["paper", "normalises first"])
def model(request, translator, tiny_tokenizer, tmp_path_factory):
    if request.param == "paper":
        return translator
    return normalising_first(tiny_tokenizer, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def ids(model) -> tuple[int, ...]:
    return model.translate(SENTENCE, beam_size=2, max_extra=0).ids


@given(LENGTHS, st.integers(0, 5), st.booleans())
def test_waste_is_what_counting_finds(lengths: list[int], size: int, by_length: bool) -> None:
    made = padding.padded_to_longest(lengths, size, by_length)
    assert sorted(index for batch in made.batches for index in batch) == list(range(len(lengths)))
    assert all(len(batch) <= (size or len(lengths)) for batch in made.batches)
    rows = [[10 + index] * length for index, length in enumerate(lengths)]
    tables = made.ids(rows)
    real = sum(int((table != PAD_ID).sum()) for table in tables)
    cells = sum(table.size for table in tables)
    assert made.positions == cells
    assert made.wasted_positions == pytest.approx(1 - real / cells)
    pairs = [(table[:, :, None] != PAD_ID) & (table[:, None, :] != PAD_ID) for table in tables]
    assert made.scores == sum(pair.size for pair in pairs)
    assert made.wasted_scores == pytest.approx(1 - sum(pair.sum() for pair in pairs) / made.scores)
    # the trainer counts both sides of a pair; with equal sides (a target gains one piece) it must find the same
    examples = [(row, row[:-1]) for row in rows]
    assert made.wasted_positions == pytest.approx(padding_share(examples, made.batches))
    if by_length:
        ordered = [lengths[index] for batch in made.batches for index in batch]
        assert ordered == sorted(lengths)


def test_batches_of_five_sentences() -> None:
    lengths = (8, 13, 7, 12, 9)
    longest = padding.padded_to_longest(lengths)
    assert (longest.batches, longest.widths, longest.positions) == (((0, 1, 2, 3, 4),), (13,), 65)
    typed = padding.padded_to_longest(lengths, 2)
    assert (typed.batches, typed.widths) == (((0, 1), (2, 3), (4,)), (13, 12, 9))
    ordered = padding.padded_to_longest(lengths, 2, by_length=True)
    assert (ordered.batches, ordered.widths) == (((2, 0), (4, 3), (1,)), (8, 12, 13))
    fixed = padding.padded_to(lengths, 16)
    assert (fixed.positions, fixed.scores) == (80, 1280)
    assert fixed.wasted_positions == pytest.approx(1 - 49 / 80)
    assert fixed.wasted_scores == pytest.approx(1 - (64 + 169 + 49 + 144 + 81) / 1280)
    np.testing.assert_array_equal(padding.padded_to((2, 1), 3).ids([[5, 6], [7]])[0], [[5, 6, 0], [7, 0, 0]])


def test_what_makes_no_batch_is_refused() -> None:
    with pytest.raises(InputError, match="width must have room for the longest sentence"):
        padding.padded_to((3, 9), 8)
    for make in (lambda: padding.padded_to_longest(()), lambda: padding.padded_to((), 8)):
        with pytest.raises(InputError, match="sentences must be at least one"):
            make()
    with pytest.raises(InputError, match="size must be at least 0"):
        padding.padded_to_longest((3,), -1)


class Layers:
    """The model's own layers, run here one by one: encoder and decoder under any masks over the source."""

    def __init__(self, model, columns: int) -> None:
        self.network = model.model
        self.real = model.tokenizer.encode(SENTENCE)
        self.ids = torch.tensor([[*self.real, *[PAD_ID] * columns]])
        self.on = (self.ids != PAD_ID)[:, None, None, :]
        self.off = torch.ones_like(self.on)

    def encode(self, mask, patterns: list | None = None):
        x = self.network.source_input(self.ids)
        for layer in self.network.encoder:
            entering = layer.self_attn_norm(x) if layer.norm_first else x
            if patterns is not None:
                patterns.append(weights(layer.self_attn, entering, entering, mask))
            x = layer(x, mask)
        return self.network.encoder.norm(x)

    def decode(self, read, memory, mask, patterns: list | None = None):
        size = len(read)
        causal = torch.tensor([[place <= row for place in range(size)] for row in range(size)])
        x = self.network.target_input(torch.tensor([list(read)]))
        for layer in self.network.decoder:

            def cross(y, layer=layer):
                if patterns is not None:
                    patterns.append(weights(layer.cross_attn, y, memory, mask))
                return layer.cross_attn(y, memory, mask)

            x = layer(x, lambda y, layer=layer: layer.self_attn(y, y, causal), cross)
        return torch.log_softmax(self.network.project(self.network.decoder.norm(x))[0], dim=-1)


def weights(attention, queries, keys, mask) -> np.ndarray:
    """[H, T, S]"""
    q, k = attention._split(attention.query(queries)), attention._split(attention.key(keys))
    scores = (q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).masked_fill(~mask, -torch.inf)
    return torch.softmax(scores, dim=-1)[0].numpy()


@pytest.mark.parametrize("place", padding.PLACES)
def test_padding_in_sight(model, ids, place: str) -> None:
    columns, read = 5, [SOS_ID, *ids[:-1]]
    layers, alone = Layers(model, columns), Layers(model, 0)
    encoder_mask = layers.on if place == "cross-attention" else layers.off
    cross_mask = layers.on if place == "encoder" else layers.off
    encoder: list = []
    cross: list = []
    with torch.inference_mode():
        memory = layers.encode(encoder_mask, encoder)
        log_probs = layers.decode(read, memory, cross_mask, cross)
        own = alone.encode(alone.on)
        own_log_probs = alone.decode(read, own, alone.on)
    found = padding.without_padding_mask(model, SENTENCE, ids, columns, place)
    real, places = len(layers.real), (range(len(ids)), list(ids))
    assert found.columns == columns
    np.testing.assert_allclose(found.encoder_maps, np.stack(encoder)[:, :, :real], atol=1e-5)
    np.testing.assert_allclose(found.cross_maps, np.stack(cross), atol=1e-5)
    shares = np.stack(encoder)[:, :, :real, real:].sum(axis=-1).mean(axis=-1)
    np.testing.assert_allclose(found.encoder_shares, shares, atol=1e-5)
    np.testing.assert_allclose(found.cross_shares, np.stack(cross)[..., real:].sum(axis=-1).mean(axis=-1), atol=1e-5)
    np.testing.assert_allclose(found.log_probs, own_log_probs.numpy()[places], atol=1e-4)
    np.testing.assert_allclose(found.changed_log_probs, log_probs.numpy()[places], atol=1e-4)
    apart = [
        float((memory[0, at] - own[0, at]).square().sum() ** 0.5 / own[0, at].square().sum() ** 0.5)
        for at in range(real)
    ]
    np.testing.assert_allclose(found.moved, apart, atol=1e-4)
    assert (found.encoder_shares.max() == 0.0) == (place == "cross-attention")
    assert (found.cross_shares.max() == 0.0) == (place == "encoder")


def test_with_the_mask_padding_changes_nothing(model, ids) -> None:
    found = padding.without_padding_mask(model, SENTENCE, ids, 7)
    assert all(check.ok for check in found.checks)
    assert found.masked_encoder_maps[..., -7:].max() == found.masked_cross_maps[..., -7:].max() == 0.0
    record = model.inspect(SENTENCE, target_ids=ids)
    np.testing.assert_allclose(found.masked_encoder_maps[..., :-7], record.encoder, atol=1e-5)
    np.testing.assert_allclose(found.masked_cross_maps[..., :-7], record.cross, atol=1e-5)
    np.testing.assert_allclose(found.log_probs, record.log_probs, atol=1e-4)


def test_what_is_written_with_padding_in_sight(model, ids) -> None:
    layers, alone = Layers(model, 4), Layers(model, 0)

    def written(one: Layers, mask, limit: int) -> list[int]:
        pieces: list[int] = []
        with torch.inference_mode():
            memory = one.encode(mask)
            while len(pieces) < limit and EOS_ID not in pieces:
                row = one.decode([SOS_ID, *pieces], memory, mask)[-1]
                row[:3] = -torch.inf
                pieces.append(int(row.argmax()))
        return pieces

    found = padding.without_padding_mask(model, SENTENCE, ids, 4)
    changed = written(layers, layers.off, min(len(layers.real) + padding.LONGER, padding.MOST))
    assert found.text == model.tokenizer.decode(written(alone, alone.on, padding.MOST))
    assert found.changed_text == model.tokenizer.decode(changed)
    assert found.changed_finished == (changed[-1] == EOS_ID)


def test_a_mask_that_does_not_hold_is_noticed(translator, monkeypatch) -> None:
    ids = (5, 6, EOS_ID)
    real = padding._run

    def leaking(translator, source, target, encoder_mask, cross_mask, limit):
        return real(translator, source, target, [True] * len(source), [True] * len(source), limit)

    monkeypatch.setattr(padding, "_run", leaking)
    found = padding.without_padding_mask(translator, SENTENCE, ids, 3)
    assert [check.ok for check in found.checks] == [False, False, False]


def test_what_cannot_be_padded_is_refused(translator) -> None:
    room = 64 - len(translator.tokenizer.encode(SENTENCE))
    for columns in (0, room + 1):
        with pytest.raises(InputError, match=f"columns must be from 1 to {room}"):
            padding.without_padding_mask(translator, SENTENCE, (5, EOS_ID), columns)
    with pytest.raises(InputError, match="place must be one of"):
        padding.without_padding_mask(translator, SENTENCE, (5, EOS_ID), 1, "decoder")
