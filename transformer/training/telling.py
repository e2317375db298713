"""What a run says on standard error. A log that cannot be written, on a full disk say, must not end the run."""

from __future__ import annotations

import contextlib
import sys


class Voice:
    """Standard error, as it is at the time of each call, but for its errors."""

    def write(self, text: str) -> int:
        """Write what can be written."""
        with contextlib.suppress(OSError, ValueError):  # a ValueError: it is closed
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Bring it out, if it can be."""
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()

    def isatty(self) -> bool:
        """Whether a person is looking at it."""
        return sys.stderr.isatty()

    def fileno(self) -> int:
        """Its number; what draws a progress bar asks for the width of the terminal."""
        return sys.stderr.fileno()


VOICE = Voice()


def tell(sentence: str) -> None:
    """Say a sentence."""
    VOICE.write(sentence + "\n")
    VOICE.flush()


def say_nothing(sentence: str) -> None:
    """Do not."""
