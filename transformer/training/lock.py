"""One run at a time in a folder."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from transformer.errors import TrainingError, problem


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; the system lets go when the process ends, however it ends.

    Where the system has no such locks (Windows), nothing is held.

    Raises:
        TrainingError: another process holds it.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TrainingError(
                problem(
                    "--out", "must not be in use by another run", str(folder.parent), "wait for it, or name another"
                )
            ) from error
        yield
