"""The record of a run: one JSON object a line, appended as training goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformer.files import write_atomically
from transformer.training.writing import writing

HISTORY = "history.jsonl"


class History:
    """``history.jsonl`` of a run.

    Lines of kind "train" hold step, epoch, loss (smoothed, nats per piece) and nll, both means since the line before,
    lr, gradient_norm (of the step itself), tokens_per_second (real target pieces), mfu (where the peak of the device is
    known; see ``cost.mfu``), memory_mb (the most that was ever in use), and seconds of training so far. Lines of kind
    "dev" hold step, epoch, dev_loss (nats per piece), dev_bleu with its signature, dev_chrf, dev_exact (per cent), best
    (whether none before was as good), samples (a few translations with source and reference), and seconds.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, **values: Any) -> dict[str, Any]:
        """Add a line, in which floats are kept to six significant digits, and return it.

        Raises:
            TrainingError: it cannot be written.
        """
        rounded = {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in values.items()}
        with writing("history of the run", self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rounded, ensure_ascii=False) + "\n")
        return rounded

    def lines(self) -> list[dict[str, Any]]:
        """All whole lines; a last one that was cut off in a crash is left out."""
        if not self.path.is_file():
            return []
        found = []
        for line in self.path.read_bytes().split(b"\n"):
            try:
                values = json.loads(line)
            except ValueError:  # not UTF-8 counts too: a cut can fall within a letter
                continue
            if isinstance(values, dict):
                found.append(values)
        return found

    def cut_after(self, step: int, epoch: int) -> None:
        """Forget what lies after a state, when a run resumes from it: later steps, and dev lines of later epochs.

        A state can be saved after the last step of an epoch whose dev evaluation is still to come.

        Raises:
            TrainingError: it cannot be written.
        """
        kept = [
            line for line in self.lines() if line["step"] <= step and (line["kind"] != "dev" or line["epoch"] <= epoch)
        ]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept)
        with writing("history of the run", self.path):
            write_atomically(self.path, text.encode())
