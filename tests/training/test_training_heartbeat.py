"""Who is taken for dead, by the signs of life in a store. Real deaths are in test_training_distributed.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest

from transformer.errors import TrainingError
from transformer.training import distributed, heartbeat
from transformer.training.distributed import ToldElsewhereError, World, naming_dead_ranks
from transformer.training.heartbeat import FAILED, FOLLOWED, LEFT, LOST, SILENT, Sign, Watch

OURS = "this machine"
SENTENCE = "rank 1 (of 3) ended while training: look at its output above, then resume with --resume."


class FakeStore:
    """The store of torch.distributed, as a dictionary that can break."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.broken = False

    def _look(self) -> dict[str, str]:
        if self.broken:
            raise RuntimeError("Broken pipe")
        return self.values

    def set(self, key: str, value: str) -> None:
        self._look()[key] = value

    def check(self, keys: list[str]) -> bool:
        return all(key in self._look() for key in keys)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self._look()[key].encode() for key in keys]

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        assert expected == ""
        return self._look().setdefault(key, desired).encode()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY", 0.02)
    monkeypatch.setattr(heartbeat, "_place", lambda: OURS)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def dead() -> int:
    """The number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


@pytest.fixture
def watch(store: FakeStore) -> Iterator[Watch]:
    """Of rank 0 of three, with a store that belongs to torchrun; the others are on machines far away."""
    watch = Watch(store, rank=0, size=3, host=None)
    for rank in (1, 2):
        sign(store, rank, place=f"machine {rank}")
    watch._look()
    yield watch
    watch.leave(LEFT)


def sign(store: FakeStore, rank: int, **changes: object) -> None:
    """Let a rank write."""
    old = Sign(**json.loads(store.values.get(Watch.key(rank), '{"place": "", "pid": 1}')))
    store.set(Watch.key(rank), json.dumps(asdict(replace(old, **changes))))


def beats(watch: Watch, store: FakeStore, count: int, *alive: int) -> None:
    """Let this rank and those alive beat so often."""
    for _ in range(count):
        for rank in alive:
            sign(store, rank, beat=json.loads(store.values[Watch.key(rank)])["beat"] + 1)
        watch._beat()


def test_silence_is_counted_in_own_beats(watch: Watch, store: FakeStore) -> None:
    beats(watch, store, 1, 1, 2)
    beats(watch, store, SILENT - 1, 2)
    assert watch._gone(SILENT) == []
    beats(watch, store, 1, 2)
    assert watch._gone(SILENT) == [1]
    assert watch._gone(LOST) == []  # nothing failed, so it may only be busy
    beats(watch, store, LOST - SILENT, 2)
    assert watch._gone(LOST) == [1]
    beats(watch, store, 1, 1, 2)
    assert watch._gone(SILENT) == []


def test_of_a_process_of_this_machine_the_system_knows(watch: Watch, store: FakeStore, dead: int) -> None:
    sign(store, 1, place=OURS, pid=os.getpid())
    sign(store, 2, place=OURS, pid=dead)
    beats(watch, store, LOST + 1)
    assert watch._gone(LOST) == [2]
    assert watch._gone(SILENT, doubtful=True) == [1, 2]


def test_a_zombie_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()  # to its end; the process itself is not waited for
        for _ in range(1000):
            if heartbeat._is_dead(process.pid):
                break
        assert heartbeat._is_dead(process.pid)
    assert not heartbeat._is_dead(os.getpid())


@pytest.mark.parametrize("state", [LEFT, FOLLOWED])
def test_who_left_is_not_at_fault(watch: Watch, store: FakeStore, dead: int, state: str) -> None:
    sign(store, 1, place=OURS, pid=dead, state=state)
    beats(watch, store, LOST + 1, 2)
    assert watch._gone(SILENT, doubtful=True) == []


def test_the_sentence_names_the_ranks_and_their_error(watch: Watch, store: FakeStore) -> None:
    assert watch._sentence([]) == ""
    assert watch._sentence([1]) == SENTENCE
    sign(store, 2, state=FAILED, note="the disk is full.")
    watch._look()
    assert watch._sentence([1, 2]) == (
        "ranks 1 and 2 (of 3) ended while training (the disk is full): look at their output above, then resume with "
        "--resume."
    )
    wide = Watch(store, rank=0, size=4, host=None)
    sign(store, 3)
    wide._look()
    assert wide._sentence([1, 2, 3]).startswith("ranks 1, 2 and 3 (of 4) ended")


def test_survivors_say_the_same(watch: Watch, store: FakeStore, dead: int) -> None:
    """Rank 2 saw that rank 1 is dead, and left; here it only looks as if rank 2 were."""
    sign(store, 2, place=OURS, pid=dead, state=FOLLOWED, note=SENTENCE)
    assert watch.failure() == SENTENCE
    assert watch.first_to_say(SENTENCE)
    assert watch.first_to_say(SENTENCE)
    assert not Watch(store, rank=2, size=3, host=None).first_to_say(SENTENCE)


def test_a_rank_that_failed_is_named_though_it_lives(watch: Watch, store: FakeStore) -> None:
    """It may need long for its end."""
    sign(store, 1, place=OURS, pid=os.getpid(), state=FAILED, note="Oh: no")
    assert watch.failure() == SENTENCE.replace("training:", "training (Oh: no):")


def test_nobody_is_named_when_all_live(watch: Watch) -> None:
    assert watch.failure() == ""


def test_the_end_of_the_store_is_the_end_of_its_host(watch: Watch, store: FakeStore) -> None:
    store.broken = True
    assert watch.failure() == "torchrun ended while training: look at its output, then resume with --resume."
    assert watch.first_to_say("anything")  # as far as one can know
    guest = Watch(FakeStore(), rank=2, size=3, host=0)
    guest._others, guest._lost = {0: Sign("far away", 1), 1: Sign("far away", 1)}, True
    assert guest.failure().startswith("rank 0 (of 3) ended while training")


def test_the_last_word_stands(watch: Watch, store: FakeStore) -> None:
    watch.start()
    watch.leave(FAILED, "this")
    watch.leave(LEFT, "that")
    watch._write(replace(watch._own, beat=9))
    assert json.loads(store.values["sign/0"]) | {"beat": 0} == asdict(Sign(OURS, os.getpid(), 0, FAILED, "this"))
    assert not watch._thread.is_alive()


def test_the_thread_beats(watch: Watch, store: FakeStore) -> None:
    watch.start()
    for _ in range(500):
        if json.loads(store.values["sign/0"])["beat"] >= 3:
            break
        watch._end.wait(0.01)
    assert json.loads(store.values["sign/0"])["beat"] >= 3


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """``naming_dead_ranks`` would make this process deaf to SIGTERM."""
    calls: list[str] = []
    monkeypatch.setattr(distributed, "_outlast_termination", lambda: calls.append("deaf"))
    return calls


@pytest.mark.parametrize(
    "error",
    [RuntimeError("[gloo/transport/tcp/pair.cc] Timed out"), KeyError("own"), KeyboardInterrupt(), SystemExit(3)],
)
def test_other_errors_pass_unchanged(watch: Watch, store: FakeStore, heard: list[str], error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, naming_dead_ranks(World(0, 3, 0, watch)):
        raise error
    assert caught.value is error
    left = json.loads(store.values["sign/0"])
    assert (left["state"], left["note"]) == (FAILED, distributed._note(error))
    assert heard == ["deaf"]


def test_the_error_of_a_collective_becomes_a_sentence(
    watch: Watch, store: FakeStore, heard: list[str], dead: int
) -> None:
    sign(store, 1, place=OURS, pid=dead)
    cause = RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer")
    with pytest.raises(TrainingError) as caught, naming_dead_ranks(World(0, 3, 0, watch)):
        raise cause
    assert type(caught.value) is TrainingError
    assert (str(caught.value), caught.value.__cause__) == (SENTENCE, cause)
    assert json.loads(store.values["sign/0"])["state"] == FOLLOWED


def test_what_another_rank_said_is_not_said_again(watch: Watch, store: FakeStore, heard: list[str]) -> None:
    assert Watch(store, rank=2, size=3, host=None).first_to_say("No memory.")
    with pytest.raises(ToldElsewhereError, match="No memory"), naming_dead_ranks(World(0, 3, 0, watch)):
        raise TrainingError("No memory.")
