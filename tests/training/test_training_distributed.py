"""Several processes that train together: real ones, which speak by gloo, and some of which die."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch
import torch.distributed
from distributed_ranks import KILLED, Server, free_port, serving, under_torchrun

from transformer.errors import TrainingError
from transformer.training import distributed
from transformer.training.distributed import ALONE, World, agree, join_world, naming_dead_ranks, sum_tensor, together

VARIABLES = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
QUICKLY = 10.0
"""Seconds within which survivors must have ended."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (*VARIABLES, "LOCAL_WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("variables", [{}, VARIABLES | {"WORLD_SIZE": "1", "RANK": "0"}, {"MASTER_ADDR": "node1"}])
def test_one_process_is_alone(environment: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    with join_world("cpu") as world, naming_dead_ranks(world):
        assert world == ALONE == World(rank=0, size=1, local_rank=0)
        assert world.main
        assert not torch.distributed.is_initialized()
        numbers = torch.tensor([1.0, 2.0])
        assert sum_tensor(numbers, world) is numbers
        assert numbers.tolist() == [1.0, 2.0]
        assert agree("anything", world) == "anything"
        assert together(world, lambda: 5) == 5
        distributed.wait(world)
    with pytest.raises(KeyError), join_world("cpu") as world, naming_dead_ranks(world):
        together(world, lambda: {}["missing"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"MASTER_PORT": None}, r"^MASTER_PORT of the environment must be set with the other variables of torchrun"),
        ({"WORLD_SIZE": None, "LOCAL_RANK": ""}, r"^WORLD_SIZE, LOCAL_RANK of the environment must be set"),
        ({"RANK": None}, r"^RANK of the environment must be set"),
        ({"RANK": "2"}, r"^RANK of the environment must be a whole number from 0 to 1, but it was '2'"),
        ({"WORLD_SIZE": "two"}, r"^WORLD_SIZE of the environment must be a whole number from 1"),
        ({"WORLD_SIZE": "0"}, r"^WORLD_SIZE of the environment must be a whole number from 1"),
        ({"LOCAL_RANK": "-1"}, r"^LOCAL_RANK of the environment must be a whole number from 0 to 1"),
        ({"MASTER_PORT": "0"}, r"^MASTER_PORT of the environment must be a whole number from 1 to 65535"),
    ],
)
def test_an_environment_that_cannot_be(
    environment: pytest.MonkeyPatch, changes: dict[str, str | None], message: str
) -> None:
    for name, value in (VARIABLES | changes).items():
        if value is not None:
            environment.setenv(name, value)
    with pytest.raises(TrainingError, match=message), join_world("cpu"):
        pytest.fail("it joined")


def test_others_that_do_not_come(environment: pytest.MonkeyPatch) -> None:
    environment.setattr(distributed, "JOINING", timedelta(seconds=1))
    for name, value in (VARIABLES | {"RANK": "0", "MASTER_PORT": str(free_port())}).items():
        environment.setenv(name, value)
    with (
        pytest.raises(TrainingError, match="of all 2 processes must let them meet within 1 seconds"),
        join_world("cpu"),
    ):
        pytest.fail("it joined")
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("cards", "local_rank", "on_node", "kind", "message"),
    [
        (2, 1, "2", "cuda", ""),
        (2, 1, None, "cuda", ""),
        (1, 0, "2", "cuda", r"--nproc_per_node must be at most 1, the number of GPUs here, .* but it was 2"),
        (1, 1, None, "cuda", r"--nproc_per_node must be at most 1, .* but it was 2"),
        (0, 0, "2", "cuda", r"training\.device must find the same everywhere, and rank 0 found cuda, but it was 'cpu'"),
        (1, 0, "1", "cpu", r"training\.device must find the same everywhere, and rank 0 found cpu, but it was 'cuda'"),
        (0, 1, "2", "cpu", ""),
    ],
)
def test_each_process_takes_its_own_card(
    environment: pytest.MonkeyPatch, cards: int, local_rank: int, on_node: str | None, kind: str, message: str
) -> None:
    taken: list[torch.device] = []
    environment.setattr(torch.cuda, "is_available", lambda: cards > 0)
    environment.setattr(torch.cuda, "device_count", lambda: cards)
    environment.setattr(torch.cuda, "set_device", taken.append)
    if on_node:
        environment.setenv("LOCAL_WORLD_SIZE", on_node)
    if message:
        with pytest.raises(TrainingError, match=message):
            distributed._take_device("auto", local_rank, kind)
    else:
        distributed._take_device("auto", local_rank, kind)
    assert taken == ([torch.device("cuda", local_rank)] if cards and not message else [])


