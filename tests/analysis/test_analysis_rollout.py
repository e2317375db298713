from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from transformer.analysis.rollout import decoder_rollout, encoder_rollout
from transformer.errors import InputError

if TYPE_CHECKING:
    from transformer.engine import Translator

HEADS, T, S = 4, 5, 6


def maps(layers: int, rows: int, columns: int, *, causal: bool = False, seed: int = 0) -> NDArray[np.float32]:
    weights = np.random.default_rng(seed).random((layers, HEADS, rows, columns)) ** 3
    if causal:
        weights *= np.tril(np.ones((rows, columns)))
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


# The encoder.


def test_one_layer_is_the_formula() -> None:
    encoder = maps(1, S, S)
    expected = (encoder[0].mean(axis=0) + np.eye(S)) / 2
    np.testing.assert_allclose(encoder_rollout(encoder)[0], expected, atol=1e-6)


def test_layers_multiply_with_the_later_one_on_the_left() -> None:
    encoder = maps(3, S, S)
    first, second, third = ((layer.mean(axis=0) + np.eye(S)) / 2 for layer in encoder)
    found = encoder_rollout(encoder)
    assert found.shape == (3, S, S)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[1], second @ first, atol=1e-6)
    np.testing.assert_allclose(found[2], third @ second @ first, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, atol=1e-6)


def test_identity_stays_and_uniform_attention_halves_what_is_left() -> None:
    identity = np.broadcast_to(np.eye(S, dtype=np.float32), (3, HEADS, S, S))
    np.testing.assert_allclose(encoder_rollout(identity), identity[:, 0], atol=1e-6)
    found = encoder_rollout(np.full((4, HEADS, S, S), 1 / S, dtype=np.float32))
    for layer in range(4):
        own = 0.5 ** (layer + 1)
        np.testing.assert_allclose(found[layer], own * np.eye(S) + (1 - own) / S, atol=1e-6)


def test_heads_may_come_combined_or_as_sizes() -> None:
    encoder = maps(2, S, S)
    np.testing.assert_allclose(encoder_rollout(encoder.mean(axis=1)), encoder_rollout(encoder), atol=1e-6)
    sizes = encoder * np.array([3.0, 0.0, 0.0, 0.0], dtype=np.float32)[:, None, None]
    np.testing.assert_allclose(encoder_rollout(sizes), encoder_rollout(encoder[:, :1]), atol=1e-6)


def test_a_row_that_looks_nowhere_keeps_what_it_has() -> None:
    encoder = maps(1, S, S)
    encoder[:, :, 2] = 0.0
    np.testing.assert_array_equal(encoder_rollout(encoder)[0, 2], np.eye(S)[2])


def test_the_share_kept_can_be_given() -> None:
    encoder = maps(2, S, S)
    np.testing.assert_allclose(encoder_rollout(encoder, 0.0)[1], encoder[1].mean(0) @ encoder[0].mean(0), atol=1e-6)
    np.testing.assert_allclose(encoder_rollout(encoder, 1.0)[1], np.eye(S), atol=1e-6)
    by_row = np.linspace(0.1, 0.9, S)
    expected = by_row[:, None] * np.eye(S) + (1 - by_row[:, None]) * encoder[0].mean(axis=0)
    np.testing.assert_allclose(encoder_rollout(encoder, by_row)[0], expected, atol=1e-6)


# The decoder.


def test_one_decoder_layer_is_the_formula() -> None:
    read = encoder_rollout(maps(2, S, S))[-1]
    decoder, cross = maps(1, T, T, causal=True, seed=1), maps(1, T, S, seed=2)
    source, target = decoder_rollout(read, decoder, cross)
    np.testing.assert_allclose(source[0], cross[0].mean(axis=0) @ read / 2, atol=1e-6)
    np.testing.assert_allclose(target[0], (decoder[0].mean(axis=0) + np.eye(T)) / 4, atol=1e-6)


def test_six_encoder_and_three_decoder_layers_equal_the_rollout_of_one_large_graph() -> None:
    """The same flow as one chain of products over S + T positions, one matrix for each sublayer."""
    encoder, decoder, cross = maps(6, S, S), maps(3, T, T, causal=True, seed=1), maps(3, T, S, seed=2)
    whole = np.eye(S + T)
    for layer in encoder:
        step = np.eye(S + T)
        step[:S, :S] = (layer.mean(axis=0) + np.eye(S)) / 2
        whole = step @ whole
    expected = []
    for within, across in zip(decoder, cross, strict=True):
        step = np.eye(S + T)
        step[S:, S:] = (within.mean(axis=0) + np.eye(T)) / 2
        whole = step @ whole
        step = np.eye(S + T)
        step[S:, S:] = np.eye(T) / 2
        step[S:, :S] = across.mean(axis=0) / 2
        whole = step @ whole
        expected.append(whole[S:])
    source, target = decoder_rollout(encoder_rollout(encoder)[-1], decoder, cross)
    assert (source.shape, target.shape) == ((3, T, S), (3, T, T))
    np.testing.assert_allclose(np.concatenate([source, target], axis=-1), expected, atol=1e-6)


