"""Where a toy training of the app keeps its files, and whose turn it is: folders and locks that no crash leaves behind.

Both rest on locks of the system, which fall with the process that holds them, however it ends. Where the system has
none (Windows), two servers do not know of each other, and a folder counts as left behind when it is a day old.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "transformer-toy-"
"""What the name of every folder begins with."""
OWNED = "in-use"
"""The file in a folder that its server holds locked."""
DAY = 86400.0


class Turn:
    """The right of this user's servers to train, held by one process at a time.

    The trainer inherits it (``handles``), so it lasts as long as the training even if the server dies first.
    """

    def __init__(self, base: Path) -> None:
        """Take the turn.

        Args:
            base: the folder that all servers share, the system's for temporary files.

        Raises:
            BlockingIOError: a training of another server has it.
            OSError: the lock cannot be made.
        """
        self._handle = _locked(base / f"{PREFIX}{_user()}.lock")

    @property
    def handles(self) -> tuple[int, ...]:
        """For ``pass_fds`` of the process that is to have the turn."""
        return () if self._handle is None else (self._handle,)

    def leave(self) -> None:
        """Give up this process's share; whoever inherited the turn keeps it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class Folder:
    """A folder of this server for one training."""

    def __init__(self, base: Path) -> None:
        """Make it. Only who has the turn may, or it could be taken for one left behind before it is locked.

        Raises:
            OSError: it cannot be made.
        """
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        try:
            self._handle = _locked(self.path / OWNED)
        except OSError:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def remove_old(base: Path) -> int:
    """Remove the folders that servers left behind when they died; how many. Only who has the turn may."""
    count = 0
    for path in _ours(base):
        if _left_behind(path):
            shutil.rmtree(path, ignore_errors=True)
            count += 1
    return count


def _ours(base: Path) -> Iterator[Path]:
    for path in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink() and path.stat().st_uid == _user():
                yield path


def _left_behind(folder: Path) -> bool:
    try:
        handle = _locked(folder / OWNED)
    except OSError:
        return False
    if handle is None:
        return time.time() - folder.stat().st_mtime > DAY
    os.close(handle)
    return True


def _user() -> int:
    return os.getuid() if sys.platform != "win32" else 0


def _locked(path: Path) -> int | None:
    """A handle of a file, made if need be and locked; None where the system has no such locks.

    A link of that name, which somebody else may have put there, is not followed.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle
