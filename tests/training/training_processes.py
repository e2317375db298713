"""Training runs in processes of their own, which can be killed, or find the disk full at a chosen moment.

``python -m transformer`` needs seconds to import PyTorch. A server process (this file run as a program) imports it once
and forks a child for every run, so that a test can afford dozens of processes.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
KILLED = -signal.SIGKILL


@dataclass(frozen=True)
class Fault:
    """What befalls a run right before one of its file operations: a file opened to be written, renamed or removed."""

    what: str
    """"kill" (SIGKILL, which no program can catch) or "full" (of a file opened to be written: no space for it)."""
    pattern: str = ""
    """Regular expression found in the path; only operations on such paths count."""
    number: int = 1
    """Which of them, from 1."""
    room: int = 0
    """If full: how many bytes more the file may hold."""
    disk: str = ""
    """If full: a folder on a file system of its own, to be filled to the last byte. Otherwise a limit of the system for
    the size of files stands in for the disk: a write beyond it fails as well, after as many bytes as still fit."""


@dataclass(frozen=True)
class Outcome:
    status: int
    """As ``subprocess`` gives it: negative if a signal ended the process."""
    said: str

    @property
    def last_line(self) -> str:
        return self.said.rstrip("\n").replace("\r", "\n").rpartition("\n")[2].strip()


class Server:
    """Starts runs, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._child: int | None = None
        self._answer()

    def start(self, arguments: Sequence[str], fault: Fault | None = None) -> int:
        """Begin ``python -m transformer ARGUMENTS``; the process id."""
        assert self._process.stdin is not None
        if self._child is not None:  # a test that failed left one behind
            kill(self._child)
            self.wait()
        request = {"arguments": list(arguments), "fault": fault and asdict(fault)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        self._child = int(self._answer())
        return self._child

    def wait(self) -> Outcome:
        """For the end of the run that was begun."""
        self._child = None
        return Outcome(*self._answer())

    def run(self, arguments: Sequence[str], fault: Fault | None = None) -> Outcome:
        self.start(arguments, fault)
        return self.wait()

    @property
    def root(self) -> Path:
        """The server's own view of the file system: it may have mounts that this process has not."""
        return Path("/proc", str(self._process.pid), "root")

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError("the server of training processes has ended")
        return json.loads(line)


@contextlib.contextmanager
def serving(prefix: Sequence[str] = ()) -> Iterator[Server]:
    """A server; ``prefix`` is a command that runs the command behind it."""
    command = [*prefix, sys.executable, __file__]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Server(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # which ends the server
            process.wait(30)


def fresh(arguments: Sequence[str]) -> subprocess.Popen[str]:
    """``python -m transformer ARGUMENTS`` as a user starts it."""
    command = [sys.executable, "-m", "transformer", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True)


def kill(process: int) -> None:
    """SIGKILL, unless it has ended by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def serve() -> None:
    """Read requests, a JSON object a line; answer each by a process id, and by status and output once that ended."""
    import torch

    import transformer.cli.commands
    import transformer.training.run  # noqa: F401

    torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # imports a good deal more
    gc.freeze()  # otherwise every child would go through all of that, and copy it
    print(json.dumps("ready"), flush=True)
    while line := sys.stdin.readline():
        request = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _become_a_run(request["arguments"], request["fault"], writer)
        os.close(writer)
        print(json.dumps(child), flush=True)
        with os.fdopen(reader, "rb") as output:
            said = output.read().decode(errors="replace")
        _, status = os.waitpid(child, 0)
        print(json.dumps([os.waitstatus_to_exitcode(status), said]), flush=True)


def _become_a_run(arguments: list[str], fault: dict[str, Any] | None, output: int) -> NoReturn:
    from transformer.cli.main import main

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    # The server's own objects know what the files were before.
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    if fault is not None:
        _await(Fault(**fault))
    try:
        status = main(arguments)
        for thread in threading.enumerate():
            if thread is not threading.main_thread() and not thread.daemon:
                thread.join()
    except SystemExit as ending:
        status = int(ending.code or 0)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # taking down what the server imported would last longer than the run


def _await(fault: Fault) -> None:
    """Watch the file operations of this process from now on, and let the fault happen at its time."""
    left = fault.number

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if left <= 0 or not (paths := _written(event, arguments)):
            return
        if fault.what == "full" and event != "open":
            return
        if not any(re.search(fault.pattern, path) for path in paths):
            return
        left -= 1
        if left:
            return
        if fault.what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.disk:
            _fill(Path(fault.disk))
        else:
            path = Path(paths[0])
            there = path.stat().st_size if path.is_file() else 0
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (there + fault.room, hard))

    sys.addaudithook(watch)


def _written(event: str, arguments: tuple[Any, ...]) -> list[str]:
    """The paths that an operation changes."""
    if event == "open":
        path, _, flags = arguments
        if not isinstance(path, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return [os.fsdecode(path)]
    elif event in ("os.rename", "os.remove"):
        return [os.fsdecode(path) for path in arguments[: 2 if event == "os.rename" else 1]]
    return []


def _fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


if __name__ == "__main__":
    serve()
