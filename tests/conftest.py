"""Fixtures that many tests share: a small model with random weights, its tokenizer, and both as a checkpoint.

The laws under test hold for any weights, so nothing here is trained.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")  # several processes test at once, and each would use all cores

import pytest
import torch

import transformer
from transformer.checkpoint import save_checkpoint
from transformer.config import ModelConfig
from transformer.nn.model import Transformer
from transformer.text.tokenizer import Tokenizer, train_tokenizer

if TYPE_CHECKING:
    from transformer.engine import Translator

SENTENCES = Path(__file__).parent / "assets" / "sentences.tsv"
LANGUAGES = {"source": "English", "target": "German", "source_code": "en", "target_code": "de"}


@pytest.fixture(scope="session")
def sentences() -> list[tuple[str, str]]:
    """Committed pairs of English and German sentences, written for these tests."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    return [(source, target) for source, target in (line.split("\t") for line in lines)]


@pytest.fixture(scope="session")
def tiny_tokenizer(sentences: list[tuple[str, str]]) -> Tokenizer:
    """A joint tokenizer of 200 pieces."""
    return train_tokenizer([side for pair in sentences for side in pair], vocab_size=200)


@pytest.fixture(scope="session")
def tiny_model(tiny_tokenizer: Tokenizer) -> Transformer:
    """Random weights; 3 encoder and 2 decoder layers, so that nothing can mix them up; positions for 64 pieces.

    Biases and norms are moved off their initial zeros and ones, or a fault in them would not show.
    """
    torch.manual_seed(7)
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size,
        d_model=32,
        heads=4,
        encoder_layers=3,
        decoder_layers=2,
        feed_forward=64,
        max_length=64,
    )
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="session")
def tiny_checkpoint(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The tiny model saved in float32; do not write into it."""
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny"
    save_checkpoint(
        folder,
        tiny_model,
        tiny_tokenizer,
        languages=LANGUAGES,
        training={"recipe": "none", "steps": 0},
        data={"name": "nothing", "terms": "none"},
        scores=[{"metric": "BLEU", "value": 0.0, "signature": "none"}],
        examples=["A man is standing on a ladder.", "Two dogs run."],
        dtype="float32",
    )
    return folder


@pytest.fixture(scope="session")
def translator(tiny_checkpoint: Path) -> Translator:
    """The tiny checkpoint, loaded once."""
    return transformer.load(tiny_checkpoint)
