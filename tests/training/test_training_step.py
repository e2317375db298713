"""One update of the weights, against the same made of PyTorch's plain parts."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.config import ModelConfig
from transformer.nn.model import Transformer
from transformer.text.batching import Batch, Example, collate
from transformer.training.sections import TrainingSection
from transformer.training.step import Stepper, Update

CPU = torch.device("cpu")
PLAIN = TrainingSection(
    precision="float32", learning_rate=0.5, warmup_steps=4, clip_norm=0.5, device="cpu", epsilon=1.0
)  # with so large an epsilon Adam does not turn the rounding of small gradients into whole steps
EXAMPLES: list[Example] = [((2, *range(5, 6 + n), 3), tuple(range(9, 10 + n))) for n in (1, 4, 2, 6)]


def model(dropout: float = 0.0) -> Transformer:
    torch.manual_seed(1)
    config = ModelConfig(
        30, d_model=16, heads=2, encoder_layers=1, decoder_layers=2, feed_forward=24, dropout=dropout, max_length=16
    )
    return Transformer(config)


def weights(of: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in of.parameters()])


def batch(*indices: int) -> Batch:
    return collate(EXAMPLES, indices)


def test_an_update_is_that_of_plain_parts() -> None:
    mine, plain = model(), model()
    stepper = Stepper(mine, PLAIN, CPU)
    adam = torch.optim.Adam(plain.parameters(), betas=(0.9, 0.98), eps=1.0)
    for step in range(1, 7):
        whole = batch(0, 1, 2, 3)
        logits = plain.eval()(whole.source, whole.target_input)
        loss = F.cross_entropy(logits.flatten(0, 1), whole.target_output.flatten(), ignore_index=0, label_smoothing=0.1)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        for group in adam.param_groups:
            group["lr"] = 0.5 * min(step / 4, math.sqrt(4 / step))
        adam.step()
        adam.zero_grad()
        found = stepper.update([whole])
        assert found.loss == pytest.approx(float(loss.detach()), rel=1e-5)
        assert found.gradient_norm == pytest.approx(float(norm), rel=1e-4)
        assert found.target_tokens == whole.target_tokens
        assert not found.stopped
        torch.testing.assert_close(weights(mine), weights(plain), atol=2e-5, rtol=1e-4)


def test_micro_batches_add_up_to_the_batch_they_are_cut_from_and_fillers_count_for_nothing() -> None:
    whole, cut, filled = model(), model(), model()
    one = Stepper(whole, PLAIN, CPU).update([batch(0, 1, 2, 3)])
    two = Stepper(cut, PLAIN, CPU).update([batch(0, 1), batch(2, 3)])
    three = Stepper(filled, PLAIN, CPU).update([batch(0, 1), batch(2, 3), batch(1, 1)], fillers=1, target_tokens=21)
    assert one.target_tokens == 21
    for other in (two, three):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-4)
    torch.testing.assert_close(weights(cut), weights(whole), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(weights(filled), weights(cut), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [{}, {"r_drop": 2.0}, {"source_word_dropout": 0.3, "target_word_dropout": 0.3}, {"precision": "bfloat16"}],
)
def test_what_an_update_draws_follows_from_the_seed_and_its_number(changes: dict[str, Any]) -> None:
    def run(seed: int, disturbed: bool) -> list[float]:
        stepper = Stepper(model(0.3), replace(PLAIN, seed=seed, **changes), CPU)
        losses = []
        for _ in range(3):
            if disturbed:
                torch.rand(5)
            losses.append(stepper.update([batch(0, 1), batch(2, 3)]).loss)
        return losses

    assert run(1, False) == run(1, True)
    assert run(1, False) != run(2, False)


def test_r_drop_of_a_model_without_dropout_is_the_plain_loss() -> None:
    plain = Stepper(model(), PLAIN, CPU).update([batch(0, 1, 2)])
    twice = Stepper(model(), replace(PLAIN, r_drop=5.0), CPU).update([batch(0, 1, 2)])
    assert twice.loss == pytest.approx(plain.loss, rel=1e-5)
    assert twice.gradient_norm == pytest.approx(plain.gradient_norm, rel=1e-3)


def test_r_drop_begins_after_so_many_updates() -> None:
    def run(**changes: Any) -> list[Update]:
        stepper = Stepper(model(0.3), replace(PLAIN, **changes), CPU)
        return [stepper.update([batch(0, 1)]) for _ in range(4)]

    plain, late, drop = run(), run(r_drop=5.0, r_drop_after=2), run(r_drop=5.0)
    assert [update.passes for update in late] == [1, 1, 2, 2]
    assert [update.passes for update in drop] == [2] * 4
    assert [update.loss for update in late[:2]] == [update.loss for update in plain[:2]]
    assert late[2].loss > plain[2].loss  # of two passes, and the distance between them


def test_compiling_takes_a_function_of_the_model_and_leaves_the_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[Any, dict[str, Any]]] = []
    used: list[int] = []

    def compile_(function: Callable[..., Tensor], **options: Any) -> Callable[..., Tensor]:
        compiled.append((function, options))

        def run(*arguments: Tensor) -> Tensor:
            used.append(len(arguments))
            return function(*arguments)

        return run

    monkeypatch.setattr(torch, "compile", compile_)
    raw = model()
    before = copy.copy(raw.__dict__)
    stepper = Stepper(raw, replace(PLAIN, compile=True), CPU)
    assert [(function, options) for function, options in compiled] == [(raw.training_hidden, {"dynamic": True})]
    stepper.update([batch(0, 1)])
    assert used == [2]
    assert stepper.model is raw
    assert raw.__dict__.keys() == before.keys()
    assert all("compile" not in name and "_orig" not in name for name, _ in raw.named_parameters())
    stepper = Stepper(model(), PLAIN, CPU)
    stepper.update([batch(0, 1)])
    assert len(compiled) == 1


def test_a_process_that_was_asked_to_stop_says_so() -> None:
    assert Stepper(model(), PLAIN, CPU).update([batch(0)], stop=True).stopped
