"""Which processes of a run are still alive: each leaves a sign of life in a store that all of them reach."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

EVERY = 1.0
"""Seconds between two beats."""
SILENT = 4
"""Once a collective failed, a process whose beat stands still for so many of ours is taken for dead."""
LOST = 120
"""The same while nothing failed: a machine may vanish without closing its connections."""
GRACE = 5
"""Beats that a process has for seeing by itself that another one died; afterwards it is ended, stuck as it is."""

HERE, LEFT, FAILED, FOLLOWED = "here", "left", "failed", "followed"
"""States: at work; left in peace; ended by an error of its own; ended because another one did."""


class Store(Protocol):
    """What is used of ``torch.distributed.Store``."""

    def set(self, key: str, value: str, /) -> None: ...
    def check(self, keys: list[str], /) -> bool: ...
    def multi_get(self, keys: list[str], /) -> list[bytes]: ...
    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes: ...


@dataclass(frozen=True)
class Sign:
    """What a process last wrote about itself."""

    place: str
    """The machine and process namespace in which ``pid`` means something; empty where the system has no /proc."""
    pid: int
    beat: int = 0
    state: str = HERE
    note: str = ""
    """With "failed" its error; with "followed" the sentence that names the rank at fault."""


class Watch:
    """The signs of life of all ranks, written and read each second by a background thread.

    Of a process on this machine the system knows whether it is dead. Of one on another machine only the beat is known.
    Its silence is counted in beats of this process, not in seconds: a machine that slept suspects nobody when it wakes.
    """

    def __init__(self, store: Store, rank: int, size: int, host: int | None) -> None:
        """Write the first sign of life.

        Args:
            store: on a connection of its own, because who waits for an answer on one blocks it for other threads.
            rank: of this process.
            size: number of processes.
            host: the rank whose end is the end of the store; None for a store that outlives all of them.
        """
        self.rank = rank
        self.host = host
        self._store = store
        self._keys = [self.key(each) for each in range(size)]
        self._own = Sign(_place(), os.getpid())
        self._others: dict[int, Sign] = {}
        self._heard: dict[int, int] = {}
        self._silent: dict[int, int] = {}
        self._lost = False
        self._guarded = False
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._write(self._own)

    @staticmethod
    def key(rank: int) -> str:
        """Where a rank writes its sign."""
        return f"sign/{rank}"

    def missing(self) -> list[int]:
        """The ranks that have not written any sign yet."""
        return [rank for rank, key in enumerate(self._keys) if not self._store.check([key])]

    def start(self) -> None:
        """Begin to beat. All ranks must have written their first sign."""
        self._look()
        self._thread.start()

    def leave(self, state: str, note: str = "") -> None:
        """Say how this process ends, and beat no more. Only the first word counts."""
        if self._own.state == HERE:
            self._try(lambda: self._write(replace(self._own, state=state, note=note)))
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    @contextlib.contextmanager
    def guarding(self) -> Iterator[None]:
        """End this process, with a sentence, if it is stuck while another one is dead."""
        self._guarded = True
        try:
            yield
        finally:
            self._guarded = False

    def failure(self) -> str:
        """A sentence about the ranks that ended, asked for when a collective failed; empty if all of them live.

        It takes up to seven seconds: a rank that fails by an error of its own is given the time to say so first.
        """
        limit = time.monotonic() + (SILENT + 3) * EVERY
        while True:
            time.sleep(0.05)  # a process that dies closes its connections first
            self._try(self._look)
            followed = self._in_state(FOLLOWED)
            if followed:
                return self._others[followed[0]].note
            gone = self._gone(SILENT, doubtful=True)
            if gone or (self._lost and self.host is None) or time.monotonic() > limit:
                return self._sentence(gone or self._in_state(FAILED))

    def first_to_say(self, sentence: str) -> bool:
        """Whether no other rank said this before; to ask is to say it."""
        mine = str(self.rank).encode()
        said = mine

        def ask() -> None:
            nonlocal said
            said = self._store.compare_set(f"said/{sentence}", "", str(self.rank))

        self._try(ask)
        return said == mine

    def others_left(self, seconds: float) -> None:
        """If the store ends with this process: wait until no other rank needs it, at most for this long."""
        if self.host != self.rank:
            return
        limit = time.monotonic() + seconds
        while not self._lost and time.monotonic() < limit:
            self._try(self._look)
            if not set(self._in_state(HERE)) - set(self._gone(SILENT)):
                return
            time.sleep(0.02)

    def _run(self) -> None:
        overdue = 0
        while not self._end.wait(EVERY):
            self._try(self._beat)
            sentence = self._sentence(self._gone(LOST)) if self._guarded else ""
            overdue = overdue + 1 if sentence else 0
            if overdue > GRACE:
                if self.first_to_say(sentence):
                    os.write(2, f"{sentence}\n".encode())  # not sys.stderr: the stuck thread may hold its lock
                os._exit(2)

    def _beat(self) -> None:
        self._write(replace(self._own, beat=self._own.beat + 1))
        self._look()
        for rank, sign in self._others.items():
            self._silent[rank] = self._silent.get(rank, 0) + 1 if self._heard.get(rank) == sign.beat else 0
            self._heard[rank] = sign.beat

    def _write(self, sign: Sign) -> None:
        with self._lock:
            if self._own.state == HERE:  # the last word stands, even if a beat was under way
                self._own = sign
                self._store.set(self._keys[self.rank], json.dumps(asdict(sign)))

    def _look(self) -> None:
        signs = [Sign(**json.loads(text)) for text in self._store.multi_get(self._keys)]
        self._others = {rank: sign for rank, sign in enumerate(signs) if rank != self.rank}

    def _try(self, action: Callable[[], None]) -> None:
        """Use the store, unless it is lost or about to be: PyTorch prints pages when it finds that out."""
        host = self._others.get(-1 if self.host is None else self.host)
        if host and self._is_near(host) and (host.state == FAILED or _is_dead(host.pid)):
            self._lost = True
        try:
            if not self._lost:
                action()
        except RuntimeError:  # torch.distributed's errors are such
            self._lost = True

    def _in_state(self, state: str) -> list[int]:
        return [rank for rank, sign in self._others.items() if sign.state == state]

    def _gone(self, patience: int, doubtful: bool = False) -> list[int]:
        """Ranks that ended without peace; ``doubtful`` adds those of this machine that live, but do not beat."""
        gone = []
        for rank, sign in self._others.items():
            if sign.state in (LEFT, FOLLOWED):
                continue
            silent = self._silent.get(rank, 0) >= (SILENT if sign.state == FAILED else patience)
            near = self._is_near(sign)
            trusted = not near or doubtful or sign.state == FAILED
            if (silent and trusted) or (_is_dead(sign.pid) if near else self._lost and rank == self.host):
                gone.append(rank)
        return gone

    def _is_near(self, sign: Sign) -> bool:
        return bool(sign.place) and sign.place == self._own.place

    def _sentence(self, ranks: list[int]) -> str:
        size = len(self._keys)
        if not ranks:
            at_home = self.host is None and self._lost
            return "torchrun ended while training: look at its output, then resume with --resume." if at_home else ""
        names = " and ".join(filter(None, (", ".join(map(str, ranks[:-1])), str(ranks[-1]))))
        notes = [self._others[rank].note for rank in ranks if self._others[rank].note]
        said = f" ({notes[0].strip().removesuffix('.')})" if notes else ""
        many = len(ranks) > 1
        return (
            f"rank{'s' if many else ''} {names} (of {size}) ended while training{said}: "
            f"look at {'their' if many else 'its'} output above, then resume with --resume."
        )


def _place() -> str:
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{machine} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _is_dead(pid: int) -> bool:
    """Whether a process of this machine is no more, or only waits for its parent to take notice."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")
