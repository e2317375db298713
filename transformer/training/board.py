"""The figures of a run for TensorBoard, beside its history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformer.errors import ConfigError, problem
from transformer.training.writing import writing

FOLDER = "tensorboard"


class Board:
    """Writes each number of a line of the history as a scalar over the steps, "train/loss" or "dev/dev_bleu".

    Raises:
        ConfigError: the package "tensorboard" is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            rule = "must be false without the package tensorboard"
            raise ConfigError(problem("training.tensorboard", rule, True, "pip install tensorboard")) from error
        self._make = SummaryWriter
        self._folder = folder
        self._writer: Any = None
        self._purge: int | None = None

    def resume_after(self, step: int) -> None:
        """Let what was written of later steps be forgotten."""
        self._purge = step + 1

    def add(self, line: dict[str, Any]) -> None:
        """Write the numbers of a line that has ``kind`` and ``step``.

        Raises:
            TrainingError: they cannot be written.
        """
        with writing("TensorBoard's figures", self._folder):
            if self._writer is None:
                self._writer = self._make(str(self._folder), purge_step=self._purge)
            for name, value in line.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool) and name != "step":
                    self._writer.add_scalar(f"{line['kind']}/{name}", value, line["step"])
            self._writer.flush()
