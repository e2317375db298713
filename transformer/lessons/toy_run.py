"""A training of the toy in a process of its own, started by the app and followed while it goes on.

The process is ``python -m transformer train reverse`` with other settings (``toy_recipe``), one thread and a low
priority. It writes what every training writes, into a folder beside the system's temporary files: the history and
snapshots of the weights, which are read here. It ends by itself, or when it is asked to, or at a limit of time, or with
the server (``toy_child``).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transformer.lessons.toy_folders import Folder, Turn, remove_old
from transformer.lessons.toy_progress import FAILED, FINISHED, LATE, LOG, OUT, RUNNING, STOPPED, Progress, read_progress
from transformer.lessons.toy_recipe import Plan

if TYPE_CHECKING:
    from transformer.lessons.toy_glimpse import Glimpse

PATIENCE = 3.0
"""Seconds that a training has to end when it is asked to; then it is killed."""
AWAY = 15.0
"""Seconds after which a visitor who was not heard of counts as gone."""
KEPT_GLIMPSES = 400
"""Of a training, for all sequences together; one is about 20 kB."""

PACKAGES = Path(__file__).resolve().parents[2]
"""The folder that this package lies in."""


class ToyRun:
    """One training; made by ``ToyRunner``. Any thread may ask it anything."""

    def __init__(self, number: int, owner: str, plan: Plan, base: Path) -> None:
        """Start it.

        Args:
            number: from 1; also its seed, so that no two are alike.
            owner: who starts it, by a name that nobody else has.
            plan: what is trained, and for how long at most.
            base: where its folder is made.

        Raises:
            BlockingIOError: a training of another server is going on.
            OSError: it cannot be started.
        """
        self.number, self.owner, self.plan = number, owner, plan
        self.state = RUNNING
        self._lock = threading.Lock()
        self._why = ""
        self._ended_at = 0.0
        self._over = threading.Event()
        self._glimpses: OrderedDict[tuple[int, tuple[str, ...]], Glimpse] = OrderedDict()
        turn = Turn(base)
        try:
            remove_old(base)
            self._folder = Folder(base)
            try:
                self._process = self._start(turn)
            except BaseException:
                self._folder.remove()
                raise
        finally:
            turn.leave()
        self._started_at = self._heard_at = time.monotonic()
        threading.Thread(target=self._supervise, name="toy training", daemon=True).start()

    @property
    def folder(self) -> Path:
        """The run's folder, as ``--out`` names it."""
        return self._folder.path / OUT

    @property
    def running(self) -> bool:
        """Whether it is still going on."""
        return self.state == RUNNING

    @property
    def seconds(self) -> float:
        """Since it was started, or from its start to its end."""
        return (self._ended_at or time.monotonic()) - self._started_at

    @property
    def process_id(self) -> int:
        """Of the trainer."""
        return self._process.pid

    def heard(self, who: str) -> None:
        """Note that a visitor is still there."""
        if who == self.owner:
            self._heard_at = time.monotonic()

    def may_stop(self, who: str) -> bool:
        """Whether a visitor may stop it: its owner, or anybody once the owner has not been heard of for ``AWAY``."""
        return who == self.owner or time.monotonic() - self._heard_at > AWAY

    def stop(self, who: str) -> bool:
        """End it if this visitor may, and wait until it has ended; whether that was so."""
        if not self.may_stop(who):
            return False
        self._end(STOPPED)
        self._over.wait(2 * PATIENCE)
        return True

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end, at most so long; whether it has ended."""
        return self._over.wait(seconds)

    def progress(self) -> Progress:
        """How far it has come, from what it has written."""
        return read_progress(self._folder.path, self.plan, self.state, self.seconds, self._process.returncode)

    def glimpses(self, letters: tuple[str, ...], steps: Sequence[int]) -> list[Glimpse]:
        """What the model made of a sequence after these updates, in their order; kept, so that each costs once.

        Raises:
            TransformerError: a snapshot is missing or damaged.
        """
        from transformer.lessons.toy_glimpse import glimpses

        with self._lock:
            found = {step: self._glimpses[step, letters] for step in steps if (step, letters) in self._glimpses}
        fresh = glimpses(self.folder, letters, [step for step in steps if step not in found])
        found.update({one.step: one for one in fresh})
        with self._lock:
            for one in fresh:
                self._glimpses[one.step, letters] = one
            for step in steps:
                if (step, letters) in self._glimpses:
                    self._glimpses.move_to_end((step, letters))
            while len(self._glimpses) > KEPT_GLIMPSES:
                self._glimpses.popitem(last=False)
        return [found[step] for step in steps]

    def looked(self, letters: tuple[str, ...]) -> list[Glimpse]:
        """What ``glimpses`` has found for a sequence so far, in the order of the updates."""
        with self._lock:
            found = [one for (_, asked), one in self._glimpses.items() if asked == letters]
        return sorted(found, key=lambda one: one.step)

    def discard(self) -> None:
        """End it at once, if need be, and remove its folder."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._over.wait(PATIENCE)
        self._folder.remove()

    def _start(self, turn: Turn) -> subprocess.Popen[bytes]:
        place = self._folder.path
        words = ["train", self.plan.recipe, "--out", str(self.folder), "--set", *self.plan.overrides(self.number)]
        paths = [str(PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
        alone = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        with (place / LOG).open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "transformer.lessons.toy_child", str(place), *words],
                cwd=place,
                env={**os.environ, **alone, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(place)},
                stdin=subprocess.PIPE,  # the thread of its life, see toy_child
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the server's terminal is the server's
                pass_fds=turn.handles,
            )

    def _supervise(self) -> None:
        try:
            self._process.wait(self.plan.limit)
        except subprocess.TimeoutExpired:
            self._end(LATE)
        status = self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._ended_at = time.monotonic()
        self.state = FINISHED if status == 0 else self._why or FAILED
        self._over.set()

    def _end(self, why: str) -> None:
        self._why = self._why or why
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
