"""Ctrl-C and a termination signal, as a request that the loop obeys between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody asked the run to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal = 0

    def __bool__(self) -> bool:
        return self.signal != 0

    @property
    def exit_status(self) -> int:
        """What a shell expects of a program that ended on this signal: 130 for Ctrl-C, 143 for a termination."""
        return 128 + self.signal


@contextmanager
def stop_on_signals(patient: bool = False) -> Iterator[StopRequest]:
    """Collect SIGINT and SIGTERM in a ``StopRequest``. A second Ctrl-C interrupts at once, as Python usually does.

    ``patient`` takes a second one for the first: under ``torchrun`` one Ctrl-C comes twice, from the terminal and from
    the agent.

    Outside the main thread signals cannot be handled; the request then stays empty.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if request and number == signal.SIGINT and not patient:
            raise KeyboardInterrupt
        request.signal = number

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
