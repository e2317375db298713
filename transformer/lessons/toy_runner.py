"""The trainings of the toy in one server: one at a time, and the last one kept."""

from __future__ import annotations

import atexit
import tempfile
import threading
from pathlib import Path

from transformer.errors import TransformerError
from transformer.lessons.toy_recipe import PLAN, Plan
from transformer.lessons.toy_run import ToyRun


class RefusedError(TransformerError):
    """A training that cannot begin. The text is a sentence for the visitor."""


class ToyRunner:
    """The trainings of one server: at most one is going on, and the last one is kept until the next begins."""

    def __init__(self, plan: Plan = PLAN, base: Path | None = None) -> None:
        """Nothing is written before ``start``.

        Args:
            plan: what every training is.
            base: where folders are made; the system's folder for temporary files if None.
        """
        self.plan = plan
        self._base = base
        self._lock = threading.Lock()
        self._count = 0
        self._run: ToyRun | None = None

    @property
    def run(self) -> ToyRun | None:
        """The training that is going on, or the last one; None if there was none."""
        return self._run

    def start(self, owner: str) -> ToyRun:
        """Begin a training, if none is going on; the one before is forgotten.

        Raises:
            RefusedError: one is going on, here or in another server, or it cannot be started.
        """
        with self._lock:
            before = self._run
            if before is not None and before.running:
                raise RefusedError("Another visitor's training is running. Yours can start when it has ended.")
            base = self._base or Path(tempfile.gettempdir()).resolve()
            try:
                self._run = ToyRun(self._count + 1, owner, self.plan, base)
            except BlockingIOError as error:
                raise RefusedError(
                    "Another copy of this app on this computer is training just now. Yours can start when it has ended."
                ) from error
            except OSError as error:
                raise RefusedError(f"The training cannot be started: {error.strerror or error}.") from error
            if before is None:
                atexit.register(self.close)
            else:
                before.discard()
            self._count += 1
            return self._run

    def close(self) -> None:
        """End what is going on and remove what was kept."""
        atexit.unregister(self.close)
        with self._lock:
            if self._run is not None:
                self._run.discard()
                self._run = None
            self._count = 0
