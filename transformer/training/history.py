"""The record of a run: one JSON object a line, appended as training goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformer.files import write_atomically


class History:
    """``history.jsonl`` of a run.

    Lines of kind "train" hold step, epoch, loss (smoothed, nats per piece), nll, lr, gradient_norm, tokens_per_second
    and seconds since the start; lines of kind "dev" hold step, epoch, dev_loss, and dev_bleu with its signature.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, **values: Any) -> None:
        """Add a line; floats are kept to six significant digits."""
        rounded = {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in values.items()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rounded, ensure_ascii=False) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """All whole lines; a last one that was cut off in a crash is left out."""
        if not self.path.is_file():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8").split("\n"):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def cut_after(self, step: int) -> None:
        """Forget what lies after a step, when a run resumes from a state saved there."""
        kept = [line for line in self.lines() if line["step"] <= step]
        write_atomically(self.path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept).encode())
