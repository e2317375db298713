from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from between_models import SENTENCE, normalising_first

from transformer.config import PAD_ID
from transformer.errors import InputError
from transformer.lessons import normalisation
from transformer.nn.masks import key_mask


def test_the_example_of_the_lesson() -> None:
    found = normalisation.by_hand([1, -1, 3], eps=0.0)
    assert found.mean == 1.0
    assert found.deviations == (0.0, -2.0, 2.0)
    assert found.variance == pytest.approx(8 / 3)
    assert found.root == pytest.approx(math.sqrt(8 / 3))
    assert found.normalised == pytest.approx((0.0, -math.sqrt(1.5), math.sqrt(1.5)))
    assert [round(value, 4) for value in normalisation.by_hand([1, -1, 3], 1e-5).normalised] == [0.0, -1.2247, 1.2247]


def test_equal_numbers_become_zeros() -> None:
    assert normalisation.by_hand([2.0, 2.0], 1e-5).normalised == (0.0, 0.0)


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 13, [1.0, math.nan], [1.0, math.inf], [1.0, 1e9]])
def test_numbers_that_cannot_be_normalised(values: list[float]) -> None:
    with pytest.raises(InputError, match=r"numbers? must be"):
        normalisation.by_hand(values, 1e-5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1, -1, 3", (1.0, -1.0, 3.0)),
        ("[1 −1; 3.5]", (1.0, -1.0, 3.5)),
        ("  2e1\t4 ", (20.0, 4.0)),
        ("", ()),
    ],
)
def test_typed_numbers(text: str, expected: tuple[float, ...]) -> None:
    assert normalisation.numbers_of(text) == expected


@pytest.mark.parametrize("text", ["one, two", "1, <b>", "1.2.3"])
def test_typed_words_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="number must be written in digits"):
        normalisation.numbers_of(text)


def test_by_hand_and_by_array_and_by_torch_agree() -> None:
    values = np.random.default_rng(0).normal(3.0, 5.0, size=(4, 9))
    gain, bias = np.random.default_rng(1).normal(size=(2, 9))
    eps = 1e-3
    expected = torch.nn.functional.layer_norm(
        torch.from_numpy(values), (9,), torch.from_numpy(gain), torch.from_numpy(bias), eps
    )
    np.testing.assert_allclose(normalisation.layer_norm(values, gain, bias, eps), expected.numpy(), rtol=1e-10)
    for row, found in zip(values, normalisation.standardised(values, eps), strict=True):
        np.testing.assert_allclose(found, normalisation.by_hand(row.tolist(), eps).normalised, rtol=1e-10)
    mean, variance = normalisation.mean_and_variance(normalisation.standardised(values, 0.0))
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(variance, 1.0, rtol=1e-12)


def test_parameters_are_those_of_the_weights(translator, tiny_tokenizer, tmp_path: Path) -> None:
    found = normalisation.parameters(translator)
    assert [one.name for one in found[:3]] == [
        "encoder layer 1 · self-attention",
        "encoder layer 1 · feed-forward",
        "encoder layer 2 · self-attention",
    ]
    assert len(found) == 3 * 2 + 2 * 3
    weights = translator.model.state_dict()
    for one in found:
        path = f"{one.stack}.{one.layer}.{one.part}_norm"
        np.testing.assert_array_equal(one.gain, weights[f"{path}.weight"].numpy())
        np.testing.assert_array_equal(one.bias, weights[f"{path}.bias"].numpy())
    names = [one.name for one in normalisation.parameters(normalising_first(tiny_tokenizer, tmp_path / "first"))]
    assert "behind the encoder" in names
    assert "behind the decoder" in names
    assert len(names) == len(set(names)) == 2 * 2 + 2 * 3 + 2


def test_extremes() -> None:
    values = np.array([0.5, 3.0, -2.0, 1.0, 0.0])
    assert normalisation.extremes(values, 2) == [(1, 3.0), (3, 1.0), (2, -2.0), (4, 0.0)]
    assert normalisation.extremes(values[:3], 2) == [(1, 3.0), (0, 0.5), (2, -2.0)]


@pytest.mark.parametrize("first", [False, True], ids=["paper", "normalises first"])
def test_batch_statistics_move_with_padding_and_layer_statistics_do_not(
    first: bool, translator, tiny_tokenizer, tmp_path: Path
) -> None:
    model = normalising_first(tiny_tokenizer, tmp_path / "first") if first else translator
    texts = [SENTENCE, "A man.", "Two dogs run."]
    found = normalisation.padded_batch(model, texts, position=2)
    lengths = [len(model.tokenizer.encode(text)) for text in texts]
    assert found.lengths == tuple(lengths)
    assert found.columns[0] == 0
    for at, extra in enumerate(found.columns):
        vectors = _vectors(model, texts, max(lengths) + extra)
        batch_norm = torch.nn.BatchNorm1d(vectors.size(-1), eps=1e-5, affine=False).train()
        expected = batch_norm(vectors.flatten(0, 1))[2]
        np.testing.assert_allclose(found.batch_normed[at], expected.numpy(), atol=2e-5)
        layer = torch.nn.functional.layer_norm(vectors[0, 2], (vectors.size(-1),))
        np.testing.assert_allclose(found.layer_normed[at], layer.numpy(), atol=2e-5)
        share = 1.0 - sum(lengths) / (3 * (max(lengths) + extra))
        assert found.padding_shares[at] == pytest.approx(share)
    assert found.batch_moved[0] == found.layer_moved[0] == 0.0
    assert found.layer_moved.max() < 1e-6
    assert found.batch_moved[-1] > 0.01
    np.testing.assert_allclose(found.layer_means, found.layer_means[0], atol=1e-6)
    assert np.ptp(found.batch_means, axis=0).max() > 1e-3


def test_padding_stops_where_the_model_ends(translator) -> None:
    long = next(text for text in ("dog " * n for n in range(99)) if len(translator.tokenizer.encode(text)) > 50)
    found = normalisation.padded_batch(translator, [long], 0)
    room = translator.config.max_length - found.lengths[0]
    assert 1 < room < 16
    assert found.columns == tuple(count for count in normalisation.PADDINGS if count <= room)


def test_what_a_batch_cannot_be(translator) -> None:
    with pytest.raises(InputError, match="texts must hold at least one"):
        normalisation.padded_batch(translator, [], 0)
    with pytest.raises(InputError, match="position must be from 0"):
        normalisation.padded_batch(translator, [SENTENCE], 99)


def _vectors(translator, texts: list[str], length: int) -> torch.Tensor:
    """[B, T, D] what the first normalisation reads, from the modules themselves."""
    rows = [translator.tokenizer.encode(text) for text in texts]
    batch = torch.tensor([row + [PAD_ID] * (length - len(row)) for row in rows])
    layer = next(iter(translator.model.encoder))
    with torch.inference_mode():
        entering = translator.model.source_input(batch)
        if translator.config.norm_first:
            return entering
        return entering + layer.self_attn(entering, entering, key_mask(batch != PAD_ID))
