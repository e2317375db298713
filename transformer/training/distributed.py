"""One run on several processes, as ``torchrun`` starts them: joining, speaking to each other, and naming who died."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from transformer.errors import TrainingError, TransformerError, problem
from transformer.training.heartbeat import FAILED, FOLLOWED, LEFT, Watch
from transformer.training.precision import choose_device

JOINING = timedelta(minutes=5)
"""Longest time between the first process and the last one."""
COLLECTIVE = timedelta(minutes=60)
"""Longest time for which processes wait in a collective, while rank 0 evaluates; the dead are noticed otherwise."""
LEAVING = 10.0
"""Most seconds for taking leave."""
LAST_WORD = 0.3
"""Seconds that the others have for reading why rank 0 fails, if the store ends with it."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class World:
    """This process among those that train together."""

    rank: int = 0
    """Number of this process, from 0."""
    size: int = 1
    """How many processes there are, on all machines."""
    local_rank: int = 0
    """Number of this process on its machine, and so of its GPU."""
    watch: Watch | None = field(default=None, repr=False, compare=False)

    @property
    def main(self) -> bool:
        """Whether this process writes, logs and evaluates."""
        return self.rank == 0


ALONE = World()


class ToldElsewhereError(TrainingError):
    """An error that another process reports. The command line ends with the usual status, but says nothing."""

    told = True


@contextlib.contextmanager
def join_world(device: str) -> Iterator[World]:
    """Join the processes that ``torchrun`` started beside this one, and leave them in the end, however it comes.

    Without torchrun's environment variables, or with a WORLD_SIZE of 1, the process is alone and nothing is touched.
    On CUDA each process takes the GPU of its local rank, and tensors there travel by NCCL; everything else by gloo.

    Args:
        device: a recipe's ``device``.

    Raises:
        TrainingError: the variables cannot be, the others do not come, or a machine has too few GPUs.
    """
    world = _from_environment()
    if world.size == 1:
        yield ALONE
        return
    if not dist.is_available():
        remedy = "install one, or train with one process"
        raise TrainingError(problem("torchrun", "needs a PyTorch built with torch.distributed", "without", remedy))
    store, watch = _meet(world)
    try:
        world = replace(world, watch=watch)
        by_nccl = device != "cpu" and torch.cuda.is_available()
        with naming_dead_ranks(world):
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if by_nccl else "cpu:gloo",
                store=store,
                rank=world.rank,
                world_size=world.size,
                timeout=COLLECTIVE,
            )
            kind = agree("cuda" if by_nccl else "cpu", world)
            together(world, lambda: _take_device(device, world.local_rank, kind))
        yield world
    except BaseException as error:
        watch.leave(FOLLOWED if isinstance(error, ToldElsewhereError) else FAILED, _note(error))
        _dissolve(hurried=True)
        watch.others_left(LAST_WORD)
        raise
    watch.leave(LEFT)
    _dissolve(hurried=False)
    watch.others_left(LEAVING)


def sum_tensor(tensor: Tensor, world: World) -> Tensor:
    """Add up a tensor over all processes, in place."""
    if world.size > 1:
        dist.all_reduce(tensor)
    return tensor


def agree(value: Value, world: World) -> Value:
    """The value that rank 0 has. It is pickled, so it may be anything plain."""
    if world.size == 1:
        return value
    values = [value if world.main else None]
    dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
    return values[0]  # type: ignore[return-value]


def wait(world: World) -> None:
    """Return when all processes have come here."""
    sum_tensor(torch.zeros(1), world)