@pytest.mark.parametrize(
    ("device", "cards", "backend"),
    [
        ("auto", 2, "cpu:gloo,cuda:nccl"),
        ("cuda", 2, "cpu:gloo,cuda:nccl"),
        ("cpu", 2, "cpu:gloo"),
        ("auto", 0, "cpu:gloo"),
    ],
)
def test_tensors_on_cards_travel_by_nccl(
    environment: pytest.MonkeyPatch, device: str, cards: int, backend: str
) -> None:
    """And all else by gloo. There are no cards here, so what would join is replaced."""
    watch, joined, taken = MagicMock(), [], []
    environment.setattr(distributed, "_meet", lambda world: ("store", watch))
    environment.setattr(distributed, "agree", lambda value, world: value)
    environment.setattr(distributed, "together", lambda world, action: action())
    environment.setattr(torch.distributed, "init_process_group", lambda *given, **named: joined.append((given, named)))
    environment.setattr(torch.cuda, "is_available", lambda: cards > 0)
    environment.setattr(torch.cuda, "device_count", lambda: cards)
    environment.setattr(torch.cuda, "set_device", taken.append)
    for name, value in VARIABLES.items():
        environment.setenv(name, value)
    with join_world(device) as world:
        assert (world.rank, world.size, world.local_rank, world.watch) == (1, 2, 1, watch)
    timeout = timedelta(minutes=60)
    assert joined == [((backend,), {"store": "store", "rank": 1, "world_size": 2, "timeout": timeout})]
    assert taken == ([torch.device("cuda", 1)] if "nccl" in backend else [])
    watch.leave.assert_called_once_with("left")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:5"), True),
        (torch.distributed.DistBackendError("NCCL error: remote process exited"), True),
        (torch.distributed.DistNetworkError("failed to recv, got 0 bytes"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (torch.OutOfMemoryError("CUDA out of memory"), False),
        (ConnectionResetError("of some download"), False),
        (TrainingError("the loss is no number"), False),
    ],
)
def test_which_errors_come_from_a_collective(error: Exception, expected: bool) -> None:
    assert distributed._of_a_collective(error) is expected


def test_two_processes_speak_under_torchrun(tmp_path: Path) -> None:
    process, results = under_torchrun(tmp_path, "speak")
    assert process.returncode == 0, process.stderr
    for rank in range(2):
        assert results[rank]["said"] == [
            [rank, 2, rank == 0, [10 + 2 * turn, 12 + 2 * turn, 14 + 2 * turn], {"from": 0, "turn": turn}, rank]
            for turn in range(2)
        ]


def test_three_processes_speak_without_it(server: Server) -> None:
    scene = server.play("speak", size=3)
    assert scene.statuses == [0, 0, 0], scene.said
    assert scene.said == ["", "", ""]
    for rank in range(3):
        assert scene.results[rank]["said"] == [
            [rank, 3, rank == 0, [30 + 3 * turn, 33 + 3 * turn, 36 + 3 * turn], {"from": 0, "turn": turn}, rank]
            for turn in range(2)
        ]


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ({"1": ("DataError", "the file is bad.")}, ["rank 1: the file is bad.\n", "", ""]),
        ({"0": ("DataError", "bad.")}, ["bad.\n", "", ""]),
        ({str(rank): ("DataError", "bad.") for rank in range(3)}, ["bad.\n", "", ""]),
        ({"1": ("DataError", "bad."), "2": ("InputError", "worse.")}, ["rank 1: bad.\n", "", ""]),
    ],
)
def test_a_mistake_is_told_once(server: Server, failures: dict[str, tuple[str, str]], said: list[str]) -> None:
    scene = server.play("report", size=3, failures=failures)
    assert scene.statuses == [2, 2, 2]
    assert scene.said == said
    expected = ["DataError" if "0" in failures else "TrainingError", "ToldElsewhereError", "ToldElsewhereError"]
    assert [result["error"] for result in scene.results] == expected


