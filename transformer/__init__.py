"""An encoder-decoder Transformer (Vaswani et al. 2017) that can be looked into.

``transformer.load(path)`` gives a ``Translator``; everything that the app shows comes through it. Names are imported
when they are first used, so ``import transformer`` alone does not load PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from transformer.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    DownloadError,
    InputError,
    TrainingError,
    TransformerError,
)

if TYPE_CHECKING:
    from transformer.capture.record import AttentionRecord, Check
    from transformer.decoding.trace import BeamNode, BeamTrace
    from transformer.engine import ScoredTarget, Translation, TranslationHypothesis, Translator, load

_HOMES = {
    "AttentionRecord": "transformer.capture.record",
    "BeamNode": "transformer.decoding.trace",
    "BeamTrace": "transformer.decoding.trace",
    "Check": "transformer.capture.record",
    "ScoredTarget": "transformer.engine",
    "Translation": "transformer.engine",
    "TranslationHypothesis": "transformer.engine",
    "Translator": "transformer.engine",
    "load": "transformer.engine",
}

__all__ = [
    "AttentionRecord",
    "BeamNode",
    "BeamTrace",
    "Check",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "DownloadError",
    "InputError",
    "ScoredTarget",
    "TrainingError",
    "TransformerError",
    "Translation",
    "TranslationHypothesis",
    "Translator",
    "load",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
