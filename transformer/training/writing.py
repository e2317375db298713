"""What a run says when one of its files cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformer.errors import TrainingError, problem
from transformer.files import remedy


@contextmanager
def writing(what: str, path: Path, then: str = "resume") -> Iterator[None]:
    """Around the writing of a file of a run.

    Args:
        what: the file, in words.
        path: the file, or its folder.
        then: what to do once there is space again.

    Raises:
        TrainingError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        cure = f"{remedy(error, 'check it')}, then {then} ({error.strerror or error})"
        raise TrainingError(problem(what, "must be writable", str(path), cure)) from error
