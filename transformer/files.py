"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import errno
import os
import re
import secrets
from pathlib import Path

_BESIDE = re.compile(r"\..+\.\d+-[0-9a-f]{8}\.tmp")
"""Names of files that are being written; so odd that nobody else gives such a name."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file beside its place, bring it to the disk, and rename it into place.

    A crash leaves the old file or the new one.

    Raises:
        OSError: the folder is missing or cannot be written; ``filename`` is ``path``.
    """
    beside = path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None
        raise
    sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove what ``write_atomically`` left in a folder when its process was killed; nobody may be writing there."""
    for path in folder.glob(".*.tmp"):
        if _BESIDE.fullmatch(path.name):
            path.unlink(missing_ok=True)


def remedy(error: OSError, otherwise: str) -> str:
    """What to do about a file that could not be written: free space, where that was the reason."""
    return "free space" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else otherwise


def sync_folder(folder: Path) -> None:
    """Bring the rename itself to the disk, where the system can open folders."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
