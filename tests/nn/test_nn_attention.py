"""Attention: the two kernels agree, masks are laws, and values match arithmetic done by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.nn.attention import (
    MultiHeadAttention,
    attention_pattern,
    attention_scores,
    fused_attention,
    training_attention,
)
from transformer.nn.dropout import Dropout
from transformer.nn.masks import causal_mask, decoder_mask, key_mask, padding_mask


class _Everything:
    def __init__(self):
        self.values = {}

    def wants(self, name):
        return True

    def receive(self, name, value):
        self.values[name] = value.clone()


def _random(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    t=st.integers(1, 7),
    s=st.integers(1, 7),
)
def test_fused_equals_explicit_for_any_mask(seed, batch, heads, t, s):
    q, k, v = (
        _random(seed, batch, heads, t, 8),
        _random(seed + 1, batch, heads, s, 8),
        _random(seed + 2, batch, heads, s, 8),
    )
    mask = _random(seed + 3, batch, 1, t, s) > 0.3  # some rows may attend to nothing at all
    explicit = attention_pattern(attention_scores(q, k), mask) @ v
    torch.testing.assert_close(fused_attention(q, k, v, mask), explicit, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        fused_attention(q, k, v, None), attention_pattern(attention_scores(q, k), None) @ v, atol=1e-5, rtol=1e-5
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000), t=st.integers(1, 7), s=st.integers(1, 7), kind=st.sampled_from(["any", "keys", "no"])
)
def test_training_kernel_equals_explicit_in_value_and_gradient(seed, t, s, kind):
    inputs = [_random(seed + i, 2, 3, length, 8).requires_grad_() for i, length in enumerate((t, s, s))]
    mask = {"any": _random(seed + 3, 2, 1, t, s) > 0.3, "keys": _random(seed + 3, 2, 1, 1, s) > 0, "no": None}[kind]
    gradient = _random(seed + 4, 2, 3, t, 8)
    q, k, v = inputs
    found = training_attention(q, k, v, mask, Dropout(0.0))
    expected = attention_pattern(attention_scores(q, k), mask) @ v
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    for one, other in zip(
        torch.autograd.grad(found, inputs, gradient), torch.autograd.grad(expected, inputs, gradient), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_told_that_the_mask_is_causal_the_fused_kernel_gives_the_same():
    q, k, v = (_random(i, 2, 3, 7, 8) for i in range(3))
    mask = causal_mask(7)
    torch.testing.assert_close(
        fused_attention(q, k, v, mask, causal=True), attention_pattern(attention_scores(q, k), mask) @ v
    )


@pytest.mark.parametrize(("device", "rate"), [("meta", 0.0), ("meta", 0.1), ("cpu", 0.0), ("cpu", 0.1)])
def test_only_a_cpu_trains_without_the_fused_kernel(monkeypatch, device, rate):
    """ "meta" stands for a GPU: a device that is no CPU, on which shapes flow and nothing is computed."""
    called = []
    real = fused_attention

    def fused(*arguments):
        called.append(arguments[4:])
        return real(*arguments)

    monkeypatch.setattr("transformer.nn.attention.fused_attention", fused)
    layer = MultiHeadAttention(16, 4, rate).to(device).train()
    x = torch.zeros(2, 5, 16, device=device)
    assert layer(x, x, causal_mask(5, x.device), True).shape == (2, 5, 16)
    assert called == ([(True, rate)] if device == "meta" else [])


def test_training_kernel_drops_out_the_pattern():
    torch.manual_seed(0)
    q, k = torch.zeros(1, 1, 4, 8), torch.zeros(1, 1, 100, 8)
    value = torch.eye(100)[None, None]
    pattern = training_attention(q, k, value, None, Dropout(0.5).train())
    assert {round(x, 3) for x in pattern.flatten().tolist()} == {0.0, 0.02}  # of 1/100 each: gone, or doubled


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), t=st.integers(1, 9), s=st.integers(1, 9))
def test_rows_sum_to_one_and_forbidden_places_are_exactly_zero(seed, t, s):
    scores, mask = _random(seed, 2, 2, t, s) * 20, _random(seed + 1, 2, 1, t, s) > 0
    pattern = attention_pattern(scores, mask)
    allowed = mask.any(-1).expand(2, 2, t)
    torch.testing.assert_close(pattern.sum(-1)[allowed], torch.ones(int(allowed.sum())), atol=1e-6, rtol=0)
    assert (pattern[~mask.expand_as(pattern)] == 0).all()
    assert (pattern.sum(-1)[~allowed] == 0).all()


def test_a_row_with_nothing_to_attend_to_is_zero_with_finite_gradients_in_both_kernels():
    mask = torch.tensor([[True, False], [False, False]])[None, None]
    for kernel in (
        lambda q, k, v: attention_pattern(attention_scores(q, k), mask) @ v,
        lambda q, k, v: fused_attention(q, k, v, mask),
    ):
        q, k, v = (_random(i, 1, 1, 2, 4).requires_grad_() for i in range(3))
        attended = kernel(q, k, v)
        assert (attended[0, 0, 1] == 0).all()
        assert not attended.isnan().any()
        gradients = torch.autograd.grad(attended.sum(), (q, k, v))
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_scores_are_divided_by_the_square_root_of_the_head_width():
    q, k = torch.tensor([[[[2.0, 0.0, 0.0, 0.0]]]]), torch.tensor([[[[3.0, 1.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0]]]])
    torch.testing.assert_close(attention_scores(q, k), torch.tensor([[[[3.0, 0.0]]]]))  # 6 / sqrt(4)
    pattern = attention_pattern(attention_scores(q, k), None)
    torch.testing.assert_close(pattern[0, 0, 0, 0], torch.tensor(math.exp(3) / (math.exp(3) + 1)))


def test_equals_pytorchs_own_multi_head_attention_with_the_same_weights():
    ours = MultiHeadAttention(12, 3, dropout=0.0).eval()
    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True).eval()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.normal_()
        for part, bias in zip((ours.query, ours.key, ours.value), theirs.in_proj_bias.chunk(3), strict=True):
            part.bias.copy_(bias)
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
        x, memory = _random(1, 2, 5, 12), _random(2, 2, 7, 12)
        real = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
        expected, _ = theirs(x, memory, memory, key_padding_mask=~real)
        torch.testing.assert_close(ours(x, memory, key_mask(real)), expected, atol=1e-6, rtol=1e-5)
        ours.train()  # without dropout the training kernel is the same function
        torch.testing.assert_close(ours(x, memory, key_mask(real)), expected, atol=1e-6, rtol=1e-5)


def test_one_head_or_many_need_the_same_parameters():
    count = {h: sum(p.numel() for p in MultiHeadAttention(64, h, 0.0).parameters()) for h in (1, 2, 8)}
    assert set(count.values()) == {4 * 64 * 64 + 4 * 64}


def test_masks_mean_may_attend():
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    ids = torch.tensor([[2, 9, 3, 0], [2, 3, 0, 0]])
    assert padding_mask(ids).tolist() == [[True, True, True, False], [True, True, False, False]]
    joined = decoder_mask(padding_mask(ids))
    assert joined.shape == (2, 1, 4, 4)
    assert joined[1, 0].tolist() == [[True, False, False, False]] + [[True, True, False, False]] * 3


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_pattern_is_seen_before_dropout(rate):
    from transformer.nn.probe import register_hooks, watching

    layer = MultiHeadAttention(8, 2, dropout=rate).train()
    register_hooks(layer)
    sink = _Everything()
    with watching(sink):
        layer(_random(1, 1, 6, 8), _random(2, 1, 6, 8), None)
    torch.testing.assert_close(sink.values["pattern"].sum(-1), torch.ones(1, 2, 6))
