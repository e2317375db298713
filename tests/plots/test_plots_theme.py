"""The colours of the three kinds are apart from each other, for every eye and on both backgrounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from transformer.plots.theme import DARK, LIGHT, Palette, mix, palette

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
EYES = {
    "usual": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.052]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.180438], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
)


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(first: str, second: str) -> float:
    dark, light = sorted(linear(colour) @ TO_XYZ[1] for colour in (first, second))
    return float((light + 0.05) / (dark + 0.05))


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=lambda colours: colours.name)
@pytest.mark.parametrize("eye", EYES)
def test_kinds_differ_for_every_eye(colours: Palette, eye: str) -> None:
    seen = [lab(EYES[eye] @ linear(colour)) for colour in (colours.encoder, colours.decoder, colours.cross)]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) >= 10


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=lambda colours: colours.name)
def test_text_is_legible(colours: Palette) -> None:
    for name in ("text", "muted", "encoder", "decoder", "cross", "good", "bad", "warning"):
        for ground in (colours.background, colours.surface):
            assert contrast(getattr(colours, name), ground) >= 4.5, name
    surest = mix(colours.background, colours.probability, 0.55)
    assert contrast(colours.text, surest) >= 4.5


def test_unknown_theme_is_light() -> None:
    assert palette("dark") is DARK
    assert palette("light") is palette(None) is palette("sepia") is LIGHT
