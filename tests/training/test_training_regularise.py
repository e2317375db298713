"""R-Drop's loss against the paper's formula by autograd and by hand; the statistics of word dropout."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from transformer.config import EOS_ID, PAD_ID, SOS_ID, UNK_ID
from transformer.errors import ConfigError
from transformer.training.loss import smoothed_cross_entropy
from transformer.training.regularise import r_drop_cross_entropy, word_dropout

ROWS, WIDTH, VOCABULARY = 53, 12, 37
Case = tuple[Tensor, Tensor, Tensor, Tensor]


@pytest.fixture
def case() -> Case:
    """Hidden states of two passes [53, 12], an output embedding [37, 12], labels; float64."""
    generator = torch.Generator().manual_seed(3)
    first = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    second = first + 0.5 * torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator, dtype=torch.float64)
    return first, second, weight, torch.randint(VOCABULARY, (ROWS,), generator=generator)


def of_the_paper(
    first: Tensor, second: Tensor, weight: Tensor, labels: Tensor, smoothing: float, alpha: float
) -> Tensor:
    """L = L_NLL + alpha L_KL of Liang et al. 2021, summed over rows."""
    p, q = (F.log_softmax(hidden @ weight.T, dim=1) for hidden in (first, second))
    both = [F.cross_entropy(logs, labels, label_smoothing=smoothing, reduction="sum") for logs in (p, q)]
    divergence = F.kl_div(q, p.exp(), reduction="sum") + F.kl_div(p, q.exp(), reduction="sum")
    return both[0] + both[1] + alpha * divergence / 2


def by_autograd(case: Case, smoothing: float, alpha: float) -> list[Tensor]:
    """L / 2 and its gradients by the passes and the weight."""
    leaves = [value.detach().clone().requires_grad_() for value in case[:3]]
    loss = of_the_paper(*leaves, case[3], smoothing, alpha) / 2
    loss.backward()
    return [loss.detach(), *(leaf.grad for leaf in leaves)]


def by_chunks(case: Case, *options: Any, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    leaves = [value.detach().clone().to(dtype).requires_grad_() for value in case[:3]]
    loss, _ = r_drop_cross_entropy(*leaves, case[3], *options)
    (scale * loss).backward()
    return [loss.detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("chunk", [1, 5, 50, 53, 256])  # 53 is no multiple of 5, and 50 none of its parts
@pytest.mark.parametrize("alpha", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_it_equals_half_of_the_papers_loss(
    case: Case, dtype: torch.dtype, smoothing: float, alpha: float, chunk: int
) -> None:
    found = by_chunks(case, smoothing, alpha, chunk, scale=3.0, dtype=dtype)  # a gradient from above that is not 1
    expected = by_autograd(case, smoothing, alpha)
    assert found[0].dtype == torch.float32
    torch.testing.assert_close(found[0].double(), expected[0], rtol=1e-6, atol=0)
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.double(), 3.0 * theirs, rtol=1e-5, atol=1e-5)


def test_the_gradient_is_the_slope_of_the_value(case: Case) -> None:
    generator = torch.Generator().manual_seed(4)
    directions = [torch.randn(value.shape, generator=generator, dtype=torch.float64) for value in case[:3]]
    step = 1e-3
    ends = [
        r_drop_cross_entropy(*(v + sign * step * d for v, d in zip(case, directions, strict=False)), case[3], 0.1, 5.0)[
            0
        ]
        for sign in (1, -1)
    ]
    slope = sum((g * d).sum() for g, d in zip(by_chunks(case, 0.1, 5.0)[1:], directions, strict=True))
    assert float(ends[0] - ends[1]) / (2 * step) == pytest.approx(float(slope), rel=0.01)


def test_bfloat16_stays_within_its_rounding(case: Case) -> None:
    found = by_chunks(case, 0.1, 5.0, 5, False, dtype=torch.float32)
    expected = by_autograd(case, 0.1, 5.0)
    assert float(found[0]) == pytest.approx(float(expected[0]), rel=0.01)
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        assert mine.dtype == torch.float32
        assert (mine.double() - theirs).norm() < 0.02 * theirs.norm()


@pytest.mark.parametrize("precise", [True, False])
def test_passes_that_agree_cost_the_plain_loss(case: Case, precise: bool) -> None:
    first, _, weight, labels = (value.float() if value.is_floating_point() else value for value in case)
    plain = smoothed_cross_entropy(first, weight, labels, 0.1, precise=precise)
    for alpha in (1.0, 5.0):  # the divergence is zero, so its weight does not matter
        found = r_drop_cross_entropy(first, first.clone(), weight, labels, 0.1, alpha, 5, precise)
        for mine, theirs in zip(found, plain, strict=True):
            assert float(mine) == pytest.approx(float(theirs), rel=1e-6 if precise else 1e-3)


def test_the_passes_may_be_swapped(case: Case) -> None:
    first, second, weight, labels = case
    one, other = by_chunks(case, 0.1, 5.0), by_chunks((second, first, weight, labels), 0.1, 5.0)
    torch.testing.assert_close(one, [other[0], other[2], other[1], other[3]], rtol=1e-5, atol=1e-5)


def test_a_value_by_hand() -> None:
    """p = (1/2, 1/2), q = (3/4, 1/4), label 0: the divergences are ln(4/3) / 2 and 3/4 ln(3/2) - 1/4 ln 2."""
    weight = torch.eye(2)
    first, second = torch.zeros(1, 2), torch.tensor([[math.log(3.0), 0.0]])
    loss, likelihood = r_drop_cross_entropy(first, second, weight, torch.tensor([0]), 0.0, 4.0)
    mean = (math.log(2) + math.log(4 / 3)) / 2
    divergences = math.log(4 / 3) / 2 + 0.75 * math.log(1.5) - 0.25 * math.log(2)
    assert float(likelihood) == pytest.approx(mean, rel=1e-6)
    assert float(loss) == pytest.approx(mean + 4.0 / 2 * divergences / 2, rel=1e-6)


def test_likelihood_is_the_mean_of_both_passes_and_has_no_gradient(case: Case) -> None:
    first, second, weight, labels = case
    for alpha in (0.0, 5.0):
        loss, likelihood = r_drop_cross_entropy(first.clone().requires_grad_(), second, weight, labels, 0.1, alpha)
        both = sum(F.cross_entropy(hidden @ weight.T, labels, reduction="sum") for hidden in (first, second))
        assert float(likelihood) == pytest.approx(float(both) / 2, rel=1e-6)
        assert loss.requires_grad
        assert not likelihood.requires_grad


def test_large_logits_do_not_overflow() -> None:
    """Passes that are certain of opposite pieces: each divergence is 400, and each pass is wrong by 0 or 400."""
    first, second = torch.full((1, 1), 200.0).requires_grad_(), torch.full((1, 1), -200.0).requires_grad_()
    weight = torch.tensor([[1.0], [-1.0]]).requires_grad_()
    loss, _ = r_drop_cross_entropy(first, second, weight, torch.tensor([0]), 0.0, 1.0)
    loss.backward()
    assert loss.item() == pytest.approx(200.0 + 800.0 / 4)
    assert all(torch.isfinite(leaf.grad).all() for leaf in (first, second, weight))


def test_nothing_is_kept_for_a_backward_pass_that_cannot_come(case: Case) -> None:
    leaves = [value.requires_grad_() for value in case[:3]]
    with torch.no_grad():
        loss, _ = r_drop_cross_entropy(*leaves, case[3], 0.1, 5.0)
    assert not loss.requires_grad
    assert float(loss) == pytest.approx(float(by_autograd(case, 0.1, 5.0)[0]), rel=1e-6)


class LargestTensor(TorchDispatchMode):
    """Remembers how many elements the largest tensor had that any operation made."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for value in made if isinstance(made, tuple | list) else (made,):
            if isinstance(value, Tensor):
                self.elements = max(self.elements, value.numel())
        return made


