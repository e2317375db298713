"""The loss against PyTorch's own, whose formula it must equal, and against arithmetic on paper."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.training.loss import smoothed_cross_entropy

ROWS, WIDTH, VOCABULARY = 23, 12, 37


@pytest.fixture
def case() -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states [23, 12], an output embedding [37, 12], labels; float64."""
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator, dtype=torch.float64)
    return hidden, weight, torch.randint(VOCABULARY, (ROWS,), generator=generator)


def by_autograd(hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    hidden, weight = hidden.detach().clone().requires_grad_(), weight.detach().clone().requires_grad_()
    loss = F.cross_entropy(hidden @ weight.T, labels, label_smoothing=smoothing, reduction="sum")
    loss.backward()
    return loss.detach(), hidden.grad, weight.grad


@pytest.mark.parametrize("chunk", [1, 5, 8, 23, 256])  # 23 is no multiple of 5 or 8
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_it_equals_cross_entropy_and_its_gradients(
    case: tuple[Tensor, Tensor, Tensor], dtype: torch.dtype, smoothing: float, chunk: int
) -> None:
    hidden, weight, labels = case[0].to(dtype).requires_grad_(), case[1].to(dtype).requires_grad_(), case[2]
    loss, likelihood = smoothed_cross_entropy(hidden, weight, labels, smoothing, chunk)
    (3.0 * loss).backward()  # a gradient from above that is not 1
    expected, hidden_gradient, weight_gradient = by_autograd(*case, smoothing)
    assert loss.dtype == likelihood.dtype == torch.float32
    assert hidden.grad.dtype == weight.grad.dtype == dtype
    torch.testing.assert_close(loss.detach().double(), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(hidden.grad.double(), 3.0 * hidden_gradient, rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(weight.grad.double(), 3.0 * weight_gradient, rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(likelihood.double(), by_autograd(*case, 0.0)[0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bfloat16_stays_within_its_rounding(case: tuple[Tensor, Tensor, Tensor], smoothing: float) -> None:
    hidden, weight, labels = case[0].float().requires_grad_(), case[1].float().requires_grad_(), case[2]
    loss, _ = smoothed_cross_entropy(hidden, weight, labels, smoothing, 5, precise=False)
    loss.backward()
    expected, hidden_gradient, weight_gradient = by_autograd(*case, smoothing)
    assert loss.item() == pytest.approx(float(expected), rel=0.01)
    for found, wanted in ((hidden.grad, hidden_gradient), (weight.grad, weight_gradient)):
        assert found.dtype == torch.float32
        assert (found.double() - wanted).norm() < 0.02 * wanted.norm()
        assert F.cosine_similarity(found.double().flatten(), wanted.flatten(), dim=0) > 0.999


def test_a_smoothed_value_by_hand() -> None:
    """Logits 1, 0, -1 of one row, label 0, e = 0.3: the target distribution is 0.8, 0.1, 0.1."""
    hidden, weight = torch.ones(1, 1), torch.tensor([[1.0], [0.0], [-1.0]])
    normaliser = math.log(math.e + 1 + 1 / math.e)
    loss, likelihood = smoothed_cross_entropy(hidden, weight, torch.tensor([0]), 0.3)
    assert loss.item() == pytest.approx(0.8 * (normaliser - 1) + 0.1 * normaliser + 0.1 * (normaliser + 1), rel=1e-6)
    assert float(likelihood) == pytest.approx(normaliser - 1, rel=1e-6)


def test_large_logits_do_not_overflow() -> None:
    hidden, weight = torch.full((2, 1), 200.0).requires_grad_(), torch.tensor([[1.0], [-1.0]]).requires_grad_()
    loss, _ = smoothed_cross_entropy(hidden, weight, torch.tensor([0, 1]))
    loss.backward()
    assert loss.item() == pytest.approx(400.0)  # 0 where the label is certain, 400 where it is ruled out
    assert torch.isfinite(hidden.grad).all()
    assert torch.isfinite(weight.grad).all()


def test_a_tied_weight_gathers_both_of_its_gradients(case: tuple[Tensor, Tensor, Tensor]) -> None:
    """The matrix that embeds the input is also the one that the loss multiplies with."""
    _, weight, labels = case
    inputs = torch.arange(ROWS) % VOCABULARY

    def gradient(of_mine: bool) -> Tensor:
        table = nn.Parameter(weight.float())
        hidden = torch.tanh(F.embedding(inputs, table))
        if of_mine:
            loss, _ = smoothed_cross_entropy(hidden, table, labels, 0.1, chunk=7)
        else:
            loss = F.cross_entropy(hidden @ table.T, labels, label_smoothing=0.1, reduction="sum")
        loss.backward()
        return table.grad

    torch.testing.assert_close(gradient(True), gradient(False), rtol=1e-5, atol=2e-6)


def test_the_likelihood_has_no_gradient(case: tuple[Tensor, Tensor, Tensor]) -> None:
    hidden, weight, labels = case
    loss, likelihood = smoothed_cross_entropy(hidden.requires_grad_(), weight, labels, 0.1)
    assert loss.requires_grad
    assert not likelihood.requires_grad


def test_nothing_is_kept_for_a_backward_pass_that_cannot_come(case: tuple[Tensor, Tensor, Tensor]) -> None:
    hidden, weight, labels = (value.requires_grad_(value.is_floating_point()) for value in case)
    with torch.no_grad():
        loss, _ = smoothed_cross_entropy(hidden, weight, labels, 0.1)
    assert not loss.requires_grad
    assert loss.item() == pytest.approx(float(by_autograd(*case, 0.1)[0]), rel=1e-6)
