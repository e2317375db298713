"""Where a run stands."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Window:
    """Sums since the last "train" line of the history."""

    loss: float = 0.0
    likelihood: float = 0.0
    pieces: int = 0
    seconds: float = 0.0
    flops: float = 0.0


@dataclass
class Progress:
    """Where a run stands; saved with every state."""

    epoch: int = 0
    """Epochs that are complete."""
    updates: int = 0
    """Updates of the current epoch that are complete."""
    step: int = 0
    """Updates of all epochs."""
    seconds: float = 0.0
    """Time spent training, over all resumptions."""
    best: float = -math.inf
    best_epoch: int = 0
    evaluated: dict[int, float] = field(default_factory=dict)
    """Epochs whose weights are kept, oldest first, and their dev figure."""
    without_gain: int = 0
    finished: bool = False
    window: Window = field(default_factory=Window)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Progress:
        """What ``dataclasses.asdict`` made of one."""
        return cls(**{**values, "window": Window(**values["window"])})