@pytest.mark.parametrize("precise", [True, False])
def test_the_logits_of_all_rows_are_never_held(precise: bool) -> None:
    rows, width, vocabulary, chunk = 120, 3, 50, 8
    hidden = [torch.randn(rows, width).requires_grad_() for _ in range(2)]
    weight = torch.randn(vocabulary, width).requires_grad_()
    with LargestTensor() as largest:
        loss, _ = r_drop_cross_entropy(*hidden, weight, torch.zeros(rows, dtype=torch.int64), 0.1, 5.0, chunk, precise)
        loss.backward()
    assert largest.elements == max(2 * chunk * vocabulary, rows * width)


def test_no_rows_cost_nothing(case: Case) -> None:
    none = (case[0][:0], case[1][:0], case[2], case[3][:0])
    found = by_chunks(none, 0.1, 5.0)
    assert float(found[0]) == 0.0
    assert not found[3].any()


def test_word_dropout_hides_real_pieces_alone() -> None:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 40, (200, 300), generator=generator)
    before = ids.clone()
    found = word_dropout(ids, 0.2, generator)
    assert torch.equal(ids, before)  # labels may share its memory
    special = (ids == PAD_ID) | (ids == SOS_ID) | (ids == EOS_ID)
    assert torch.equal(found[special], ids[special])
    changed = found != ids
    assert set(found[changed].tolist()) == {UNK_ID}
    real = ~special & (ids != UNK_ID)
    count = int(real.sum())
    # Five standard deviations of a binomial count.
    assert abs(int(changed.sum()) - 0.2 * count) < 5 * math.sqrt(0.2 * 0.8 * count)
    rows = changed.sum(1) / real.sum(1)
    assert float(rows.std()) == pytest.approx(math.sqrt(0.2 * 0.8 / (count / 200)), rel=0.2)  # no row is favoured


def test_word_dropout_leaves_labels_that_are_views_of_its_input() -> None:
    target = torch.randint(4, 40, (5, 9))
    inputs, labels = target[:, :-1], target[:, 1:]
    before = labels.clone()
    assert (word_dropout(inputs, 1.0) == UNK_ID).all()
    assert torch.equal(labels, before)


def test_word_dropout_of_zero_draws_nothing() -> None:
    ids = torch.randint(4, 40, (5, 9))
    state = torch.get_rng_state()
    assert word_dropout(ids, 0.0) is ids
    assert torch.equal(torch.get_rng_state(), state)


def test_word_dropout_follows_the_seed() -> None:
    ids = torch.randint(4, 40, (20, 30))
    torch.manual_seed(5)
    first = word_dropout(ids, 0.3)
    torch.manual_seed(5)
    assert torch.equal(word_dropout(ids, 0.3), first)
    assert torch.equal(word_dropout(ids, 0.3, torch.Generator().manual_seed(5)), first)
    assert not torch.equal(word_dropout(ids, 0.3), first)


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match="word dropout must be from 0 to 1"):
        word_dropout(torch.zeros(1, 1, dtype=torch.int64), rate)
