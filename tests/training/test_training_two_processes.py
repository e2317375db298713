"""Two processes under torchrun train as one process does that puts two batches into each update."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from training_processes import ROOT
from training_runs import arguments, history, own_recipe, untimed

pytestmark = pytest.mark.slow
UPDATES = 50
SHAPE = {"model__d_model": 32, "model__encoder_layers": 2, "model__decoder_layers": 2}
LENGTH = {
    "training__epochs": 8,
    "training__evaluate_every": 8,
    "training__batch_tokens": 56,
    "data__subword_sampling": 0.1,
}
"""14 or 15 batches an epoch, two to an update: the last of 15 leaves one of two processes without a batch."""
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]


def start(out: Path, recipe: str, launcher: list[str], **changes: object) -> subprocess.Popen[str]:
    words = arguments(out, recipe, **SHAPE, **LENGTH, **changes)
    return subprocess.Popen(
        [sys.executable, *launcher, "-m", "transformer", *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )


def workers(launcher: int) -> dict[int, int]:
    """The processes that torchrun started, by rank."""
    found = {}
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        for variable in Path(f"/proc/{child}/environ").read_text().split("\0"):
            if variable.startswith("RANK="):
                found[int(variable.partition("=")[2])] = int(child)
    return found


def end_of(process: subprocess.Popen[str]) -> str:
    """What a run said on standard error, to its end; a run that hangs is ended."""
    try:
        return process.communicate(timeout=240)[1]
    except subprocess.TimeoutExpired:
        for number in (process.pid, *workers(process.pid).values()):
            os.kill(number, signal.SIGKILL)
        raise


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the recipe is, and both runs are: "one", and "two", the one of two processes."""
    folder = tmp_path_factory.mktemp("runs")
    recipe = own_recipe(folder)
    for name, launcher, accumulate in (("one", [], 2), ("two", TORCHRUN, 1)):
        process = start(folder / name, recipe, launcher, training__accumulate=accumulate, training__save_minutes=5.0)
        said = end_of(process)
        assert process.returncode == 0, said
        assert said.count("Corpus:") == 1  # one of the processes speaks
    return folder


def test_the_losses_are_the_same(folder: Path) -> None:
    one, two = ([line for line in history(folder / name) if line["kind"] == "train"] for name in ("one", "two"))
    assert len(one) == len(two) >= UPDATES
    assert [line["step"] for line in two] == list(range(1, len(two) + 1))
    for first, second in zip(one[:UPDATES], two, strict=False):
        for figure in ("loss", "nll"):
            assert second[figure] == pytest.approx(first[figure], rel=0, abs=1.001e-5), (figure, first["step"])
        assert second["lr"] == first["lr"]
        assert second["gradient_norm"] == pytest.approx(first["gradient_norm"], rel=1e-3)
    assert one[-1]["loss"] < 0.8 * one[0]["loss"]  # they did learn


def test_the_evaluation_is_the_same(folder: Path) -> None:
    one, two = ([line for line in history(folder / name) if line["kind"] == "dev"] for name in ("one", "two"))
    assert len(one) == len(two) == 1
    assert two[0]["dev_loss"] == pytest.approx(one[0]["dev_loss"], rel=0, abs=1e-4)


def test_a_killed_process_is_named_and_nothing_is_lost(folder: Path) -> None:
    out, recipe = folder / "killed", str(folder / "own.toml")
    process = start(out, recipe, TORCHRUN, training__accumulate=1)
    limit = time.monotonic() + 100
    while len(history(out)) < 10:
        assert process.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.01)
    os.kill(workers(process.pid)[1], signal.SIGKILL)
    killed = time.monotonic()
    said = end_of(process)
    assert process.returncode != 0
    assert time.monotonic() < killed + 30
    assert said.count("rank 1 (of 2) ended while training: look at its output above, then resume with --resume.") == 1
    assert "Traceback" not in said.partition("rank 1 (of 2) ended")[0]
    again = start(out, recipe, TORCHRUN, training__accumulate=1)
    said = end_of(again)
    assert again.returncode == 0, said
    assert untimed(out) == untimed(folder / "two")
    assert (out / "model.safetensors").read_bytes() == (folder / "two" / "model.safetensors").read_bytes()
