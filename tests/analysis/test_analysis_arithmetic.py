"""One query of one head against arithmetic done on paper."""

from __future__ import annotations

import math

import numpy as np
import pytest

from transformer.analysis.arithmetic import HeadArithmetic, compared, head_arithmetic, masked_softmax


def by_hand() -> HeadArithmetic:
    """d_k = 4, so sqrt(d_k) = 2: raw scores 2 ln 2, 0 and 6, the last one masked."""
    return head_arithmetic(
        query=np.array([2.0, 0.0, 0.0, 0.0], np.float32),
        keys=np.array([[math.log(2.0), 0.0, 0.0, 0.0], [0.0, 3.0, 4.0, 0.0], [3.0, 0.0, 0.0, 0.0]]),
        values=np.array([[3.0, 0.0, 0.0, 0.0], [0.0, 3.0, 0.0, 0.0], [7.0, 7.0, 7.0, 7.0]], np.float32),
        mask=np.array([True, True, False]),
        outward=np.array([[1.0, 0.0], [0.0, 2.0], [5.0, 5.0], [5.0, 5.0]], np.float32),
        whole=np.array([3.0, 0.0], np.float32),
    )


def test_every_step_is_as_on_paper() -> None:
    found = by_hand()
    assert found.width == 4
    assert found.query_norm == 2.0
    np.testing.assert_allclose(found.key_norms, [math.log(2.0), 5.0, 3.0])
    np.testing.assert_allclose(found.raw_scores, [2 * math.log(2.0), 0.0, 6.0])
    np.testing.assert_allclose(found.scores, [math.log(2.0), 0.0, 3.0])
    np.testing.assert_allclose(found.weights, [2 / 3, 1 / 3, 0.0])
    np.testing.assert_allclose(found.unscaled_weights, [4 / 5, 1 / 5, 0.0])
    np.testing.assert_allclose(found.weighted_sum, [2.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(found.share, [2.0, 2.0])
    assert found.share_norm == pytest.approx(math.sqrt(8.0))
    assert found.whole_norm == 3.0
    assert found.cosine == pytest.approx(1 / math.sqrt(2.0))


def test_what_was_given_and_found_is_kept_and_cannot_be_changed() -> None:
    given = np.ones((3, 4))
    found = head_arithmetic(np.ones(4), given, given, np.ones(3, bool), np.ones((4, 2)), np.ones(2))
    given[:] = 9.0
    assert (found.keys == 1.0).all()
    for array in (found.query, found.keys, found.values, found.mask, found.weights, found.share, found.whole):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


def test_a_share_of_nothing_has_no_direction() -> None:
    nothing = head_arithmetic(np.ones(4), np.ones((3, 4)), np.ones((3, 4)), np.zeros(3, bool), np.ones((4, 2)), [1, 1])
    assert (nothing.weights == 0.0).all()
    assert (nothing.share == 0.0).all()
    assert nothing.cosine is None


def test_a_softmax_stands_large_scores_and_ignores_the_masked() -> None:
    mask = np.array([True, True, False])
    weights = masked_softmax(np.array([1e4, 1e4, 1e300]), mask)
    np.testing.assert_array_equal(weights, [0.5, 0.5, 0.0])
    shifted = masked_softmax(np.array([1.0, 3.0, 9.0]) - 50.0, mask)
    np.testing.assert_allclose(shifted, masked_softmax(np.array([1.0, 3.0, -9.0]), mask))
    assert (masked_softmax(np.array([1.0, 2.0, 3.0]), np.zeros(3, bool)) == 0.0).all()


def test_agreement_passes_and_each_fault_fails_its_check() -> None:
    found = by_hand()
    models = {"scores": found.scores, "pattern": found.weights, "head_output": found.weighted_sum}
    good = compared(found, **{name: array.astype(np.float32) for name, array in models.items()})
    assert good.ok
    assert found.checks == ()
    np.testing.assert_array_equal(good.weights, found.weights)
    for number, name in enumerate(models):
        wrong = models | {name: models[name] + np.eye(len(models[name]))[0] * 1e-2}
        assert [check.ok for check in compared(found, **wrong).checks] == [index != number for index in range(3)]
        broken = models | {name: models[name] * np.nan}
        assert not compared(found, **broken).checks[number].ok
    assert not compared(found, **models | {"scores": found.scores[:2]}).ok
    assert all(check.detail.endswith(".") for check in good.checks)
