"""A record made by hand: odd pieces, equal pieces, an unknown one, and weights that are easy to recognise."""

from __future__ import annotations

import numpy as np
import pytest

from transformer.capture.record import AttentionRecord, Check
from transformer.text.tokenizer import Piece

SOURCE = ("<SOS>", "dog", "dog", "</s>", "$x_1$", "2019", "你", "<EOS>")
TARGET = ("Hund", "·e", "<b>", "·e")
LANGUAGES = {"source": "English", "target": "German"}


def piece(label: str) -> Piece:
    special = label in ("<SOS>", "<EOS>")
    return Piece(5, label, label, 0, 0 if special else 1, unknown=label == "你", special=special)


def rows(*shape: int) -> np.ndarray:
    weights = np.random.default_rng(3).random(shape, dtype=np.float32)
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.fixture
def record() -> AttentionRecord:
    written, read = (*TARGET, "<EOS>"), ("<SOS>", *TARGET)
    mask = np.tril(np.ones((5, 5), dtype=bool))
    decoder = rows(2, 4, 5, 5) * mask
    decoder /= decoder.sum(axis=-1, keepdims=True)
    return AttentionRecord(
        source_text="dog dog </s> $x_1$ 2019 你",
        target_text="Hunde <b>e",
        source=tuple(map(piece, SOURCE)),
        target_input=tuple(map(piece, read)),
        target_output=tuple(map(piece, written)),
        log_probs=np.log(np.full(5, 0.5, dtype=np.float32)),
        encoder=rows(3, 4, 8, 8),
        decoder=decoder.astype(np.float32),
        cross=rows(2, 4, 5, 8),
        causal_mask=mask,
        checkpoint_sha256="0" * 64,
        checks=(Check("rows sum to one", True, 1e-7, 1e-5, "Every row of every map was added up."),),
    )