def test_known_decoders() -> None:
    """Self-attention and encoder that only look at themselves leave the source to cross-attention alone."""
    decoder = np.broadcast_to(np.eye(T, dtype=np.float32), (2, HEADS, T, T))
    cross = np.zeros((2, HEADS, T, S), dtype=np.float32)
    cross[0, :, :, 1] = cross[1, :, :, 4] = 1.0
    source, target = decoder_rollout(np.eye(S, dtype=np.float32), decoder, cross)
    np.testing.assert_allclose(source[1], np.tile([0, 0.25, 0, 0, 0.5, 0], (T, 1)), atol=1e-6)
    np.testing.assert_allclose(target[1], np.eye(T) / 4, atol=1e-6)
    uniform = np.full((2, HEADS, T, S), 1 / S, dtype=np.float32)
    source, _ = decoder_rollout(np.full((S, S), 1 / S, dtype=np.float32), maps(2, T, T, causal=True), uniform)
    np.testing.assert_allclose(source, np.array([0.5, 0.75])[:, None, None] / S * np.ones((T, S)), atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_laws_of_any_decoder(seed: int) -> None:
    decoder, cross = maps(3, T, T, causal=True, seed=seed), maps(3, T, S, seed=seed + 10)
    read = encoder_rollout(maps(4, S, S, seed=seed + 20))[-1]
    source, target = decoder_rollout(read, decoder, cross)
    np.testing.assert_allclose(source.sum(axis=-1) + target.sum(axis=-1), 1.0, atol=1e-6)
    assert (source >= 0).all()
    assert (target >= 0).all()
    assert not target[:, ~np.tril(np.ones((T, T), dtype=bool))].any()
    # The split is fixed by the halves alone, whatever the weights are; only the spread within a side is found out.
    np.testing.assert_allclose(source.sum(axis=-1), np.tile([[0.5], [0.75], [0.875]], T), atol=1e-6)
    # What is written later changes nothing before it.
    short = decoder_rollout(read, decoder[:, :, :3, :3], cross[:, :, :3])
    np.testing.assert_allclose(short[0], source[:, :3], atol=1e-6)
    np.testing.assert_allclose(short[1], target[:, :3, :3], atol=1e-6)


def test_given_shares_move_the_split() -> None:
    decoder, cross = maps(2, T, T, causal=True), maps(2, T, S)
    read = np.eye(S, dtype=np.float32)
    kept = np.linspace(0.1, 0.9, 2 * T).reshape(2, T)
    source, target = decoder_rollout(read, decoder, cross, self_kept=0.3, cross_kept=kept)
    np.testing.assert_allclose(source.sum(axis=-1) + target.sum(axis=-1), 1.0, atol=1e-6)
    np.testing.assert_allclose(target[0].sum(axis=-1), kept[0], atol=1e-6)
    source, _ = decoder_rollout(read, decoder, cross, cross_kept=1.0)
    assert not source.any()


def test_a_cross_attention_that_was_switched_off_brings_nothing() -> None:
    decoder, cross = maps(1, T, T, causal=True), np.zeros((1, HEADS, T, S), dtype=np.float32)
    source, target = decoder_rollout(np.eye(S, dtype=np.float32), decoder, cross)
    assert not source.any()
    np.testing.assert_allclose(target.sum(axis=-1), 1.0, atol=1e-6)


def test_a_captured_record_rolls_out(translator: Translator) -> None:
    record = translator.inspect("Two dogs run.", target="Zwei Hunde.")
    flow = encoder_rollout(record.encoder)
    assert flow.shape == (3, len(record.source), len(record.source))
    source, target = decoder_rollout(flow[-1], record.decoder, record.cross)
    np.testing.assert_allclose(source.sum(axis=-1) + target.sum(axis=-1), 1.0, atol=1e-5)


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    read, decoder, cross = np.eye(S, dtype=np.float32), maps(2, T, T, causal=True), maps(2, T, S)
    with pytest.raises(InputError, match=r"decoder must be \(2, 5, 5\).* but it was \(1, 5, 5\)"):
        decoder_rollout(read, decoder[:1], cross)
    with pytest.raises(InputError, match="encoder_rollout must be"):
        decoder_rollout(read[:3, :3], decoder, cross)
    with pytest.raises(InputError, match="encoder must be"):
        encoder_rollout(cross)
    with pytest.raises(InputError, match="encoder must have axes"):
        encoder_rollout(read)
    with pytest.raises(InputError, match="share kept by cross attention must be from 0 to 1"):
        decoder_rollout(read, decoder, cross, cross_kept=1.5)
    with pytest.raises(InputError, match=r"share kept by encoder attention must fit \(2, 6\)"):
        encoder_rollout(maps(2, S, S), np.full(4, 0.5))
