"""What a snapshot makes of a pair, against the engine's other answers and numpy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import transformer
from transformer.config import EOS_ID
from transformer.errors import InputError
from transformer.lessons.snapshots import MAX_EXTRA, look

if TYPE_CHECKING:
    from transformer.engine import Translator

TEXT, TARGET = "Two dogs run.", "Zwei Hunde rennen."


@pytest.fixture(scope="module")
def ids(translator: Translator) -> tuple[int, ...]:
    return (*translator.ids_of(TARGET), EOS_ID)


def test_a_look(translator: Translator, ids: tuple[int, ...]) -> None:
    found = look(translator, TEXT, ids)
    own = translator.translate(TEXT, beam_size=1, max_extra=MAX_EXTRA).best
    record = translator.inspect(TEXT, target_ids=ids)
    assert (found.text, found.finished) == (own.text, own.finished)
    np.testing.assert_allclose(found.log_probs, record.log_probs, atol=1e-4)
    assert found.loss == pytest.approx(-record.total_log_prob / len(ids), abs=1e-4)
    assert found.probability == pytest.approx(np.exp(record.log_probs.mean()), rel=1e-3)
    rows = record.cross.astype(np.float64)
    entropy = -(rows * np.log(rows)).sum(axis=-1) / np.log(rows.shape[-1])
    np.testing.assert_allclose(found.evenness, entropy.mean(axis=(1, 2)), atol=1e-5)
    assert all(0 <= value <= 1 + 1e-6 for value in found.evenness)


def test_a_target_without_an_end(translator: Translator, ids: tuple[int, ...]) -> None:
    whole, part = look(translator, TEXT, ids), look(translator, TEXT, ids[:-1])
    np.testing.assert_allclose(part.log_probs, whole.log_probs[:-1], atol=1e-5)


def test_even_attention_has_the_largest_entropy(tiny_checkpoint: Path, ids: tuple[int, ...], tmp_path: Path) -> None:
    """Keys of zero give every source piece the same score: a snapshot that knows nothing yet."""
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "tiny")
    weights = load_file(folder / "model.safetensors")
    for name in weights:
        if "cross_attn.key" in name:
            weights[name] = torch.zeros_like(weights[name])
    (folder / "snapshots").mkdir()
    save_file(weights, folder / "snapshots" / "step-000005.safetensors")
    early = look(transformer.load(folder, snapshot=5), TEXT, ids)
    np.testing.assert_allclose(early.evenness, 1.0, atol=1e-5)
    assert max(look(transformer.load(folder), TEXT, ids).evenness) < 0.9999


def test_an_empty_sentence_is_refused(translator: Translator, ids: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="at least one word"):
        look(translator, " ", ids)
