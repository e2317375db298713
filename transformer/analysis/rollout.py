"""Attention rollout: how much of each input piece is mixed into a position after several layers.

Abnar and Zuidema 2020 (arXiv 2005.00928), Section 3. Letters: L layers of the encoder, Ld of the decoder, H heads,
S source length, T target length.

**What is assumed.** Heads count the same, so their maps are averaged. A sublayer's output is half its input, carried by
the residual connection, and half what attention brings: A~ = (A + I) / 2, whatever the vectors' true lengths are.
Normalisation, W^V, W^O and the feed-forward sublayer move nothing between positions and are left out. So rollout
approximates how information *may* flow. It does not say which piece decided the output, that is, importance.

**What the split cannot say.** With halves, every row of the decoder has exactly 1 - 2^-l of its mass on the source
after decoder layer l, for any weights of any model: each cross-attention moves half of what is on the target over.
Only how the mass is spread *within* the source and *within* the target is measured. Measured shares for
``self_kept`` and ``cross_kept`` (``AttentionRecord.kept_shares``) make the split meaningful: Kobayashi et al. 2021
(arXiv 2109.07152) found that in their models the residual connection outweighs attention by far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from transformer.errors import InputError, problem

Array = NDArray[np.floating[Any]]


def encoder_rollout(encoder: Array, kept: ArrayLike = 0.5) -> NDArray[np.float32]:
    """Share of each source piece in each position after every encoder layer.

    Layer l is A~_l ... A~_2 A~_1; row i of it is a distribution over the source pieces.

    Args:
        encoder: [L, H, S, S] attention weights, or [L, S, S] heads already combined. Each row is divided by its sum
            after the heads are averaged, so weights times vector norms will do; then heads count by their size. A row
            of zeros attends to nothing and keeps its input.
        kept: share of a sublayer's output that its input makes up, 0 to 1; the paper's is a half. A number, or an
            array that broadcasts to [L, S].

    Returns:
        [L, S, S]

    Raises:
        InputError: arrays of other shapes, or a share outside 0 to 1.
    """
    attended, stays = _mixture("encoder", encoder, kept)
    length = attended.shape[-1]
    _require("encoder", attended.shape, (len(attended), length, length))
    flow = np.eye(length)
    found = np.empty(attended.shape, dtype=np.float32)
    for layer in range(len(attended)):
        flow = attended[layer] @ flow + stays[layer] * flow
        found[layer] = flow
    return found


def decoder_rollout(
    encoder_rollout: Array, decoder: Array, cross: Array, self_kept: ArrayLike = 0.5, cross_kept: ArrayLike = 0.5
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Share of each source piece and of each piece of the target prefix in each decoder position, after every layer.

    Row t starts as all of ``target_input[t]``. Self-attention mixes the rows up to t, source and target shares alike,
    as in the encoder; then cross-attention brings the rows of the encoder's rollout that it looks at. The same
    bookkeeping by layer, with measured vectors in place of halves, is that of Ferrando et al. 2022 (arXiv 2205.11631).
    The module's text says what this cannot show.

    Args:
        encoder_rollout: [S, S] the encoder's last layer, from ``encoder_rollout``.
        decoder: [Ld, H, T, T] causal attention weights, or [Ld, T, T]; rows as in ``encoder_rollout``.
        cross: [Ld, H, T, S] attention weights, or [Ld, T, S].
        self_kept: share that the input makes up in the output of self-attention, broadcast to [Ld, T].
        cross_kept: the same for cross-attention.

    Returns:
        ``source`` [Ld, T, S] and ``target`` [Ld, T, T]. Row t of both together sums to one, and ``target`` is zero on
        pieces after t.

    Raises:
        InputError: arrays whose shapes do not belong together, or a share outside 0 to 1.
    """
    within, self_stays = _mixture("decoder", decoder, self_kept)
    across, cross_stays = _mixture("cross", cross, cross_kept)
    layers, rows, columns = across.shape
    _require("decoder", within.shape, (layers, rows, rows))
    _require("encoder_rollout", encoder_rollout.shape, (columns, columns))
    read = encoder_rollout.astype(np.float64)
    source, target = np.zeros((rows, columns)), np.eye(rows)
    sources = np.empty(across.shape, dtype=np.float32)
    targets = np.empty(within.shape, dtype=np.float32)
    for layer in range(layers):
        source = within[layer] @ source + self_stays[layer] * source
        target = within[layer] @ target + self_stays[layer] * target
        source = across[layer] @ read + cross_stays[layer] * source
        target = cross_stays[layer] * target
        sources[layer], targets[layer] = source, target
    return sources, targets


def _mixture(name: str, maps: Array, kept: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What each row takes from each key, [L, T, S], and what it keeps, [L, T, 1]; a row of both sums to one."""
    if maps.ndim not in (3, 4):
        rule = "must have axes [layers, heads, rows, columns], or [layers, rows, columns] with heads combined"
        raise InputError(problem(name, rule, maps.shape, "give the maps of all layers"))
    mean = maps.mean(axis=1, dtype=np.float64) if maps.ndim == 4 else maps.astype(np.float64)
    total = mean.sum(axis=-1, keepdims=True)
    looks = total > 0.0
    keeps = _shares(f"share kept by {name} attention", kept, mean.shape[:2])
    stays = np.where(looks, keeps, 1.0)
    return mean / np.where(looks, total, 1.0) * (1.0 - stays), stays


def _shares(name: str, kept: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The shares [L, T, 1]."""
    given = np.asarray(kept, dtype=np.float64)
    if not ((given >= 0.0) & (given <= 1.0)).all():
        raise InputError(problem(name, "must be from 0 to 1", kept, "0.5 is the paper's"))
    try:
        return np.broadcast_to(given, shape)[..., None]
    except ValueError:
        raise InputError(problem(name, f"must fit {shape}", given.shape, "give one number for each row")) from None


def _require(name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if found != wanted:
        shown = f"must be {wanted} without its heads to fit the rest"
        raise InputError(problem(name, shown, found, "take all arrays from one record"))
