"""Nothing is lost by a run that is killed: real processes, SIGKILL, and the same bits as if nothing had happened."""

from __future__ import annotations

import itertools
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from training_processes import KILLED, Fault, Outcome, Server, fresh, kill, serving
from training_runs import arguments, assert_same_result, history, own_recipe

KILLS = 20


@dataclass(frozen=True)
class Whole:
    """A run that nothing interrupted."""

    out: Path
    updates: int
    seconds: float
    """For an update, about."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Of a fresh process, as a user starts it."""
    out = tmp_path_factory.mktemp("whole") / "run"
    process = fresh(arguments(out))
    _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    last = [line for line in history(out) if line["kind"] == "train"][-1]
    return Whole(out, last["step"], last["seconds"] / last["step"])


def wait_until(condition: Callable[[], bool], process: int, seconds: float = 100.0) -> None:
    """Until the condition is true, the process has ended, or the time is over."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.001)


def last_step(out: Path) -> int:
    return max((int(line["step"]) for line in history(out)), default=0)


def stamp(out: Path) -> tuple[int, int] | None:
    """What changes as soon as the history does; a resumed run begins by cutting it."""
    try:
        found = (out / "history.jsonl").stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def is_saving(out: Path) -> bool:
    return any((out / "training").glob(".state*.tmp"))


def test_a_forked_process_computes_what_a_fresh_one_does(server: Server, whole: Whole, tmp_path: Path) -> None:
    assert server.run(arguments(tmp_path / "run")).status == 0
    assert_same_result(whole.out, tmp_path / "run")


def test_a_resumed_run_samples_the_same_pieces_of_a_unigram_tokenizer(server: Server, tmp_path: Path) -> None:
    """The other tests sample those of a BPE tokenizer."""
    recipe, whole, out = own_recipe(tmp_path), tmp_path / "whole", tmp_path / "run"
    changes = {"tokenizer__model_type": "unigram"}
    assert server.run(arguments(whole, recipe, **changes)).status == 0
    assert server.run(arguments(out, recipe, **changes), Fault("kill", "epoch-002")).status == KILLED
    assert server.run(arguments(out, recipe, **changes)).status == 0
    assert_same_result(whole, out)


def test_killed_at_twenty_random_moments(server: Server, whole: Whole, tmp_path: Path) -> None:
    """Some while it starts or resumes, some during a save or an evaluation; one life is a fresh process."""
    chance = random.Random(20)
    out = tmp_path / "run"
    for number in range(KILLS):
        command = arguments(out, training__save_minutes=chance.choice([0.0, 0.0, 0.0005]))
        before = stamp(out)
        alone = fresh(command) if number == KILLS // 2 else None
        process = alone.pid if alone else server.start(command)
        if number % 5 != 4:
            wait_until(lambda seen=before: stamp(out) not in (seen, None), process)  # it has resumed, or trains
            end = min(last_step(out) + chance.randint(0, 9), whole.updates - 15)
            wait_until(lambda end=end: last_step(out) >= end, process)
        time.sleep(chance.uniform(0, 3 * whole.seconds))
        if number % 3 == 1:
            wait_until(lambda: is_saving(out), process, 5 * whole.seconds)
        kill(process)
        said = alone.communicate()[1] if alone else ""
        outcome = Outcome(alone.returncode, said) if alone else server.wait()
        assert outcome.status == KILLED, outcome.said
    assert not (out / "config.json").exists()
    outcome = server.run(arguments(out))
    assert outcome.status == 0, outcome.said
    assert_same_result(whole.out, out)


def test_killed_right_before_any_file_operation(server: Server, tmp_path: Path) -> None:
    """Between any two steps of a save, of an epoch's end, of resuming and of writing the finished checkpoint."""
    recipe = own_recipe(tmp_path)
    whole, out = tmp_path / "whole", tmp_path / "run"
    changes = {"training__epochs": 6, "training__log_every": 3}
    assert server.run(arguments(whole, recipe, **changes)).status == 0

    def run(pattern: str, number: int = 1) -> Outcome:
        return server.run(arguments(out, recipe, **changes), Fault("kill", pattern, number))

    numbers = list(range(1, 26))
    random.Random(5).shuffle(numbers)
    within = re.escape(f"{out}{os.sep}")
    for number in numbers:
        assert run(within, number).status == KILLED
    # On to the end of the training, and then through the operations after it one by one.
    assert run(r"model\.safetensors").status == KILLED
    for number in itertools.count(1):
        outcome = run(within, number)
        if outcome.status != KILLED:
            break
    assert outcome.status == 0, outcome.said
    assert number > 8
    assert_same_result(whole, out)
    assert not list(out.rglob(".*.tmp"))  # what the killed ones left half written is cleared away
