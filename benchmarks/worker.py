"""A system in a process of its own: threads of one toolkit that wait by spinning must not take time from another's."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self


class Worker:
    """Answers requests one after the other, and rests in between.

    Args:
        make: called in the new process with ``arguments``; makes the function that answers requests.
        arguments: what it needs; must survive pickling, as requests and answers must.
    """

    def __init__(self, make: Callable[..., Callable[..., Any]], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def __call__(self, *request: Any) -> Any:
        """The answer to a request.

        Raises:
            RuntimeError: the process could not answer.
        """
        self._pipe.send(request)
        try:
            fine, answer = self._pipe.recv()
        except EOFError:
            fine, answer = False, "the process has ended"
        if not fine:
            raise RuntimeError(f"A benchmarked system failed: {answer}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.close()
        self._process.join(10)
        self._process.kill()


def _serve(pipe: Connection, make: Callable[..., Callable[..., Any]], arguments: tuple[Any, ...]) -> None:
    try:
        answer = make(*arguments)
        while True:
            pipe.send((True, answer(*pipe.recv())))
    except EOFError:
        return
    except Exception as error:  # whatever a toolkit raises is the parent's to tell
        pipe.send((False, repr(error)))
