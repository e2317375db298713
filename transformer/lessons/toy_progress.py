"""How far a training of the toy has come, from what it has written into its folder."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transformer.catalogue import CONFIG, snapshots
from transformer.lessons.toy_recipe import Plan

if TYPE_CHECKING:
    from transformer.lessons.history import Course

OUT, LOG = "run", "log"
"""In the folder of a training: the trainer's own, and what it said."""

RUNNING, FINISHED, STOPPED, LATE, FAILED = "running", "finished", "stopped", "late", "failed"
"""States: at work; ended by itself; stopped by a visitor; stopped at the limit of time; ended by an error."""


@dataclass(frozen=True, eq=False)
class Progress:
    """How far a training has come."""

    state: str
    seconds: float
    """Since it was started, or from its start to its end."""
    step: int
    """Updates, as far as the history tells."""
    epoch: int
    """Epochs that are complete and judged on dev."""
    epochs: int
    """The most there will be."""
    at_most: int
    """The most updates there will be; 0 before the first epoch is over."""
    goal: float
    """Per cent of the dev sequences at which it ends."""
    course: Course | None
    """The history so far; None before its first line."""
    kept: tuple[int, ...]
    """After which updates snapshots were kept."""
    tested: float | None
    """Per cent of the test sequences that the finished model gets exactly right; None before they are counted."""
    said: str
    """What the trainer said last, if it failed."""

    @property
    def trained(self) -> bool:
        """Whether the last update is made, so that only the scores of the finished model are still to come."""
        return 0 < self.at_most <= self.step or (self.exact is not None and self.exact >= self.goal)

    @property
    def exact(self) -> float | None:
        """Per cent of the dev sequences that were exactly right when last counted."""
        return self.course.dev_exact.last if self.course is not None and len(self.course.dev_exact) else None


def read_progress(folder: Path, plan: Plan, state: str, seconds: float, status: int | None) -> Progress:
    """How far a training has come.

    Args:
        folder: of the training, with ``OUT`` and ``LOG`` in it.
        plan: what it was started with.
        state: its state, asked for before: one that has ended writes no more.
        seconds: how long it has been at work.
        status: of its process, as ``subprocess`` gives it; None while it lives.
    """
    from transformer.lessons.history import course

    read = course(folder / OUT)
    evaluated = [] if read is None else [int(step) for step in read.dev_loss.steps]
    trained = [] if read is None else [int(step) for step in read.train_loss.steps[-1:]]
    return Progress(
        state=state,
        seconds=seconds,
        step=max([*trained, *evaluated], default=0),
        epoch=len(evaluated),
        epochs=plan.epochs,
        at_most=evaluated[0] * plan.epochs if evaluated else 0,
        goal=plan.goal,
        course=read,
        kept=tuple(snapshots(folder / OUT)),
        tested=_tested(folder / OUT) if state == FINISHED else None,
        said=_last_words(folder / LOG, status) if state == FAILED else "",
    )


def _last_words(log: Path, status: int | None) -> str:
    """The last line of what it said, or how it ended if it said nothing."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]
    if lines:
        return lines[-1][:400]
    return f"it was ended by signal {-status}." if status is not None and status < 0 else f"it ended with {status}."


def _tested(folder: Path) -> float | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        scores = json.loads((folder / CONFIG).read_bytes())["scores"]
        return next((float(score["value"]) for score in scores if score["part"] == "test"), None)
    return None
