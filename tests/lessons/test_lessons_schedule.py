"""The warm-up schedule against the paper's formula and numbers, and Adam against its algorithm in numpy."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from transformer.config import EOS_ID, SOS_ID
from transformer.errors import InputError
from transformer.lessons import schedule as lesson
from transformer.lessons.schedule import adam_run, own_schedule, own_settings, schedule
from transformer.training.sections import TrainingSection

if TYPE_CHECKING:
    from transformer.engine import Translator

TEXT, TARGET = "Two dogs run.", "Zwei Hunde rennen."
SETTINGS = TrainingSection(clip_norm=0.5)


@pytest.fixture(scope="module")
def ids(translator: Translator) -> tuple[int, ...]:
    return (*translator.ids_of(TARGET), EOS_ID)


def test_the_paper_s_formula() -> None:
    found = schedule(4000, 100_000, d_model=512)
    steps = found.steps.astype(np.float64)
    np.testing.assert_allclose(found.rates, 512**-0.5 * np.minimum(steps**-0.5, steps * 4000**-1.5))
    assert found.peak == pytest.approx(7.0e-4, rel=0.01)  # 1 / sqrt(512 * 4000)
    assert found.steps[found.rates.argmax()] == 4000
    assert (found.steps[0], found.steps[-1]) == (1, 100_000)
    assert (np.diff(found.steps) > 0).all()


def test_a_peak_of_one_s_own_and_short_trainings() -> None:
    found = schedule(700, 3695, peak=0.0035)
    assert found.rates.max() == found.peak == 0.0035
    assert found.rates[-1] == pytest.approx(0.0035 * (700 / 3695) ** 0.5)
    assert schedule(4000, 1).steps.tolist() == [1]
    assert schedule(4000, 3).rates.tolist() == pytest.approx([schedule(4000, 1).rates[0] * k for k in (1, 2, 3)])


def test_how_a_checkpoint_was_trained() -> None:
    meta = {"training": {"steps": 3000, "recipe": {"training": {"warmup_steps": 200, "learning_rate": 0.0015}}}}
    settings = own_settings(meta)
    assert settings == dataclasses.replace(TrainingSection(), warmup_steps=200, learning_rate=0.0015)
    found = own_schedule(meta, 64)
    assert (found.peak, found.warmup_steps, found.steps[-1]) == (0.0015, 200, 3000)
    meta["training"]["recipe"]["training"]["learning_rate"] = 0  # the paper's peak
    assert own_schedule(meta, 64).peak == pytest.approx((64 * 200) ** -0.5)


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"training": None},
        {"training": {"recipe": "none", "steps": 0}},
        {"training": {"steps": "many", "recipe": {"training": {"seed": 1}}}},
        {"training": {"steps": 5, "recipe": {"training": {"warmup_steps": 0}}}},
    ],
)
def test_a_checkpoint_that_does_not_say(meta: dict) -> None:
    assert own_schedule(meta, 64) is None


def test_values_of_another_type_are_the_usual_ones() -> None:
    section = {"beta1": "high", "beta2": True, "clip_norm": float("nan"), "epochs": 2.5, "label_smoothing": 0, "new": 1}
    assert own_settings({"training": {"recipe": {"training": section}}}) == TrainingSection(label_smoothing=0)


def test_the_model_stays_as_it_is(translator: Translator, ids: tuple[int, ...]) -> None:
    before = {name: value.clone() for name, value in translator.model.state_dict().items()}
    first = adam_run(translator, TEXT, ids, [0.01, 0.01], SETTINGS)
    after = translator.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert not any(parameter.requires_grad for parameter in translator.model.parameters())
    again = adam_run(translator, TEXT, ids, [0.01, 0.01], SETTINGS)
    np.testing.assert_array_equal(first.losses, again.losses)


def test_loss_and_gradient_are_those_of_plain_torch(translator: Translator, ids: tuple[int, ...]) -> None:
    run = adam_run(translator, TEXT, ids, [1e-3], SETTINGS)
    model = type(translator.model)(translator.config)
    model.load_state_dict(translator.model.state_dict())
    model.eval()
    logits = model(torch.tensor([translator.tokenizer.encode(TEXT)]), torch.tensor([[SOS_ID, *ids[:-1]]]))[0]
    loss = F.cross_entropy(logits, torch.tensor(ids), label_smoothing=0.1)
    loss.backward()
    norm = torch.cat([one.grad.flatten() for one in model.parameters()]).norm()
    assert run.losses[0] == pytest.approx(float(loss.detach()), abs=1e-5)
    assert run.norms[0] == pytest.approx(float(norm), rel=1e-4)
    largest = max(float(one.grad.abs().max()) for one in model.parameters())
    assert abs(run.followed[0].gradients[0]) == pytest.approx(largest * min(1.0, 0.5 / float(norm)), rel=1e-4)
    name = run.followed[0].name
    path, place = name[: name.index("[")], [int(n) for n in name[name.index("[") + 1 : -1].split(",")]
    value = dict(translator.model.named_parameters())[path][tuple(place)]
    assert run.followed[0].values[0] == pytest.approx(float(value))


def test_adam_by_hand(translator: Translator, ids: tuple[int, ...]) -> None:
    """Kingma and Ba 2015, Algorithm 1, from the gradients alone."""
    rates = [1e-3, 2e-3, 3e-3, 4e-3]
    run = adam_run(translator, TEXT, ids, rates, SETTINGS)
    assert len(run.followed) == 2
    for weight in run.followed:
        m = v = 0.0
        for t, (rate, gradient) in enumerate(zip(rates, weight.gradients, strict=True), start=1):
            m = 0.9 * m + 0.1 * gradient
            v = 0.98 * v + 0.02 * gradient**2
            move = -rate * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)) ** 0.5 + 1e-9)
            assert weight.first[t - 1] == pytest.approx(m, rel=1e-4, abs=1e-12)
            assert weight.second[t - 1] == pytest.approx(v, rel=1e-4, abs=1e-15)
            assert weight.moves[t - 1] == pytest.approx(move, rel=1e-3)
            assert weight.values[t] - weight.values[t - 1] == pytest.approx(move, abs=1e-6)


def test_the_trainer_s_optimizer_does_the_same(translator: Translator, ids: tuple[int, ...]) -> None:
    rates = [1e-3, 2e-3, 5e-3]
    run = adam_run(translator, TEXT, ids, rates, dataclasses.replace(SETTINGS, clip_norm=0.0))
    model = type(translator.model)(translator.config)
    model.load_state_dict(translator.model.state_dict())
    model.eval()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
    source, read = torch.tensor([translator.tokenizer.encode(TEXT)]), torch.tensor([[SOS_ID, *ids[:-1]]])
    losses = []
    for rate in [*rates, 0.0]:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(source, read)[0], torch.tensor(ids), label_smoothing=0.1)
        losses.append(float(loss.detach()))
        loss.backward()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    np.testing.assert_allclose(run.losses, losses, atol=1e-4)
    assert run.losses[0] - run.losses[-1] > 0.01


def test_the_first_update_is_the_rate_whatever_the_gradient(translator: Translator, ids: tuple[int, ...]) -> None:
    large, middling = adam_run(translator, TEXT, ids, [1e-3], SETTINGS).followed
    assert abs(large.gradients[0]) > 2 * abs(middling.gradients[0]) > 0
    for weight in (large, middling):
        assert abs(weight.moves[0]) == pytest.approx(1e-3, rel=1e-3)
        assert np.sign(weight.moves[0]) == -np.sign(weight.gradients[0])


def test_small_steps_lower_the_loss_and_huge_ones_do_not(translator: Translator, ids: tuple[int, ...]) -> None:
    careful = adam_run(translator, TEXT, ids, [1e-3] * 5, SETTINGS).losses
    assert (np.diff(careful) < 0).all()
    assert adam_run(translator, TEXT, ids, [1.0] * 5, SETTINGS).losses[1:].min() > careful[0]


def test_what_cannot_be_updated(translator: Translator, ids: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="at least <EOS>"):
        adam_run(translator, TEXT, (), [1e-3], SETTINGS)
    monkeypatch.setattr(lesson, "LARGEST", 10)
    with pytest.raises(InputError, match="at most 10 parameters"):
        adam_run(translator, TEXT, ids, [1e-3], SETTINGS)