def together(world: World, action: Callable[[], Value]) -> Value:
    """Do something on every process, and go on only if it worked on all of them.

    Raises:
        TransformerError: it failed somewhere by a user's mistake. Rank 0 raises the error; the others, which would
            only repeat it, raise ``ToldElsewhereError``.
        Exception: any other error is raised where it happened, and ``ToldElsewhereError`` on the other processes.
    """
    if world.size == 1:
        return action()
    failure: Exception | None = None
    try:
        result = action()
    except Exception as error:
        failure = error
    mine = None if failure is None else (isinstance(failure, TransformerError), _note(failure))
    reports: list[tuple[bool, str] | None] = [None] * world.size
    dist.all_gather_object(reports, mine)
    failed = [(rank, *report) for rank, report in enumerate(reports) if report is not None]
    if not failed:
        return result
    _outlast_termination()
    if failure is not None and not (isinstance(failure, TransformerError) and not world.main):
        raise failure
    mistakes = [(rank, note) for rank, mistake, note in failed if mistake]
    rank, note = (mistakes or [(rank, note) for rank, _, note in failed])[0]
    sentence = note if rank == 0 else f"rank {rank}: {note}"
    if world.main and mistakes:
        raise TrainingError(sentence)
    raise ToldElsewhereError(sentence) from failure


def refuse_difference(what: str, value: object, world: World) -> None:
    """Go on only if all processes have the same value. Otherwise they would train on different things, or wait for
    each other for ever.

    Args:
        what: the name of the value, for the message.
        value: plain, and short, for it is shown: a fingerprint or a count.

    Raises:
        TrainingError: some process has another value than rank 0; as with ``together``, rank 0 tells.
    """
    wanted = agree(value, world)

    def compare() -> None:
        if value != wanted:
            rule = f"must be the same for all processes, and rank 0 has {wanted!r}"
            raise TrainingError(problem(what, rule, value, "give all machines the same files and versions"))

    together(world, compare)


@contextlib.contextmanager
def naming_dead_ranks(world: World) -> Iterator[None]:
    """Turn the failure of a collective into a sentence that names the processes that ended; other errors pass.

    Meanwhile a process that is stuck, while another one is dead, is ended with that sentence.

    Raises:
        TrainingError: another process ended. One of those left raises it, the others raise ``ToldElsewhereError``; so
            does a process whose own error another one has reported in the same words.
    """
    watch = world.watch
    if watch is None:
        yield
        return
    try:
        with watch.guarding():
            yield
    except ToldElsewhereError as error:
        watch.leave(FOLLOWED, str(error))
        raise
    except BaseException as error:
        _outlast_termination()
        sentence = watch.failure() if _of_a_collective(error) else ""
        if sentence:
            watch.leave(FOLLOWED, sentence)
            raise (TrainingError if watch.first_to_say(sentence) else ToldElsewhereError)(sentence) from error
        watch.leave(FAILED, _note(error))
        if isinstance(error, TransformerError) and not watch.first_to_say(str(error)):
            raise ToldElsewhereError(str(error)) from error
        raise


