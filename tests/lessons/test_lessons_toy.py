"""The toy trained by the app: its process begins, is followed, and ends in every way that it can; and what it shows."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from toy_plans import STEPS, brief, endless

import transformer
from transformer.config import EOS_ID
from transformer.errors import CheckpointError, InputError, TransformerError
from transformer.lessons import toy_run
from transformer.lessons.toy_folders import PREFIX, Folder, Turn, remove_old
from transformer.lessons.toy_glimpse import Glimpse, mirrored, read_letters
from transformer.lessons.toy_recipe import LONGEST, PLAN, Plan
from transformer.lessons.toy_run import ToyRun
from transformer.lessons.toy_runner import RefusedError, ToyRunner
from transformer.training.recipe import load_recipe

ROOT = Path(__file__).parents[2]
ME, OTHER = "me", "somebody else"
LETTERS = ("c", "a", "b")
PATIENCE = 60.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it needs locks of the system")


@pytest.fixture
def runners() -> Iterator[Callable[[Plan, Path], ToyRunner]]:
    made = []

    def make(plan: Plan, base: Path) -> ToyRunner:
        made.append(ToyRunner(plan, base))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyRun]:
    """A training that has come to its end."""
    folder = tmp_path_factory.mktemp("toy")
    runner = ToyRunner(brief(folder), folder)
    run = runner.start(ME)
    assert run.wait(PATIENCE)
    yield run
    runner.close()


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def lives(process: int) -> bool:
    """Whether it is at work: one that ended and waits for its parent to take notice is not."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, 0)
            return not Path("/proc").is_dir()
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def folders(base: Path) -> list[Path]:
    return [path for path in base.glob(f"{PREFIX}*") if path.is_dir()]


def test_a_training_is_followed_to_its_end(finished: ToyRun) -> None:
    progress = finished.progress()
    assert (progress.state, progress.said) == ("finished", "")
    assert (progress.epoch, progress.epochs) == (2, 2)
    assert progress.step == progress.at_most > STEPS[-1]
    assert progress.kept == STEPS
    assert progress.trained
    assert progress.exact == 0.0
    assert progress.course is not None
    assert progress.course.train_loss.steps[-1] == progress.step
    assert 0 < progress.seconds < PATIENCE
    time.sleep(0.02)
    assert finished.progress().seconds == progress.seconds


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_the_trainer_stands_back(tmp_path: Path, runners: Callable[[Plan, Path], ToyRunner]) -> None:
    """Low priority, one thread, no terminal, and no file outside of its folder."""
    process = runners(endless(tmp_path), tmp_path).start(ME).process_id
    eventually(lambda: os.getpriority(os.PRIO_PROCESS, process) >= 10)
    assert os.getsid(process) == process
    told = dict(one.split("=", 1) for one in Path(f"/proc/{process}/environ").read_text().split("\0") if "=" in one)
    assert (told["OMP_NUM_THREADS"], told["PYTHONDONTWRITEBYTECODE"]) == ("1", "1")
    assert Path(f"/proc/{process}/cwd").resolve().parent == tmp_path.resolve()


def test_glimpses_are_those_of_the_opened_checkpoint(finished: ToyRun) -> None:
    found = finished.glimpses(LETTERS, STEPS)
    assert [one.step for one in found] == list(STEPS)
    for one in found:
        opened = transformer.load(finished.folder, snapshot=one.step)
        ids = (*opened.ids_of("b a c"), EOS_ID)
        record = opened.inspect("c a b", target_ids=ids)
        np.testing.assert_array_equal(one.record.cross, record.cross)
        log_probs = [step.chosen.log_prob for step in opened.steps("c a b", ids)]
        assert one.probability == pytest.approx(np.exp(np.mean(log_probs)), abs=1e-6)
        assert one.written == tuple(opened.translate("c a b", beam_size=1, max_extra=20).text.split())
        assert one.parameters == opened.parameter_count
    assert not np.array_equal(found[0].record.cross, found[-1].record.cross)


