"""One way through the translation, and where on it we stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transformer.webapp.decoding.computing import Strategy
from transformer.webapp.decoding.path import Path
from transformer.webapp.frame import View

if TYPE_CHECKING:
    from transformer.engine import Candidate, DecodingStep, TranslationHypothesis


@dataclass(frozen=True, eq=False)
class Walk:
    """A translation, piece by piece, and the step that is shown."""

    view: View
    strategy: Strategy
    path: Path
    """The forced beginning."""
    hypothesis: TranslationHypothesis
    steps: tuple[DecodingStep, ...]
    step: int
    """From 0: position t of the decoder, which writes piece t + 1."""

    @property
    def now(self) -> DecodingStep:
        """The step that is shown."""
        return self.steps[self.step]

    @property
    def chosen(self) -> Candidate | None:
        """What is written at this step; None where the longest allowed length cut the translation off."""
        return self.now.chosen

    @property
    def before(self) -> tuple[int, ...]:
        """Ids of what was written before this step."""
        return self.hypothesis.ids[: self.step]

    def how(self, place: int) -> str:
        """Who chose the piece at a place: ``typed``, ``picked``, or ``own``."""
        return self.path[place].how if place < len(self.path) else "own"
