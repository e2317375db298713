"""The shape of a model as one frozen value, and the named presets.

Letters used in every docstring of the project: B batch, S source length, T target length, D d_model, H heads,
K = D / H, F feed-forward width, V vocabulary, L layers, M beam size.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from transformer.errors import ConfigError, problem

PAD_ID, UNK_ID, SOS_ID, EOS_ID = 0, 1, 2, 3
SPECIAL_PIECES = ("<PAD>", "<UNK>", "<SOS>", "<EOS>")

LENGTH_PENALTY = 0.6
"""alpha of beam search in the paper (Section 6.1)."""

LONGEST = 65536
"""No model has more positions: their table would fill the memory."""

ACTIVATIONS = ("relu", "gelu")
TYINGS = ("all", "target", "none")
POSITIONS = ("sinusoidal", "learned", "none")


@dataclass(frozen=True)
class ModelConfig:
    """The architecture of one encoder-decoder Transformer (Vaswani et al. 2017); the defaults are the paper's choices.

    Raises:
        ConfigError: a value out of range, or values that contradict each other.
    """

    vocab_size: int
    """V, number of pieces shared by both languages, the four special pieces included."""
    d_model: int = 512
    """D, width of the residual stream (paper, Section 3.1)."""
    heads: int = 8
    """H, attention heads of every attention (Section 3.2.2); K = D / H is the width of one."""
    encoder_layers: int = 6
    decoder_layers: int = 6
    feed_forward: int = 2048
    """F, inner width of the position-wise feed-forward network (Section 3.3)."""
    dropout: float = 0.1
    """Probability of zeroing an element of each sublayer's output and of the embedding sums (Section 5.4)."""
    attention_dropout: float = 0.0
    """Probability of zeroing an attention weight while training (tensor2tensor's addition; the paper names none)."""
    activation_dropout: float = 0.0
    """Probability of zeroing a feed-forward activation while training."""
    activation: str = "relu"
    """"relu" (the paper) or "gelu"."""
    norm_first: bool = False
    """False: LayerNorm(x + Sublayer(x)), the paper. True: x + Sublayer(LayerNorm(x)) and a final norm per stack."""
    tie_embeddings: str = "all"
    """"all": source, target and output share one matrix (Section 3.4); "target": target and output; "none"."""
    positions: str = "sinusoidal"
    """"sinusoidal" (Section 3.5), "learned", or "none"."""
    max_length: int = 512
    """Longest sequence of either side, in pieces with specials; the number of positions that exist."""
    layer_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        for name, low in (
            ("vocab_size", 5),
            ("d_model", 1),
            ("heads", 1),
            ("encoder_layers", 1),
            ("decoder_layers", 1),
            ("feed_forward", 1),
            ("max_length", 2),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise ConfigError(problem(name, f"must be a whole number of at least {low}", value, "correct it"))
        if self.max_length > LONGEST:
            raise ConfigError(problem("max_length", f"must be at most {LONGEST}", self.max_length, "lower it"))
        if self.d_model % self.heads:
            fitting = [h for h in range(1, self.d_model + 1) if self.d_model % h == 0 and h <= 64]
            raise ConfigError(
                problem("heads", f"must divide d_model = {self.d_model}", self.heads, f"choose one of {fitting}")
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ConfigError(
                problem("d_model", "must be even for sinusoidal positions", self.d_model, "use an even width")
            )
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            rate = getattr(self, name)
            if not isinstance(rate, (int, float)) or not 0.0 <= rate < 1.0:
                raise ConfigError(problem(name, "must be at least 0 and below 1", rate, "choose such a probability"))
        if not isinstance(self.layer_norm_eps, float) or not 0.0 < self.layer_norm_eps < 1.0:
            raise ConfigError(problem("layer_norm_eps", "must be between 0 and 1", self.layer_norm_eps, "use 1e-5"))
        for name, allowed in (("activation", ACTIVATIONS), ("tie_embeddings", TYINGS), ("positions", POSITIONS)):
            choice = getattr(self, name)
            if choice not in allowed:
                raise ConfigError(problem(name, f"must be one of {', '.join(allowed)}", choice, "choose one of them"))
        if not isinstance(self.norm_first, bool):
            raise ConfigError(problem("norm_first", "must be true or false", self.norm_first, "choose one of them"))

    @property
    def head_width(self) -> int:
        """K, the width of one head (d_k = d_v in the paper)."""
        return self.d_model // self.heads

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        """Build from plain values; an unknown or missing field is refused by name."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigError(
                problem("model config", "must hold known fields only", unknown, f"known are {sorted(known)}")
            )
        if "vocab_size" not in values:
            raise ConfigError(problem("model config", "must name vocab_size", sorted(values), "add it"))
        return cls(**values)

    @classmethod
    def preset(cls, name: str, vocab_size: int, **overrides: Any) -> ModelConfig:
        """A named size: ``tiny``, ``small``, ``base`` or ``big`` (the last two are the paper's Table 3)."""
        if name not in PRESETS:
            raise ConfigError(problem("preset", f"must be one of {', '.join(PRESETS)}", name, "choose one of them"))
        return cls.from_dict({"vocab_size": vocab_size, **PRESETS[name], **overrides})


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {
        "d_model": 128,
        "heads": 4,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "feed_forward": 256,
        "dropout": 0.3,
    },
    "small": {
        "d_model": 256,
        "heads": 4,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "feed_forward": 1024,
        "dropout": 0.1,
    },
    "base": {"d_model": 512, "heads": 8, "encoder_layers": 6, "decoder_layers": 6, "feed_forward": 2048},
    "big": {
        "d_model": 1024,
        "heads": 16,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "feed_forward": 4096,
        "dropout": 0.3,
    },
}
"""Sizes by name. ``tiny`` is Wu et al. 2021 for Multi30k; ``small`` suits everyday sentences; ``base`` and ``big`` are
rows of the paper's Table 3."""
