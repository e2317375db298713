"""Neighbours, the map, and early against late: against loops, an eigenvalue problem, and vectors made for it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import transformer
from transformer.errors import InputError
from transformer.lessons.embeddings import cosines, neighbours, organised, piece_map, principal_components
from transformer.lessons.tokens import embedding

if TYPE_CHECKING:
    from transformer.engine import Translator

CHOSEN = [10, 11, 40, 77, 150]


@pytest.fixture
def blank(tiny_checkpoint: Path) -> Translator:
    """A model of its own whose embedding a test may set."""
    return transformer.load(tiny_checkpoint)


def rows_of(translator: Translator, numbers: dict[int, list[float]]) -> None:
    """Set some rows of the embedding; the rest become random, with nothing in the first three dimensions."""
    weight = translator.model.source_input.lookup.weight
    torch.manual_seed(5)
    weight.normal_()
    weight[:, :3] = 0.0
    for number, row in numbers.items():
        weight[number] = torch.zeros(weight.size(1))
        weight[number, : len(row)] = torch.tensor(row)


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    dot = sum(float(a) * float(b) for a, b in zip(first, second, strict=True))
    return dot / math.sqrt(sum(float(a) ** 2 for a in first) * sum(float(b) ** 2 for b in second))


def test_neighbours_are_the_best_of_all(translator: Translator) -> None:
    matrix, number = embedding(translator), 20
    others = [i for i in range(4, len(matrix)) if i != number]
    expected = sorted(((cosine(matrix[number], matrix[i]), i) for i in others), reverse=True)
    found = neighbours(translator, number, 7)
    assert [piece.id for piece in found.nearest] == [i for _, i in expected[:7]]
    np.testing.assert_allclose(found.cosines, [value for value, _ in expected[:7]], atol=1e-5)
    values = np.array([value for value, _ in expected])
    assert (found.mean, found.spread) == pytest.approx((values.mean(), values.std()), abs=1e-5)
    assert found.compared == len(matrix) - 5
    assert found.piece.id == number


def test_direction_counts_and_length_does_not(blank: Translator) -> None:
    rows_of(blank, {20: [1, 0, 0], 30: [50, 1, 0], 31: [0.1, 0.1, 0], 32: [-3, 0, 0]})
    found = neighbours(blank, 20, 500)
    assert [piece.id for piece in found.nearest][:2] == [30, 31]
    assert found.nearest[-1].id == 32
    assert found.cosines[[0, 1, -1]].tolist() == pytest.approx([50 / math.sqrt(2501), math.sqrt(0.5), -1.0], abs=1e-6)
    assert len(found.nearest) == found.compared == blank.config.vocab_size - 5


def test_specials_can_be_asked_for_and_are_never_neighbours(blank: Translator) -> None:
    rows_of(blank, {0: [0, 0, 0], 2: [1, 0, 0], 3: [1, 0, 0], 40: [0, 1, 0]})
    assert {piece.id for piece in neighbours(blank, 40, 500).nearest}.isdisjoint(range(4))
    found = neighbours(blank, 0, 3)  # <PAD>, a vector of zeros
    assert found.piece.special
    assert found.cosines.tolist() == [0.0] * 3


def test_cosines_of_every_two(translator: Translator) -> None:
    matrix, found = embedding(translator), cosines(translator, CHOSEN)
    for i, first in enumerate(CHOSEN):
        for j, second in enumerate(CHOSEN):
            assert found[i, j] == pytest.approx(cosine(matrix[first], matrix[second]), abs=1e-5)


def test_components_are_those_of_the_covariance() -> None:
    vectors = np.random.default_rng(1).normal(size=(40, 9)) @ np.diag([5, 3, *[1] * 7])
    points, shares = principal_components(vectors.astype(np.float32))
    values, axes = np.linalg.eigh(np.cov(vectors.T))
    assert shares == pytest.approx((values[-1] / values.sum(), values[-2] / values.sum()), rel=1e-4)
    centred = vectors - vectors.mean(axis=0)
    for place, axis in enumerate((axes[:, -1], axes[:, -2])):
        axis = axis if axis[np.abs(axis).argmax()] > 0 else -axis
        np.testing.assert_allclose(points[:, place], centred @ axis, atol=1e-3)


def test_components_of_few_or_equal_vectors() -> None:
    two = np.array([[1, 0, 0], [0, 1, 0]], dtype=np.float32)
    points, shares = principal_components(two)
    assert shares == pytest.approx((1.0, 0.0))
    assert abs(points[0, 0] - points[1, 0]) == pytest.approx(math.sqrt(2))
    for vectors in (two[:1], two[[0, 0, 0]]):
        points, shares = principal_components(vectors)
        assert (points == 0).all()
        assert shares == (0.0, 0.0)


def test_a_plane_holds_what_lies_in_a_plane(blank: Translator) -> None:
    """Directions of two dimensions lose nothing: distances in the map are those of the directions."""
    angles = {number: 0.4 * place for place, number in enumerate(CHOSEN)}
    rows_of(blank, {number: [2 * math.cos(a), 2 * math.sin(a), 0] for number, a in angles.items()})
    found = piece_map(blank, [*CHOSEN, CHOSEN[0]], companions=0)
    assert [piece.id for piece in found.pieces] == CHOSEN
    assert (found.asked, found.neighbour_of) == (5, (-1,) * 5)
    assert sum(found.shares) == pytest.approx(1.0, abs=1e-6)
    for i, first in enumerate(angles.values()):
        for j, second in enumerate(angles.values()):
            expected = 2 * abs(math.sin((first - second) / 2))
            assert np.linalg.norm(found.points[i] - found.points[j]) == pytest.approx(expected, abs=1e-5)


def test_neighbours_come_with_the_piece_that_brought_them(translator: Translator) -> None:
    found = piece_map(translator, CHOSEN, companions=3)
    numbers = [piece.id for piece in found.pieces]
    assert numbers[: found.asked] == CHOSEN
    assert len(set(numbers)) == len(numbers)
    for number, home in zip(numbers[found.asked :], found.neighbour_of[found.asked :], strict=True):
        assert number in [piece.id for piece in neighbours(translator, CHOSEN[home], 3).nearest]
    wanted = {piece.id for number in CHOSEN for piece in neighbours(translator, number, 3).nearest}
    assert set(numbers) == wanted | set(CHOSEN)


def test_early_and_late(blank: Translator, tiny_checkpoint: Path) -> None:
    late = transformer.load(tiny_checkpoint)
    rows_of(blank, {10: [1, 0, 0], 11: [0, 1, 0], 40: [0, 0, 1]})
    rows_of(late, {10: [1, 0.1, 0], 11: [1, 0, 0], 40: [0, 0, 1]})
    found = organised(blank, late, [10, 11, 40, 10])
    assert [piece.id for piece in found.pieces] == [10, 11, 40]
    near = 1 / math.sqrt(1.01)
    np.testing.assert_allclose(found.first, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(found.last, [[1, near, 0], [near, 1, 0], [0, 0, 1]], atol=1e-6)
    assert found.spreads == pytest.approx((0.0, near / math.sqrt(3)), abs=1e-6)
    assert found.nearest[0][1].id == 11
    assert found.nearest[1][1].id == 10
    assert found.chance == pytest.approx(1 / math.sqrt(32))
    assert found.agreement is None  # the early cosines are all alike


def test_nothing_changes_between_a_model_and_itself(translator: Translator) -> None:
    found = organised(translator, translator, CHOSEN)
    assert found.agreement == pytest.approx(1.0)
    assert found.spreads[0] == found.spreads[1]
    assert all(early == late for early, late in found.nearest)
    above = [found.last[i, j] for i in range(5) for j in range(i + 1, 5)]
    assert found.spreads[1] == pytest.approx(math.sqrt(np.mean(np.square(above))), abs=1e-6)
    assert organised(translator, translator, [10]).spreads == (0.0, 0.0)


def test_random_directions_have_the_spread_of_chance(blank: Translator) -> None:
    blank.model.source_input.lookup.weight.normal_()
    found = organised(blank, blank, range(4, blank.config.vocab_size))
    assert found.spreads[0] == pytest.approx(found.chance, rel=0.1)


def test_mistakes_are_named(translator: Translator) -> None:
    for call, said in (
        (lambda: neighbours(translator, 9999), "piece id"),
        (lambda: neighbours(translator, 5, 0), "count"),
        (lambda: piece_map(translator, []), "pieces"),
        (lambda: piece_map(translator, [5], -1), "companions"),
        (lambda: piece_map(translator, [-1]), "piece id"),
        (lambda: organised(translator, translator, []), "pieces"),
    ):
        with pytest.raises(InputError, match=said):
            call()
