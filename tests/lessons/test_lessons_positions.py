"""Positions: the formula by loops, the rotation, one table that is sliced, and what is left without it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from transformer.checkpoint import save_checkpoint
from transformer.config import ModelConfig
from transformer.engine import load
from transformer.errors import InputError
from transformer.lessons import positions
from transformer.nn.model import Transformer

if TYPE_CHECKING:
    from pathlib import Path

    from transformer.engine import Translator
    from transformer.text.tokenizer import Tokenizer

DOG, CAT = "the dog chased the cat", "the cat chased the dog"


@pytest.fixture(scope="module", params=["learned", "none"])
def other(request: pytest.FixtureRequest, tiny_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory):
    """A model whose positions are not the paper's."""
    torch.manual_seed(3)
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size,
        d_model=16,
        heads=2,
        encoder_layers=2,
        decoder_layers=1,
        feed_forward=32,
        positions=request.param,
        max_length=32,
    )
    folder: Path = tmp_path_factory.mktemp("positions") / request.param
    names = dict.fromkeys(("source", "target", "source_code", "target_code"), "x")
    save_checkpoint(folder, Transformer(config), tiny_tokenizer, languages=names, dtype="float32")
    return load(folder)


def test_table_and_wavelengths_are_the_formula(translator: Translator) -> None:
    found = positions.position_table(translator, 20)
    assert (found.kind, found.longest, found.table.shape) == ("sinusoidal", 64, (20, 32))
    for i in range(16):
        assert found.wavelengths[i] == pytest.approx(2 * math.pi * 10000 ** (2 * i / 32))
        for position in range(20):
            turns = position / found.wavelengths[i]
            expected = [math.sin(2 * math.pi * turns), math.cos(2 * math.pi * turns)]
            assert found.table[position, 2 * i : 2 * i + 2].tolist() == pytest.approx(expected, abs=1e-6)
    assert len(positions.position_table(translator, 1000).table) == 64


def test_hands_turn_as_those_of_a_clock(translator: Translator) -> None:
    table = positions.position_table(translator, 8).table
    pairs = positions.spaced_pairs(32, 4)
    assert pairs == (0, 5, 10, 15)
    tips = positions.hands(table, pairs)
    assert tips.shape == (8, 4, 2)
    assert tips[0].tolist() == [[0.0, 1.0]] * 4  # upright
    for place, pair in enumerate(pairs):
        angle = 3 / 10000 ** (2 * pair / 32)
        assert tips[3, place].tolist() == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-6)
    np.testing.assert_allclose(np.linalg.norm(tips, axis=-1), 1.0, atol=1e-6)
    assert positions.spaced_pairs(2, 6) == (0,)
    assert positions.spaced_pairs(8, 6) == (0, 1, 2, 3)


def test_dot_products_depend_on_the_distance_alone(translator: Translator) -> None:
    found = positions.products(positions.position_table(translator, 30).table)
    for k in range(30):
        expected = sum(math.cos(k / 10000 ** (2 * i / 32)) for i in range(16))
        assert found.by_distance[k] == pytest.approx(expected, abs=1e-4)
        assert found.matrix[0, k] == pytest.approx(expected, abs=1e-4)
    assert found.by_distance[0] == pytest.approx(16.0)
    assert found.by_distance.argmax() == 0
    assert found.spread < 1e-5


def test_products_of_any_table() -> None:
    table = np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)
    found = positions.products(table)
    worst = 0.0
    for k in range(6):
        dots = [float(np.dot(table[i], table[i + k])) for i in range(6 - k)]
        mean = sum(dots) / len(dots)
        assert found.by_distance[k] == pytest.approx(mean, abs=1e-5)
        worst = max(worst, *(abs(dot - mean) for dot in dots))
    assert found.spread == pytest.approx(worst, abs=1e-5)


@pytest.mark.parametrize("offset", [0, 1, 7, 63])
def test_one_rotation_carries_every_position(translator: Translator, offset: int) -> None:
    found = positions.shift(translator, offset)
    table = positions.position_table(translator, 64).table.astype(np.float64)
    assert found.compared == 64 - offset
    worst = max(np.abs(found.rotation @ table[p] - table[p + offset]).max() for p in range(found.compared))
    assert found.error == pytest.approx(worst, abs=1e-12)
    assert found.error < positions.ROUNDING
    np.testing.assert_allclose(found.rotation @ found.rotation.T, np.eye(32), atol=1e-12)
    angle = offset / 10000 ** (4 / 32)
    block = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    np.testing.assert_allclose(found.rotation[4:6, 4:6], block, atol=1e-12)
    assert found.angles[2] == pytest.approx(angle)
    outside = np.kron(np.eye(16), np.ones((2, 2))) == 0
    assert (found.rotation[outside] == 0).all()


