from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from transformer.analysis.metrics import head_figures
from transformer.config import EOS_ID, SOS_ID
from transformer.engine import Translator
from transformer.lessons.scaling import random_scores, row_variance, softmax, spreads, without_division

TEXT, TARGET = "Two dogs run through the tall grass.", "Zwei Hunde rennen."


@pytest.fixture(scope="module")
def target(translator: Translator) -> list[int]:
    return [*translator.tokenizer.encode_target(TARGET), EOS_ID]


def test_every_head_is_there_and_its_entropy_is_the_record_s(translator: Translator, target: list[int]) -> None:
    found = spreads(translator, TEXT, target)
    record = translator.inspect(TEXT, target_ids=target)
    figures = head_figures(record)
    assert [(one.kind, one.layer, one.head) for one in found] == [(f.kind, f.layer, f.head) for f in figures]
    np.testing.assert_allclose([one.entropy for one in found], [f.entropy for f in figures], atol=1e-5)


def test_without_the_division_the_variance_is_d_k_times_as_much(translator: Translator, target: list[int]) -> None:
    for one in spreads(translator, TEXT, target):
        assert one.undivided_variance == pytest.approx(8 * one.variance)
        assert one.undivided_entropy <= one.entropy + 1e-9  # larger scores can only sharpen a softmax


def test_the_numbers_of_one_masked_head_by_hand(translator: Translator, target: list[int]) -> None:
    found = next(
        one for one in spreads(translator, TEXT, target) if (one.kind, one.layer, one.head) == ("decoder", 2, 3)
    )
    scores = translator.attention_scores(TEXT, target, "decoder", 1)[2].astype(float)
    variances, entropies = [], []
    for row in range(1, len(target)):  # the first may look at one key only
        kept = [scores[row, column] for column in range(row + 1)]
        mean = sum(kept) / len(kept)
        variances.append(sum((score - mean) ** 2 for score in kept) / len(kept))
        powers = [math.exp(score * math.sqrt(8)) for score in kept]
        shares = [power / sum(powers) for power in powers]
        entropies.append(-sum(share * math.log(share) for share in shares))
    assert found.variance == pytest.approx(sum(variances) / len(variances), rel=1e-5)
    assert found.undivided_entropy == pytest.approx(sum(entropies) / len(entropies), rel=1e-4)


def test_without_division_is_a_model_with_longer_queries(translator: Translator, target: list[int]) -> None:
    """The same change by another way: W^Q and its bias times sqrt(d_k)."""
    model = copy.deepcopy(translator.model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "_attn.query." in name:
                parameter.mul_(math.sqrt(8))
    found = without_division(translator, TEXT, target)
    source = torch.tensor([translator.tokenizer.encode(TEXT)])
    for network, ours in ((translator.model, found.log_probs), (model, found.changed_log_probs)):
        rows = torch.log_softmax(network(source, torch.tensor([[SOS_ID, *target[:-1]]]))[0], dim=-1)
        np.testing.assert_allclose(ours, [float(rows[t, y]) for t, y in enumerate(target)], atol=1e-3)


def test_random_scores_have_the_variance_of_the_paper_s_footnote() -> None:
    found = random_scores(keys=20, widths=(1, 16, 256), pairs=40_000)
    np.testing.assert_allclose(found.undivided_variance, found.widths, rtol=0.1)
    np.testing.assert_allclose(found.variance, 1.0, rtol=0.1)
    np.testing.assert_allclose(found.undivided_variance / found.variance, found.widths)
    assert (np.diff(found.undivided_entropy) < 0.0).all()
    assert (np.diff(found.undivided_slope) < 0.0).all()
    assert np.ptp(found.entropy[1:]) < 0.05  # the width no longer matters
    assert (found.undivided_entropy <= found.entropy + 1e-12).all()


def test_the_slope_is_the_trace_of_the_softmax_s_derivative() -> None:
    found = random_scores(keys=5, widths=(4,), pairs=5, seed=9)
    drawn = np.random.default_rng(9)
    query, keys = drawn.standard_normal((1, 1, 4)), drawn.standard_normal((1, 5, 4))
    for factor, slope in ((1.0, found.undivided_slope), (0.5, found.slope)):
        scores = torch.tensor((query * keys).sum(-1)[0] * factor)
        derivative = torch.autograd.functional.jacobian(lambda s: torch.softmax(s, -1), scores)
        assert float(slope[0]) == pytest.approx(float(derivative.trace()))


def test_rows_that_may_look_nowhere() -> None:
    allowed = np.array([[False, False], [True, False]])
    np.testing.assert_array_equal(softmax(np.ones((2, 2)), allowed), [[0.0, 0.0], [1.0, 0.0]])
    assert np.isnan(row_variance(np.ones((2, 2)), allowed))


def test_a_prefix_without_end_can_be_looked_at(translator: Translator) -> None:
    found = spreads(translator, TEXT, [5])
    assert all(np.isnan(one.entropy) for one in found if one.kind == "decoder")  # one row, one key
