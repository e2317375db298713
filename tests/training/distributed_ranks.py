"""Processes that work together, for tests of ``training.distributed``: what each of them does, and how they start.

This file is a program. With torchrun's variables in the environment it is one of the processes. Without them it is a
server that imports PyTorch once, which takes seconds, and forks the processes of one scene after another.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
KILLED = -signal.SIGKILL
STUCK = 60.0
"""Seconds that a process may take before its test has failed."""


@dataclass(frozen=True)
class Scene:
    """What became of the processes of a scene, by rank."""

    statuses: list[int]
    """As ``subprocess`` gives them: negative if a signal ended the process."""
    said: list[str]
    """Standard error."""
    seconds: list[float]
    """From the death in the scene, if there was one, to the end of each process."""
    results: list[Any]


class Server:
    """Plays scenes, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def play(self, what: str, size: int = 2, **options: Any) -> Scene:
        """Start so many processes with plain environment variables, and wait for all of them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"what": what, "size": size, **options}) + "\n")
        self._process.stdin.flush()
        return Scene(**json.loads(self._process.stdout.readline()))


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    command = [sys.executable, __file__]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Server(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # which ends the server
            process.wait(STUCK)


def under_torchrun(folder: Path, what: str, **options: Any) -> tuple[subprocess.CompletedProcess[str], list[Any]]:
    """Play a scene with two processes started by torchrun; how that ended, and the results of both."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    scene = json.dumps({"what": what, "size": 2, **options})
    process = subprocess.run(
        [*launcher, __file__, scene, str(folder)], env=environment(), capture_output=True, text=True, timeout=STUCK
    )
    return process, [_read(folder / f"{rank}.json") for rank in range(2)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve() -> None:
    import transformer.training.distributed  # noqa: F401

    while line := sys.stdin.readline():
        scene = json.loads(line)
        folder = Path(tempfile.mkdtemp())  # TemporaryDirectory would be removed by the first process that ends
        print(json.dumps(_play(scene, folder)), flush=True)
        shutil.rmtree(folder)


def _play(scene: dict[str, Any], folder: Path) -> dict[str, Any]:
    port, size = free_port(), scene["size"]
    ranks = {}
    for rank in range(size):
        child = os.fork()
        if child == 0:
            number = os.open(folder / f"{rank}.said", os.O_WRONLY | os.O_CREAT)
            os.dup2(number, 1)
            os.dup2(number, 2)
            variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
            os.environ.update({key: str(value) for key, value in variables.items()}, MASTER_ADDR="127.0.0.1")
            _act_and_end(scene, folder)
        ranks[child] = rank
    statuses, ended = [0] * size, [0.0] * size
    limit = time.monotonic() + STUCK / 2
    while ranks:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            rank = ranks.pop(child)
            statuses[rank], ended[rank] = os.waitstatus_to_exitcode(status), time.time()
        elif time.monotonic() > limit:
            for stuck in ranks:
                os.kill(stuck, signal.SIGKILL)
        else:
            time.sleep(0.01)
    death = _read(folder / "death.json") or 0.0
    return {
        "statuses": statuses,
        "said": [(folder / f"{rank}.said").read_text(errors="replace") for rank in range(size)],
        "seconds": [moment - death for moment in ended],
        "results": [_read(folder / f"{rank}.json") for rank in range(size)],
    }


def _act_and_end(scene: dict[str, Any], folder: Path) -> NoReturn:
    """Without the interpreter's own end, which takes as long as all the rest."""
    status = 1
    try:
        status = act(scene, folder)
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _read(path: Path) -> Any:
    return json.loads(path.read_text()) if path.is_file() else None


def act(scene: dict[str, Any], folder: Path) -> int:
    """The part of one process; its exit status. Errors are shown as the command line shows them."""
    from transformer.errors import TransformerError
    from transformer.training import heartbeat

    if scene.get("far"):  # as if every process ran on a machine of its own
        heartbeat._place = lambda: ""
    heartbeat.EVERY = scene.get("every", heartbeat.EVERY)
    try:
        result = {"speak": speak, "report": report, "differ": differ, "die": die}[scene["what"]](scene, folder)
    except TransformerError as error:
        if not getattr(error, "told", False):
            print(error, file=sys.stderr)
        result = {"error": type(error).__name__, "message": str(error), "at": time.time()}
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(result))
    return 2 if "error" in result else 0


def speak(scene: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Join twice, and use everything."""
    import torch
    import torch.distributed

    from transformer.training.distributed import agree, join_world, naming_dead_ranks, sum_tensor, together, wait

    said: list[Any] = []
    for turn in range(2):
        with join_world("cpu") as world, naming_dead_ranks(world):
            mine = torch.arange(3.0) + 10 * world.rank + turn
            total = sum_tensor(mine, world)
            assert total is mine
            value = agree({"from": world.rank, "turn": turn}, world)
            said.append(
                [world.rank, world.size, world.main, total.tolist(), value, together(world, lambda: world.rank)]
            )
            wait(world)
        assert not torch.distributed.is_initialized()
    return {"said": said}


def report(scene: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Fail together, where ``scene["failures"]`` says so, with an error that it names."""
    from transformer import errors
    from transformer.training.distributed import join_world, naming_dead_ranks, together

    with join_world("cpu") as world, naming_dead_ranks(world):

        def action() -> None:
            name, text = scene["failures"].get(str(world.rank), ("", ""))
            if name:
                raise getattr(errors, name, OSError)(text)

        together(world, action)
    return {}


def differ(scene: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Compare the values of ``scene["values"]``."""
    from transformer.training.distributed import join_world, naming_dead_ranks, refuse_difference

    with join_world("cpu") as world, naming_dead_ranks(world):
        refuse_difference("the corpus", scene["values"][world.rank], world)
    return {}


def die(scene: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Sum for ever, until the ranks of ``scene["ranks"]`` end in the way that ``scene["how"]`` says."""
    import torch

    from transformer.errors import TrainingError
    from transformer.training.distributed import join_world, naming_dead_ranks, sum_tensor
    from transformer.training.interrupt import stop_on_signals

    with join_world("cpu") as world, naming_dead_ranks(world), stop_on_signals():
        for _ in range(20):
            sum_tensor(torch.ones(1000), world)
        if world.rank in scene["ranks"]:
            time.sleep(0.2)  # the others are in a sum by then
            (folder / "death.json").write_text(json.dumps(time.time()))
            if scene["how"] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise TrainingError("the loss is no number.") if scene["how"] == "mistake" else KeyError("oh")
        if scene.get("deaf"):
            time.sleep(STUCK)
        while True:
            sum_tensor(torch.ones(1000), world)


if __name__ == "__main__":
    if "RANK" in os.environ:
        sys.exit(act(json.loads(sys.argv[1]), Path(sys.argv[2])))
    serve()