def test_a_glimpse_costs_once(finished: ToyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    first = finished.glimpses(LETTERS, STEPS)
    away = finished.folder.with_name("away")
    finished.folder.rename(away)
    try:
        assert finished.glimpses(LETTERS, STEPS[::-1]) == first[::-1]
        assert finished.looked(LETTERS) == first
        assert finished.looked(("a",)) == []
        with pytest.raises(CheckpointError, match=r"recipe\.json"):
            finished.glimpses(("a",), STEPS)
    finally:
        away.rename(finished.folder)
    monkeypatch.setattr(toy_run, "KEPT_GLIMPSES", 2)
    finished.glimpses(("a", "b"), STEPS)
    assert [one.step for one in finished.looked(("a", "b"))] == list(STEPS[1:])
    with pytest.raises(TransformerError, match="step-000002"):
        finished.glimpses(LETTERS, [2])


def test_what_lies_on_the_other_diagonal() -> None:
    cross = np.zeros((1, 2, 4, 5), dtype=np.float32)
    for row, column in enumerate((3, 2, 1)):  # the letters stand in columns 1 to 3, the last one is written first
        cross[0, 0, row, column] = 1.0
    cross[0, 1] = 0.2
    cross[0, 0, 3, 0] = 1.0  # writing <EOS> counts for nothing
    np.testing.assert_allclose(mirrored(cross), [[1.0, 0.2]], atol=1e-7)


@pytest.mark.parametrize(
    ("written", "finished", "right"), [("cba", True, True), ("cba", False, False), ("cb", True, False)]
)
def test_when_an_answer_is_right(written: str, finished: bool, right: bool, record: object) -> None:
    glimpse = Glimpse(1, ("a", "b", "c"), tuple(written), finished, 0.5, record, 10)  # type: ignore[arg-type]
    assert glimpse.right is right
    assert glimpse.probability == pytest.approx(0.60653, abs=1e-5)


@pytest.fixture
def record() -> None:
    return None


@pytest.mark.parametrize("text", ["abc", " A b,\tC ", "a, b, c"])
def test_letters_as_typed(text: str) -> None:
    assert read_letters(text) == ("a", "b", "c")


@pytest.mark.parametrize(("text", "said"), [("", "1 to 16"), ("a" * 17, "1 to 16"), ("a1", "'1'"), ("<b>", "'<'")])
def test_letters_that_it_does_not_know(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_letters(text)


def test_the_plan_is_a_recipe_and_can_be_trained_by_hand() -> None:
    recipe = load_recipe(PLAN.recipe, PLAN.overrides(3))
    assert (recipe.data.generated_length, recipe.training.seed, recipe.training.threads) == (LONGEST, 3, 1)
    assert recipe.training.epochs == PLAN.epochs
    assert recipe.training.stop_at == PLAN.goal
    words = shlex.split(PLAN.command(3))
    assert words[:6] == ["python", "-m", "transformer", "train", "reverse", "--out"]
    by_hand = load_recipe(words[4], words[words.index("--set") + 1 :])
    assert (by_hand.data, by_hand.model, by_hand.tokenizer) == (recipe.data, recipe.model, recipe.tokenizer)
    for key, value in vars(by_hand.training).items():
        if key not in ("threads", "device", "log_every"):
            assert value == getattr(recipe.training, key), key


def test_only_who_started_it_stops_it(
    tmp_path: Path, runners: Callable[[Plan, Path], ToyRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runners(endless(tmp_path), tmp_path).start(ME)
    assert run.may_stop(ME)
    assert not run.stop(OTHER)
    assert run.running
    monkeypatch.setattr(toy_run, "AWAY", 0.05)
    time.sleep(0.1)
    run.heard(OTHER)
    assert run.may_stop(OTHER)  # nobody has heard of the one who started it
    run.heard(ME)
    assert not run.may_stop(OTHER)
    started = time.monotonic()
    assert run.stop(ME)
    assert run.state == "stopped"
    assert not lives(run.process_id)
    assert time.monotonic() - started < PATIENCE / 2


def test_a_training_that_is_stopped_on_the_way_keeps_what_it_has(
    tmp_path: Path, runners: Callable[[Plan, Path], ToyRunner]
) -> None:
    run = runners(endless(tmp_path), tmp_path).start(ME)
    eventually(lambda: run.progress().step > STEPS[-1])
    assert run.stop(ME)
    progress = run.progress()
    assert (progress.state, progress.kept, progress.tested) == ("stopped", STEPS, None)
    assert not progress.trained
    assert run.glimpses(LETTERS, STEPS[-1:])[0].step == STEPS[-1]


def test_one_that_does_not_listen_is_killed(
    tmp_path: Path, runners: Callable[[Plan, Path], ToyRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy_run, "PATIENCE", 0.2)
    run = runners(endless(tmp_path), tmp_path).start(ME)
    os.kill(run.process_id, signal.SIGSTOP)
    run.stop(ME)
    assert run.wait(PATIENCE)
    assert run.state == "stopped"
    assert not lives(run.process_id)


def test_it_ends_at_the_limit_of_time(tmp_path: Path, runners: Callable[[Plan, Path], ToyRunner]) -> None:
    run = runners(brief(tmp_path, limit=0.3), tmp_path).start(ME)
    assert run.wait(PATIENCE)
    assert (run.state, lives(run.process_id)) == ("late", False)
    assert run.seconds >= 0.3


def test_an_error_of_the_trainer_is_told(tmp_path: Path, runners: Callable[[Plan, Path], ToyRunner]) -> None:
    run = runners(brief(tmp_path, recipe="no-such-recipe"), tmp_path).start(ME)
    assert run.wait(PATIENCE)
    progress = run.progress()
    assert progress.state == "failed"
    assert progress.said.startswith("recipe must be a .toml file or a known name, but it was 'no-such-recipe'")
    assert (progress.course, progress.kept, progress.step) == (None, (), 0)


def test_one_at_a_time(tmp_path: Path, runners: Callable[[Plan, Path], ToyRunner]) -> None:
    """In a server, and among the servers of a user; and a new one takes the place of the one before."""
    runner, another = runners(endless(tmp_path), tmp_path), runners(endless(tmp_path), tmp_path)
    run = runner.start(ME)
    with pytest.raises(RefusedError, match="Another visitor's training is running"):
        runner.start(OTHER)
    with pytest.raises(RefusedError, match="Another copy of this app"):
        another.start(OTHER)
    assert (runner.run, another.run) == (run, None)
    assert folders(tmp_path) == [run.folder.parent]
    assert run.stop(ME)
    second = another.start(OTHER)
    with pytest.raises(RefusedError, match="Another copy of this app"):
        runner.start(ME)
    assert runner.run is run  # what was learned stays until another one has begun
    assert second.stop(OTHER)
    third = runner.start(ME)
    assert (third.number, runner.run) == (2, third)
    assert sorted(folders(tmp_path)) == sorted([second.folder.parent, third.folder.parent])
    runner.close()
    assert not lives(third.process_id)
    assert folders(tmp_path) == [second.folder.parent]


def test_a_training_that_cannot_begin(tmp_path: Path, runners: Callable[[Plan, Path], ToyRunner]) -> None:
    runner = runners(PLAN, tmp_path / "nowhere")
    with pytest.raises(RefusedError, match=r"^The training cannot be started: No such file or directory\.$"):
        runner.start(ME)
    assert runner.run is None


def test_a_program_that_cannot_be_started_leaves_nothing(
    tmp_path: Path, runners: Callable[[Plan, Path], ToyRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(RefusedError, match="cannot be started"):
        runners(PLAN, tmp_path).start(ME)
    assert folders(tmp_path) == []
    Turn(tmp_path).leave()


def test_it_does_not_outlive_its_server(tmp_path: Path) -> None:
    """Killed so that no code of the server runs any more; started by a thread that has ended, as in the app."""
    brief(tmp_path)
    code = (
        "import sys, threading, time\nfrom pathlib import Path\nsys.path.insert(0, sys.argv[2])\n"
        "from toy_plans import endless\nfrom transformer.lessons.toy_runner import ToyRunner\n"
        "base = Path(sys.argv[1])\nrunner = ToyRunner(endless(base), base)\n"
        "thread = threading.Thread(target=runner.start, args=('me',))\nthread.start()\nthread.join()\n"
        "time.sleep(0.3)\nprint(runner.run.process_id, runner.run.running, flush=True)\ntime.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        process, running = server.stdout.readline().split()
        assert running == "True"
        assert lives(int(process))
        server.kill()
    eventually(lambda: not lives(int(process)))
    assert folders(tmp_path) == []


def test_what_a_dead_server_left_behind_is_removed(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}left"
    (left / "run").mkdir(parents=True)
    used = Folder(tmp_path)
    (tmp_path / "unrelated").mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "unrelated")
    assert remove_old(tmp_path) == 1
    assert not left.exists()
    assert used.path.is_dir()
    assert (tmp_path / "unrelated").is_dir()
    used.remove()
    assert folders(tmp_path) == [tmp_path / f"{PREFIX}link"]


def test_the_turn_lasts_as_long_as_who_inherited_it(tmp_path: Path) -> None:
    turn = Turn(tmp_path)
    with subprocess.Popen(["sleep", "600"], pass_fds=turn.handles) as heir:
        turn.leave()
        with pytest.raises(BlockingIOError):
            Turn(tmp_path)
        heir.kill()
    Turn(tmp_path).leave()
