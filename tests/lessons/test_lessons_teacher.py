"""Teacher forcing, cross-entropy and label smoothing against torch, autograd and numbers worked out by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from transformer.config import EOS_ID, SOS_ID
from transformer.errors import InputError
from transformer.lessons.teacher import (
    MOST_TIMED,
    label_view,
    least_loss,
    smoothed_floor,
    teacher_table,
    timing,
    trained_loss,
    wanted_distribution,
)

if TYPE_CHECKING:
    from transformer.engine import Translator

TEXT, TARGET = "Two dogs run.", "Zwei Hunde rennen."


@pytest.fixture(scope="module")
def ids(translator: Translator) -> tuple[int, ...]:
    return (*translator.ids_of(TARGET), EOS_ID)


@pytest.fixture(scope="module")
def logits(translator: Translator, ids: tuple[int, ...]) -> torch.Tensor:
    """[T, V] by one position after the other, each prefix on its own: no row can see its label."""
    source = torch.tensor([translator.tokenizer.encode(TEXT)])
    read = [SOS_ID, *ids[:-1]]
    with torch.inference_mode():
        rows = [translator.model(source, torch.tensor([read[: end + 1]]))[0, -1] for end in range(len(read))]
    return torch.stack(rows).double()


def test_every_row_reads_the_label_of_the_row_before(translator: Translator, ids: tuple[int, ...]) -> None:
    rows = teacher_table(translator, TEXT, ids).rows
    assert [row.position for row in rows] == list(range(len(ids)))
    assert [row.read.id for row in rows] == [SOS_ID, *ids[:-1]]
    assert [row.label.id for row in rows] == list(ids)


def test_probabilities_and_losses(translator: Translator, ids: tuple[int, ...], logits: torch.Tensor) -> None:
    table = teacher_table(translator, TEXT, ids)
    probabilities = torch.softmax(logits, dim=1)
    labels = torch.tensor(ids)
    for t, row in enumerate(table.rows):
        assert row.probability == pytest.approx(float(probabilities[t, ids[t]]), rel=1e-4)
        assert row.best.id == int(logits[t].argmax())
        assert row.best_probability == pytest.approx(float(probabilities[t].max()), rel=1e-4)
        assert row.rank == sum(float(value) > float(logits[t, ids[t]]) for value in logits[t])
        for smoothing in (0.0, 0.1, 0.3):
            expected = F.cross_entropy(logits[t : t + 1], labels[t : t + 1], label_smoothing=smoothing)
            assert row.smoothed(smoothing) == pytest.approx(float(expected), abs=1e-4)
    assert table.vocab_size == logits.shape[1]
    assert table.loss == pytest.approx(float(F.cross_entropy(logits, labels)), abs=1e-4)
    assert table.perplexity == pytest.approx(
        1 / float(np.prod([row.probability for row in table.rows])) ** (1 / len(ids))
    )
    score = translator.score(TEXT, TARGET)
    np.testing.assert_allclose([-row.loss for row in table.rows], score.log_probs, atol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_the_table_adds_up_to_what_the_trainer_lowers(
    translator: Translator, ids: tuple[int, ...], smoothing: float
) -> None:
    table = teacher_table(translator, TEXT, ids)
    assert table.smoothed(smoothing) == pytest.approx(trained_loss(translator, TEXT, ids, smoothing), abs=1e-4)


def test_a_worked_example_of_smoothing() -> None:
    """Four pieces, e = 0.2: the label shall have 0.85, the others 0.05 each."""
    wanted = wanted_distribution(4, 2, 0.2)
    np.testing.assert_allclose(wanted, [0.05, 0.05, 0.85, 0.05])
    floor = -(0.85 * math.log(0.85) + 3 * 0.05 * math.log(0.05))
    assert smoothed_floor(4, 0.2) == pytest.approx(floor)
    assert str(smoothed_floor(4, 0.0)) == "0.0"
    # p = 0.4 on the label and 0.2 on each of the others
    by_hand = -(0.85 * math.log(0.4) + 0.15 * math.log(0.2))
    assert least_loss(np.array([0.4]), 4, 0.2)[0] == pytest.approx(by_hand)
    assert least_loss(np.array([0.85]), 4, 0.2)[0] == pytest.approx(floor)


def test_no_distribution_is_below_the_bound() -> None:
    generator = np.random.default_rng(0)
    for _ in range(200):
        p = generator.dirichlet(np.full(6, 0.5)).clip(1e-9)
        p /= p.sum()
        loss = -(wanted_distribution(6, 1, 0.1) * np.log(p)).sum()
        assert loss >= least_loss(p[1:2], 6, 0.1)[0] - 1e-9
        assert loss >= smoothed_floor(6, 0.1)
    grid = np.linspace(0.001, 0.999, 999)
    assert grid[least_loss(grid, 6, 0.1).argmin()] == pytest.approx(0.9 + 0.1 / 6, abs=1e-3)
    assert grid[least_loss(grid, 6, 0.0).argmin()] == grid[-1]  # without smoothing certainty costs nothing


def test_the_gradient_is_what_autograd_says(translator: Translator, ids: tuple[int, ...], logits: torch.Tensor) -> None:
    position, smoothing = 2, 0.1
    row = logits[position].clone().requires_grad_(True)
    F.cross_entropy(row[None], torch.tensor([ids[position]]), label_smoothing=smoothing).backward()
    view = label_view(translator, TEXT, ids, position, smoothing, count=5)
    assert view.label.id == ids[position]
    assert [one.rank for one in view.shown[:5]] == [0, 1, 2, 3, 4]
    assert ids[position] in [one.piece.id for one in view.shown]
    for one in view.shown:
        assert one.gradient == pytest.approx(float(row.grad[one.piece.id]), abs=1e-6)
    assert sum(one.wanted for one in view.shown) + view.others_wanted == pytest.approx(1.0)
    assert sum(one.probability for one in view.shown) + view.others_probability == pytest.approx(1.0)
    assert len(view.shown) + view.others == logits.shape[1]
    table = teacher_table(translator, TEXT, ids)
    assert view.loss == pytest.approx(table.rows[position].loss)
    assert view.smoothed == pytest.approx(table.rows[position].smoothed(smoothing))
    assert view.smoothed >= view.floor


def test_all_at_once_is_what_one_after_the_other_gives(translator: Translator, ids: tuple[int, ...]) -> None:
    measured = timing(translator, TEXT, ids, rounds=2)
    assert measured.positions == len(ids)
    assert measured.difference < 1e-4
    assert measured.rounds == 2
    assert min(measured.together, measured.cached, measured.anew) > 0
    assert timing(translator, TEXT, ids, rounds=9, budget=0.0).rounds == 2


def test_what_cannot_be_asked(translator: Translator, ids: tuple[int, ...]) -> None:
    for ask in (teacher_table, timing):
        with pytest.raises(InputError, match="at least <EOS>"):
            ask(translator, TEXT, ())
    with pytest.raises(InputError, match=f"from 0 to {len(ids) - 1}"):
        label_view(translator, TEXT, ids, len(ids), 0.1)


def test_the_timing_of_a_long_target_takes_its_first_positions(translator: Translator) -> None:
    measured = timing(translator, TEXT, (5,) * (MOST_TIMED + 8) + (3,), rounds=1)
    assert (measured.positions, measured.rounds) == (MOST_TIMED, 1)
