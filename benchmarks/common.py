"""What the benchmarks share: a quiet machine, systems that take turns, and results as JSON lines."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from transformer.errors import TransformerError

QUIET = 0.05
"""Most that other processes may use when a measurement begins, as a share of one core."""
WINDOW = 2.0
"""Seconds over which that is observed."""


@dataclass(frozen=True)
class Usage:
    """Seconds of processor time since some moment in the past, and when they were read."""

    clock: float
    everyone: float
    """All processes on all cores, and what a host took from this virtual machine."""
    own: float


def busy_seconds(stat: str, ticks_per_second: float) -> float | None:
    """Seconds that all cores together were busy, from the text of ``/proc/stat``; None if it holds no such figures."""
    for line in stat.splitlines():
        name, *figures = line.split()
        if name == "cpu":
            ticks = [int(figure) for figure in figures[:8]]  # user nice system idle iowait irq softirq steal
            return (sum(ticks) - sum(ticks[3:5])) / ticks_per_second if sum(ticks) else None  # some sandboxes say 0
    return None


def read_usage() -> Usage | None:
    """The processor time used so far; None where the system does not tell."""
    try:
        busy = busy_seconds(Path("/proc/stat").read_text(encoding="utf-8"), os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, AttributeError):
        return None
    own = os.times()
    return None if busy is None else Usage(time.monotonic(), busy, own.user + own.system)


def tree_seconds(process: int, proc: Path = Path("/proc")) -> float:
    """Seconds of processor time that a process, all that it has started, and all that these have started, have used.

    Children that have ended count where their parent has asked how they ended. 0 where the system does not tell.
    """
    parents, used = {}, {}
    for file in proc.glob("[0-9]*/stat"):
        try:
            fields = file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        number = int(file.parent.name)
        parents[number] = int(fields[1])
        used[number] = sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    family = {process}
    while grown := {number for number, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(used.get(number, 0.0) for number in family)


def usage() -> Usage | None:
    """The processor time used so far, with that of everything this process has started as our own."""
    now = read_usage()
    return None if now is None else dataclasses.replace(now, own=tree_seconds(os.getpid()))


def other_cpu(before: Usage | None, after: Usage | None) -> float | None:
    """What other processes used between two readings, as a share of one core; None if it cannot be told."""
    if before is None or after is None or after.clock <= before.clock:
        return None
    used = (after.everyone - before.everyone) - (after.own - before.own)
    return round(max(used, 0.0) / (after.clock - before.clock), 3)


def wait_until_quiet(
    patience: float,
    noisy: bool = False,
    read: Callable[[], Usage | None] = read_usage,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Return once other processes leave the processor alone.

    Args:
        patience: most seconds to wait.
        noisy: do not wait at all.
        read: gives the processor time used so far.
        pause: waits so many seconds.

    Raises:
        TransformerError: they still use it after ``patience`` seconds.
    """
    if noisy:
        return
    before, waited = read(), 0.0
    while True:
        pause(WINDOW)
        after = read()
        share = other_cpu(before, after)
        if share is None:
            tell("Whether other processes use the processor cannot be told on this system; measuring all the same.")
            return
        if share < QUIET:
            return
        before, waited = after, waited + WINDOW
        if waited >= patience:
            raise TransformerError(
                f"Other processes must use less than {QUIET:.0%} of a core, but after {patience:.0f} s they still use "
                f"{share:.0%}: end them, wait longer with --patience, or measure all the same with --noisy."
            )
        if waited == WINDOW:
            tell(f"Other processes use {share:.0%} of a core; waiting up to {patience:.0f} s until they rest.")


def interleave(systems: Mapping[str, Callable[[int], float]], rounds: int) -> dict[str, list[float]]:
    """Let the systems take turns: in every round each of them once, every round begun by the next one.

    A system is called with the number of the round, from 0, and returns its figure; all figures are returned by name.
    """
    names = list(systems)
    figures: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            figures[name].append(systems[name](turn))
    return figures


def ratios(figures: Mapping[str, Sequence[float]], system: str) -> dict[str, float]:
    """How many times the figure of each other system ``system`` reaches: pair by pair within a round, then the median.

    Nothing if ``system`` was not measured.
    """
    return {
        f"{system}/{other}": round(statistics.median(a / b for a, b in zip(figures[system], values, strict=True)), 3)
        for other, values in figures.items()
        if other != system and system in figures
    }


def emit(**fields: Any) -> None:
    """One result, as a JSON object on a line of standard output."""
    print(json.dumps(fields, ensure_ascii=False), flush=True)


def tell(sentence: str) -> None:
    """A remark, on standard error."""
    print(sentence, file=sys.stderr, flush=True)


def count(text: str) -> int:
    """An option that must be a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, but it was {text!r}")
    return int(text)


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options of every benchmark."""
    shared = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared.add_argument("--patience", type=float, default=120.0, help="most seconds to wait for a quiet machine")
    shared.add_argument("--noisy", action="store_true", help="measure though other processes use the processor")
    return shared


def leave(main: Callable[[], int]) -> NoReturn:
    """End the program with the status of ``main``; a user's mistake gives one sentence and 2."""
    try:
        status = main()
    except TransformerError as error:
        tell(str(error))
        status = 2
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
