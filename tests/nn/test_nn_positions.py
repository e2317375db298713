"""Positions and dropout: values worked out by hand, and their statistics."""

import math

import pytest
import torch

from transformer.errors import InputError
from transformer.nn.dropout import Dropout, keep_bits
from transformer.nn.positions import Positions, sinusoidal_table


def test_table_interleaves_sine_and_cosine():
    table = sinusoidal_table(3, 4)
    assert table[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    expected = [math.sin(2), math.cos(2), math.sin(2 / 100), math.cos(2 / 100)]  # 10000^(2/4) = 100
    torch.testing.assert_close(table[2], torch.tensor(expected))


def test_an_offset_is_a_rotation_of_every_pair_of_dimensions():
    """PE(pos + k) is a linear map of PE(pos) (paper, Section 3.5)."""
    table, k = sinusoidal_table(40, 16).double(), 7
    for i in range(8):
        angle = k / 10000 ** (2 * i / 16)
        rotation = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]).double()
        pair = table[:, 2 * i : 2 * i + 2]
        torch.testing.assert_close(pair[:-k] @ rotation.T, pair[k:], atol=1e-6, rtol=0)


def test_positions_are_sliced_from_one_table_and_end_somewhere():
    positions = Positions("sinusoidal", 10, 8)
    assert torch.equal(positions(3, 4), positions(0, 10)[3:7])
    assert "table" not in positions.state_dict()
    with pytest.raises(InputError, match="at most 10 pieces"):
        positions(4, 7)
    assert Positions("none", 5, 8)(0, 5).abs().sum() == 0
    assert Positions("learned", 5, 8).table.requires_grad


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_zeroes_the_rounded_share_and_keeps_the_mean(rate):
    torch.manual_seed(0)
    layer, count = Dropout(rate).train(), 400_003
    dropped = layer(torch.ones(count))
    share = float((dropped == 0).float().mean())
    exact = round(rate * 256) / 256
    assert abs(share - exact) < 5 * math.sqrt(exact * (1 - exact) / count)
    assert abs(float(dropped.mean()) - 1) < 0.01
    assert dropped.unique().tolist() == pytest.approx([0.0, 256 / (256 - round(rate * 256))])


def test_dropout_draws_every_byte_of_a_word_alike_and_neighbours_independently():
    torch.manual_seed(1)
    kept = (keep_bits(torch.Size([80_000]), 128, 2) != 0).float()
    by_byte = kept.view(-1, 8).mean(0)
    assert (by_byte - 0.5).abs().max() < 0.03
    assert abs(float(((kept[1:] - 0.5) * (kept[:-1] - 0.5)).mean())) < 0.01


def test_dropout_is_the_identity_outside_training():
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 1001])
def test_dropout_keeps_or_zeroes_every_number_whole(dtype, count):
    torch.manual_seed(2)
    dropout, x = Dropout(0.25).train(), torch.full((count,), -3.0, dtype=dtype)
    values = {value for _ in range(200) for value in dropout(x).tolist()}
    assert values == {0.0, -4.0}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_dropout_and_sum_in_one_go_have_the_gradients_of_both(dtype):
    """The mask is read off the result, and the same sum is made of plain operations."""
    dropout = Dropout(0.3).train()
    x = torch.linspace(1, 2, 600, dtype=dtype).view(20, 30).t().requires_grad_()  # not contiguous
    residual = torch.linspace(-1, 1, 600, dtype=dtype).view(30, 20).requires_grad_()
    total = dropout.added_to(residual, x)
    mask = (total != residual).to(dtype) * (256 / (256 - 77))
    torch.testing.assert_close(total, residual + x * mask, rtol=0.02, atol=0.02)
    gradient = torch.linspace(0, 1, 600, dtype=dtype).view(30, 20)
    total.backward(gradient)
    assert torch.equal(residual.grad, gradient)
    torch.testing.assert_close(x.grad, gradient * mask, rtol=0.01, atol=0.01)
    assert 0.6 < float((mask > 0).float().mean()) < 0.8


def test_sum_without_dropout_is_the_plain_sum():
    x, residual = torch.randn(4, 5), torch.randn(4, 5)
    assert torch.equal(Dropout(0.3).eval().added_to(residual, x), residual + x)
