"""The pair that all sections of the page /learning are about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """A sentence and the translation that counts as right."""

    source: str
    ids: tuple[int, ...]
    """Of the translation, ``<EOS>`` last if it is complete."""
    target: str
    typed: bool
    """Whether the user typed it; otherwise the model wrote it itself."""

    @property
    def called(self) -> str:
        """What it is, in words."""
        return "the translation that you typed" if self.typed else "the model's own translation"
