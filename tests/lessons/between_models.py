"""A model that normalises first, and what the modules of a model take and give in a plain forward pass."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

import transformer
from transformer.checkpoint import save_checkpoint
from transformer.config import SOS_ID, ModelConfig
from transformer.nn.model import Transformer

if TYPE_CHECKING:
    from transformer.engine import Translator
    from transformer.text.tokenizer import Tokenizer

SENTENCE = "Two dogs run through the snow."
LANGUAGES = {"source": "English", "target": "German", "source_code": "en", "target_code": "de"}


def normalising_first(tokenizer: Tokenizer, folder: Path) -> Translator:
    """Two layers each, GELU, untied, biases and gains off their first values."""
    torch.manual_seed(11)
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        d_model=16,
        heads=2,
        encoder_layers=2,
        decoder_layers=2,
        feed_forward=24,
        activation="gelu",
        norm_first=True,
        tie_embeddings="none",
        max_length=64,
    )
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.eval().requires_grad_(False)
    save_checkpoint(folder, model, tokenizer, languages=LANGUAGES, examples=[], dtype="float32")
    return transformer.load(folder)


def through_modules(translator: Translator, target_ids: tuple[int, ...], sentence: str = SENTENCE) -> dict:
    """By module path, the first input and the output of every module of a plain pass, without batch axis."""
    seen: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def watch(path: str):
        def hook(module, inputs, output):
            seen[path] = (inputs[0][0].clone().numpy(), output[0].clone().numpy())

        return hook

    ends = ("self_attn", "cross_attn", "feed_forward", "_norm", "inner", "outer", "lookup", ".norm", "projection")
    named = [(path, module) for path, module in translator.model.named_modules() if path.endswith(ends)]
    handles = [module.register_forward_hook(watch(path)) for path, module in named]
    try:
        with torch.inference_mode():
            source = torch.tensor([translator.tokenizer.encode(sentence)])
            translator.model(source, torch.tensor([[SOS_ID, *target_ids[:-1]]]))
    finally:
        for handle in handles:
            handle.remove()
    return seen