def test_two_shifts_are_one(translator: Translator) -> None:
    once, twice = positions.shift(translator, 5).rotation, positions.shift(translator, 10).rotation
    np.testing.assert_allclose(once @ once, twice, atol=1e-12)


def test_one_table_is_sliced(translator: Translator) -> None:
    found = positions.sliced(translator, "Two dogs run.")
    assert found.length == len(translator.tokenizer.encode("Two dogs run."))
    assert (found.rows, found.bytes) == (64, 64 * 32 * 4)
    assert [check.ok for check in found.checks] == [True, True]


def test_a_table_that_is_made_anew_is_found_out(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    table = translator.model.source_input.position_table
    monkeypatch.setattr(type(table), "forward", lambda self, start, length: self.table[start : start + length].clone())
    assert [check.ok for check in positions.sliced(translator, "Two dogs run.").checks] == [True, False]


def test_without_positions_order_is_lost(translator: Translator) -> None:
    found = positions.order_effect(translator, DOG, CAT, {"beam_size": 1})
    labels = [piece.label for piece in found.second]
    assert [piece.label for piece in found.first] == [labels[place] for place in found.partners]
    assert sorted(found.partners) == list(range(len(labels)))
    assert found.moved_off.max() < 1e-5
    assert found.moved_on[1:-1].max() > 0.01
    assert found.typical > 0
    assert found.translations_off[0] == found.translations_off[1]
    assert found.translations_on == tuple(translator.translate(text, beam_size=1).text for text in (DOG, CAT))


def test_moves_are_those_of_the_encoder(translator: Translator) -> None:
    """Worked out from the model's own encoder, once as it is and once with a table of zeros."""
    found = positions.order_effect(translator, DOG, CAT, {"beam_size": 1})
    table = translator.model.source_input.position_table.table
    kept = table.clone()
    for moved in (found.moved_on, found.moved_off):
        first, second = (
            translator.model.encode(torch.tensor([[piece.id for piece in side]]))[0]
            for side in (found.first, found.second)
        )
        for place, partner in enumerate(found.partners):
            expected = float((first[place] - second[partner]).norm() / first[place].norm())
            assert moved[place] == pytest.approx(expected, abs=2e-5)
        if moved is found.moved_on:
            pairs = [
                float((first[i] - first[j]).norm() / first[i].norm())
                for i, one in enumerate(found.first)
                for j, two in enumerate(found.first)
                if one.id != two.id
            ]
            assert found.typical == pytest.approx(sum(pairs) / len(pairs), rel=1e-4)
        table.zero_()
    table.copy_(kept)


def test_the_same_sentence_twice_does_not_move(translator: Translator) -> None:
    found = positions.order_effect(translator, DOG, DOG, {"beam_size": 1})
    assert found.partners == tuple(range(len(found.first)))
    assert found.moved_on.max() == 0.0


def test_other_kinds_of_positions(other: Translator) -> None:
    found = positions.position_table(other, 10)
    assert found.kind == other.config.positions
    assert len(found.wavelengths) == 0
    assert found.table.any() == (found.kind == "learned")
    with pytest.raises(InputError, match="positions must be sinusoidal"):
        positions.shift(other, 1)
    assert all(check.ok for check in positions.sliced(other, "dogs").checks)
    effect = positions.order_effect(other, DOG, CAT, {"beam_size": 1})
    assert effect.moved_off.max() < 1e-5
    assert (effect.moved_on.max() < 1e-5) == (found.kind == "none")


def test_mistakes_are_named(translator: Translator) -> None:
    for call, said in (
        (lambda: positions.position_table(translator, 0), "length"),
        (lambda: positions.shift(translator, 64), "offset"),
        (lambda: positions.shift(translator, -1), "offset"),
        (lambda: positions.order_effect(translator, DOG, "the cat"), "second sentence"),
        (lambda: positions.order_effect(translator, " ", " "), "at least one word"),
    ):
        with pytest.raises(InputError, match=said):
            call()


def test_words_turned_round() -> None:
    assert positions.turned_round(" two  dogs run ") == "run dogs two"
    assert positions.turned_round("") == ""
