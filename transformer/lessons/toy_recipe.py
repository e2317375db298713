"""What the app trains while a visitor looks on: the recipe ``reverse``, made small enough for a minute on one core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

LONGEST = 8
"""Most letters of a sequence in the training."""
SNAPSHOTS = (1, *range(20, 200, 20), *range(200, 1561, 40))
"""Updates after which the weights are kept: closer together at the beginning, where more changes."""

SETTINGS: dict[str, object] = {
    "data.generated_pairs": 4000,
    "data.generated_length": LONGEST,
    "model.d_model": 64,
    "model.feed_forward": 128,
    "model.heads": 2,
    "model.encoder_layers": 2,
    "model.decoder_layers": 1,
    "training.epochs": 30,
    "training.batch_tokens": 512,
    "training.learning_rate": 0.002,
    "training.warmup_steps": 100,
    "training.clip_norm": 0.25,
    "training.stop_at": 98.0,
    "training.dev_sentences": 200,
}
"""What differs from the recipe, or decides how long it takes."""

AROUND: dict[str, object] = {
    "training.threads": 1,
    "training.device": "cpu",
    "training.log_every": 10,
    "checkpoint.snapshots": list(SNAPSHOTS),
}
"""What changes nothing about what is learned."""


@dataclass(frozen=True)
class Plan:
    """A training that the app can start."""

    recipe: str = "reverse"
    settings: Mapping[str, object] = field(default_factory=lambda: dict(SETTINGS))
    around: Mapping[str, object] = field(default_factory=lambda: dict(AROUND))
    limit: float = 240.0
    """Seconds after which it is stopped, on a computer too slow or too busy for it."""

    @property
    def epochs(self) -> int:
        """Most passes over the training pairs."""
        return int(str(self.settings["training.epochs"]))

    @property
    def goal(self) -> float:
        """Per cent of the dev sequences exactly right at which it ends before that."""
        return float(str(self.settings["training.stop_at"]))

    def overrides(self, seed: int) -> list[str]:
        """All settings as ``section.key=value``, for ``--set``."""
        values = {**self.settings, **self.around, "training.seed": seed}
        return [f"{key}={json.dumps(value)}" for key, value in values.items()]

    def command(self, seed: int) -> str:
        """The same training by hand, without what changes nothing about what is learned."""
        values = {**self.settings, "training.seed": seed}
        words = " ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
        return f"python -m transformer train {self.recipe} --out runs/{self.recipe} --set {words}"


PLAN = Plan()
