"""Nothing is lost when the disk is full or damages a state: real processes, real failing writes.

A limit of the system for the size of files makes the chosen write fail wherever the tests run; where a small file
system may be mounted, the same is done with a disk that is really full.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from training_processes import Fault, Outcome, Server, serving
from training_runs import arguments, assert_same_result, own_recipe

from transformer.text.tokenizer import train_tokenizer
from transformer.training.state import PREVIOUS, STATE, exists

STATES = (STATE, PREVIOUS)


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder, and a command that mounts 4 MB there and runs the command behind it; none where that is not allowed."""
    folder = tmp_path_factory.mktemp("disk")
    mounted = ["unshare", "-rm", "sh", "-c", f"mount -t tmpfs -o size=4m none '{folder}' && exec \"$@\"", "sh"]
    try:
        subprocess.run([*mounted, "true"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return folder, []
    return folder, mounted


@pytest.fixture(scope="module")
def server(small_disk: tuple[Path, list[str]]) -> Iterator[Server]:
    with serving(small_disk[1]) as started:
        yield started


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    return own_recipe(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def whole(server: Server, recipe: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    outcome = server.run(arguments(out, recipe))
    assert outcome.status == 0, outcome.said
    return out


@pytest.fixture(scope="module")
def half(server: Server, recipe: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, killed in its third epoch; do not write into it."""
    out = tmp_path_factory.mktemp("half") / "run"
    server.run(arguments(out, recipe), Fault("kill", r"\.epoch-003"))
    assert exists(out / "training")
    return out


def assert_one_sentence(outcome: Outcome, *parts: str) -> None:
    """A user's mistake, or the world's: said in one sentence, without a stack trace."""
    assert outcome.status == 2, outcome.said
    assert "Traceback" not in outcome.said
    sentence = outcome.last_line
    assert sentence.endswith(".")
    for part in parts:
        assert part in sentence, sentence


FILLED = {
    "recipe": Fault("full", r"\.recipe\.json", room=100),
    "tokenizer": Fault("full", r"\.tokenizer\.model", room=5000),
    "history": Fault("full", r"history\.jsonl$", 12, room=30),
    "first state": Fault("full", r"\.state", room=5000),
    "state": Fault("full", r"\.state", 14, room=5000),
    "weights": Fault("full", r"\.epoch-002", room=5000),
    "tokenizer of the checkpoint": Fault("full", r"\.tokenizer\.model", 2, room=5000),
    "model": Fault("full", r"\.model\.safetensors", room=5000),
    "config": Fault("full", r"\.config\.json", room=100),
    "card": Fault("full", r"\.README\.md", room=100),
}


@pytest.mark.parametrize("name", FILLED)
def test_a_file_that_finds_no_space(server: Server, recipe: str, whole: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "run"
    outcome = server.run(arguments(out, recipe), FILLED[name])
    assert_one_sentence(outcome, "free space, then ", "File too large")
    assert not list(out.rglob(".*.tmp"))
    again = server.run(arguments(out, recipe))
    assert again.status == 0, again.said
    assert_same_result(whole, out)


@pytest.mark.parametrize("pattern", [r"\.history\.jsonl", r"\.recipe\.json", r"\.state", r"history\.jsonl$"])
def test_a_resumed_run_finds_no_space(
    server: Server, recipe: str, whole: Path, half: Path, tmp_path: Path, pattern: str
) -> None:
    """The states stay as they were, so that it can be tried again."""
    out = shutil.copytree(half, tmp_path / "run")
    before = [(out / "training" / name).read_bytes() for name in STATES]
    outcome = server.run(arguments(out, recipe), Fault("full", pattern, room=10))
    assert_one_sentence(outcome, "free space, then resume")
    assert [(out / "training" / name).read_bytes() for name in STATES] == before
    assert server.run(arguments(out, recipe)).status == 0
    assert_same_result(whole, out)


@pytest.mark.parametrize("pattern", [r"\.state", r"\.epoch-002", r"\.model\.safetensors"])
def test_a_full_disk(
    server: Server, small_disk: tuple[Path, list[str]], recipe: str, whole: Path, pattern: str
) -> None:
    folder, mounted = small_disk
    if not mounted:
        pytest.skip("no file system may be mounted here")
    out = folder / "run"
    seen = server.root / str(out).lstrip("/")
    shutil.rmtree(seen, ignore_errors=True)
    number = 14 if "state" in pattern else 1
    outcome = server.run(arguments(out, recipe), Fault("full", pattern, number, disk=str(folder)))
    assert_one_sentence(outcome, "free space, then ", "No space left on device")
    assert exists(seen / "training")
    assert_one_sentence(server.run(arguments(out, recipe, resume=True)), "free space, then resume")
    (seen.parent / "filler").unlink()
    again = server.run(arguments(out, recipe, resume=True))
    assert again.status == 0, again.said
    assert_same_result(whole, seen)


@pytest.mark.parametrize("how", ["cut", "scratched", "gone"])
def test_a_damaged_state_gives_way_to_the_one_before(
    server: Server, recipe: str, whole: Path, half: Path, tmp_path: Path, how: str
) -> None:
    out = shutil.copytree(half, tmp_path / "run")
    damage(out / "training" / STATE, how)
    outcome = server.run(arguments(out, recipe))
    assert outcome.status == 0, outcome.said
    assert "The last saved state is lost" in outcome.said
    assert_same_result(whole, out)


def test_with_both_states_damaged_the_run_says_so(server: Server, recipe: str, half: Path, tmp_path: Path) -> None:
    out = shutil.copytree(half, tmp_path / "run")
    for name, how in zip(STATES, ("cut", "scratched"), strict=True):
        damage(out / "training" / name, how)
    assert_one_sentence(server.run(arguments(out, recipe, resume=True)), f"{STATE} and {PREVIOUS}", "without --resume")


def damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    path.unlink()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "scratched":
        middle = len(data) // 2
        data[middle : middle + 200] = bytes(200)  # more than the padding between two records
        path.write_bytes(data)


def test_another_recipe_tokenizer_or_corpus_is_refused(server: Server, whole: Path, tmp_path: Path) -> None:
    """With the difference named, and nothing written; taken back, the run goes on."""
    recipe, out = own_recipe(tmp_path), tmp_path / "run"
    server.run(arguments(out, recipe), Fault("kill", r"\.epoch-002"))

    def assert_refused(difference: str, **changes: object) -> None:
        before = contents(out)
        assert_one_sentence(server.run(arguments(out, recipe, **changes)), "--resume must continue", difference)
        assert contents(out) == before

    assert_refused("training.seed was 1, is 2", training__seed=2)
    assert_refused("model.dropout was 0.1, is 0.2", model__dropout=0.2)
    assert_refused("data.max_pieces was 250, is 249", data__max_pieces=249)
    other = train_tokenizer(["a b c d e f g h"], 15)
    with replaced(out / "tokenizer.model", other.to_bytes()):
        assert_refused("tokenizer.model is another one")
    corpus = tmp_path / "train.target"
    with replaced(corpus, corpus.read_bytes().replace(b"a", b"b", 1)):
        assert_refused("the training or dev pairs are others")
    assert server.run(arguments(out, recipe)).status == 0
    assert_same_result(whole, out)


def contents(out: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in out.rglob("*") if path.is_file()}


@contextmanager
def replaced(path: Path, data: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(data)
    yield
    path.write_bytes(before)