def test_an_error_that_is_no_mistake_is_raised_where_it_happened(server: Server) -> None:
    scene = server.play("report", size=3, failures={"1": ("OSError", "no such file")})
    assert scene.statuses == [2, 1, 2]
    assert scene.said[1].rstrip().endswith("OSError: no such file")
    assert (scene.said[0], scene.said[2]) == ("", "")
    assert scene.results[0]["message"] == "rank 1: OSError: no such file"


def test_a_difference_is_refused(server: Server) -> None:
    assert server.play("differ", values=["abc", "abc"]).statuses == [0, 0]
    scene = server.play("differ", size=3, values=["abc", "abc", "abd"])
    assert scene.statuses == [2, 2, 2]
    assert scene.said == [
        "rank 2: the corpus must be the same for all processes, and rank 0 has 'abc', but it was 'abd': "
        "give all machines the same files and versions.\n",
        "",
        "",
    ]
    distributed.refuse_difference("the corpus", "abc", ALONE)


def test_a_killed_rank_is_named_under_torchrun(tmp_path: Path) -> None:
    """torchrun's agent sends the survivor SIGTERM meanwhile."""
    started = time.time()
    process, (survivor, dead) = under_torchrun(tmp_path, "die", ranks=[1], how="kill")
    assert process.returncode == 1
    assert dead is None
    sentence = "rank 1 (of 2) ended while training: look at its output above, then resume with --resume."
    assert (survivor["error"], survivor["message"]) == ("TrainingError", sentence)
    assert process.stderr.count(sentence) == 1
    death = float((tmp_path / "death.json").read_text())
    assert started < death < survivor["at"] < death + QUICKLY
    assert time.time() < death + 2 * QUICKLY


@pytest.mark.parametrize("dead", [0, 1])
@pytest.mark.parametrize("far", [False, True])
def test_a_killed_rank_is_named(server: Server, dead: int, far: bool) -> None:
    """Rank 0 takes the store with it. On a machine far away, only the heartbeat tells."""
    scene = server.play("die", ranks=[dead], how="kill", far=far)
    assert scene.statuses == ([KILLED, 2] if dead == 0 else [2, KILLED])
    sentence = f"rank {dead} (of 2) ended while training: look at its output above, then resume with --resume."
    assert scene.said[1 - dead].splitlines()[-1] == sentence  # PyTorch may have warned of the lost store before
    assert scene.seconds[1 - dead] < QUICKLY


def test_of_several_survivors_one_tells(server: Server) -> None:
    scene = server.play("die", size=4, ranks=[1, 2], how="kill")
    assert scene.statuses == [2, KILLED, KILLED, 2]
    assert sorted([scene.said[0], scene.said[3]])[0] == ""
    assert scene.said[0] + scene.said[3] in (
        "ranks 1 and 2 (of 4) ended while training: look at their output above, then resume with --resume.\n",
        "rank 1 (of 4) ended while training: look at its output above, then resume with --resume.\n",
        "rank 2 (of 4) ended while training: look at its output above, then resume with --resume.\n",
    )
    assert max(scene.seconds[0], scene.seconds[3]) < QUICKLY


@pytest.mark.parametrize("dead", [0, 1])
def test_the_error_of_a_rank_is_passed_on(server: Server, dead: int) -> None:
    scene = server.play("die", ranks=[dead], how="raise")
    assert scene.statuses == ([1, 2] if dead == 0 else [2, 1])
    assert scene.said[dead].rstrip().endswith("KeyError: 'oh'")
    assert scene.said[1 - dead] == (
        f"rank {dead} (of 2) ended while training (KeyError: 'oh'): "
        "look at its output above, then resume with --resume.\n"
    )
    assert scene.seconds[1 - dead] < QUICKLY


def test_an_error_that_all_ranks_have_is_told_once(server: Server) -> None:
    scene = server.play("die", ranks=[0, 1], how="mistake")
    assert scene.statuses == [2, 2]
    assert sorted(scene.said) == ["", "the loss is no number.\n"]


def test_a_process_that_is_stuck_when_another_dies_is_ended(server: Server) -> None:
    scene = server.play("die", ranks=[1], how="kill", deaf=True, every=0.2)
    assert scene.statuses == [2, KILLED]
    assert scene.said[0].startswith("rank 1 (of 2) ended while training: ")
    assert scene.seconds[0] < QUICKLY


def test_the_world_is_a_value() -> None:
    world = World(rank=3, size=8, local_rank=1)
    assert not world.main
    assert dataclasses.replace(world, rank=0).main