def _from_environment() -> World:
    """The place of this process as the environment says it.

    Raises:
        TrainingError: part of the variables is missing, or they contradict each other.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    given = {name: os.environ[name] for name in names if os.environ.get(name)}
    if not given.keys() & {"RANK", "WORLD_SIZE"} or given.get("WORLD_SIZE") == "1":
        return ALONE
    missing = [name for name in names if name not in given]
    if missing:
        raise TrainingError(
            problem(
                f"{', '.join(missing)} of the environment",
                "must be set with the other variables of torchrun",
                "",
                "start with torchrun, or unset RANK and WORLD_SIZE to train with one process",
            )
        )
    numbers: dict[str, int] = {}
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT"):
        most = {"WORLD_SIZE": 2**31, "MASTER_PORT": 65535}.get(name, numbers.get("WORLD_SIZE", 0) - 1)
        least = 1 if name in ("WORLD_SIZE", "MASTER_PORT") else 0
        if not (given[name].isascii() and given[name].isdigit() and least <= int(given[name]) <= most):
            rule = f"must be a whole number from {least} to {most}"
            raise TrainingError(problem(f"{name} of the environment", rule, given[name], "start with torchrun"))
        numbers[name] = int(given[name])
    return World(numbers["RANK"], numbers["WORLD_SIZE"], numbers["LOCAL_RANK"])


def _meet(world: World) -> tuple[Any, Watch]:
    """Wait for all processes; the store in which they find each other, and the watch over them.

    Raises:
        TrainingError: they do not come.
    """
    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    watch: Watch | None = None
    try:
        store = _connect(address, world.rank, world.size)
        # One store may serve several groups, one after the other, which must not read each other's keys.
        name = f"transformer/{store.add(f'transformer/joined/{world.rank}', 1)}"
        own_connection = _prefixed(name, store.clone())
        watch = Watch(own_connection, world.rank, world.size, host=None if agent else 0)
        scope = _prefixed(name, store)
        scope.wait([watch.key(rank) for rank in range(world.size)], JOINING)
        watch.start()
    except (RuntimeError, ValueError) as error:  # a ValueError: no such host
        reason = str(error).partition("\n")[0]
        with contextlib.suppress(RuntimeError):
            absent = watch.missing() if watch else []
            reason = f"without rank {', '.join(map(str, absent))}" if absent else reason
        raise TrainingError(
            problem(
                f"MASTER_ADDR and MASTER_PORT of all {world.size} processes",
                f"must let them meet within {JOINING.total_seconds():.0f} seconds",
                f"{address}, {reason}",
                "start all of them, with the same values, and see that the port is free and reachable",
            )
        ) from error
    return _prefixed("group", scope), watch


@functools.lru_cache(maxsize=1)
def _connect(address: str, rank: int, size: int) -> Any:
    """The store at this address, kept to the end of the process, because the one that rank 0 hosts ends with it."""
    return next(dist.rendezvous("env://", rank, size, timeout=JOINING))[0]  # type: ignore[attr-defined]


def _prefixed(name: str, store: Any) -> Any:
    return dist.PrefixStore(name, store)  # type: ignore[attr-defined]


def _take_device(device: str, local_rank: int, kind: str) -> None:
    chosen = choose_device(device, local_rank)
    if chosen.type != kind:  # a driver that failed on one machine of several
        rule = f"must find the same everywhere, and rank 0 found {kind}"
        raise TrainingError(problem("training.device", rule, chosen.type, "see to the GPUs here, or set it to cpu"))
    if chosen.type == "cpu":
        return
    there, here = torch.cuda.device_count(), os.environ.get("LOCAL_WORLD_SIZE", "")
    wanted = max(local_rank + 1, int(here) if here.isdecimal() else 0)
    if wanted > there:
        rule = f"must be at most {there}, the number of GPUs here, unless training.device is cpu"
        raise TrainingError(problem("--nproc_per_node", rule, wanted, "lower it, or add --set training.device=cpu"))
    torch.cuda.set_device(chosen)


def _dissolve(hurried: bool) -> None:
    """Leave the group; ``hurried``, when others may be dead, without waiting for it any longer than a while."""
    if not dist.is_initialized():
        return
    if not hurried:
        dist.destroy_process_group()
        return

    def destroy() -> None:
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()

    thread = threading.Thread(target=destroy, name="leave", daemon=True)
    thread.start()
    thread.join(LEAVING)


def _of_a_collective(error: BaseException) -> bool:
    """Whether this is what gloo, NCCL or the store raise when a process does not answer."""
    if isinstance(error, dist.DistError):
        return True
    words = ("gloo", "nccl", "connection closed by peer", "connection reset by peer")
    return type(error) is RuntimeError and any(word in str(error).lower() for word in words)


def _note(error: BaseException) -> str:
    """The error in one line."""
    text = str(error).strip().partition("\n")[0]
    return text if isinstance(error, TransformerError) else f"{type(error).__name__}: {text}".removesuffix(": ")


def _outlast_termination() -> None:
    """Ignore SIGTERM from now on: at the first death torchrun's agent sends it to all others, which would cut off the
    sentence that is to be said. A process that cannot end nevertheless is killed by the agent later."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
