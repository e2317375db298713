"""Saved states: the last two are kept, a damaged one gives way to the one before, a failed write harms neither."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from transformer.errors import TrainingError
from transformer.training.recipe import Recipe
from transformer.training.state import NEW, PREVIOUS, STATE, VERSION, exists, read_state, write_state


def content(step: int) -> dict[str, Any]:
    return {
        "version": VERSION,
        "progress": {"step": step},
        "model": {"weight": torch.full((2000,), float(step))},
        "optimizer": {},
        "recipe": Recipe().to_dict(),
    }


def step_of(folder: Path) -> tuple[int, list[str]]:
    told: list[str] = []
    return read_state(folder, Recipe(), told.append)["progress"]["step"], told


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    assert not exists(tmp_path)
    for step in (1, 2, 3):
        write_state(tmp_path, content(step))
    assert exists(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([STATE, PREVIOUS])
    assert step_of(tmp_path) == (3, [])
    (tmp_path / STATE).unlink()  # as after a crash between the two renames
    step, (said,) = step_of(tmp_path)
    assert step == 2
    assert said.startswith("The last saved state is lost (there is no ")


def damage(path: Path, how: str, place: float) -> None:
    """``place`` is the share of the file that stays, or lies before the damaged byte."""
    data = bytearray(path.read_bytes())
    cut = int(place * len(data))
    if how == "flipped":
        weights = data.index(torch.full((4,), 2.0).numpy().tobytes())
        data[weights + int(place * 7000)] ^= 0x40  # within the weights: the file keeps its form
    path.write_bytes(data[:cut] if how == "truncated" else data)
    if how == "a folder":
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize(
    ("how", "place"),
    [
        *[("truncated", tenths / 10) for tenths in range(10)],
        ("truncated", 0.999),
        *[("flipped", tenths / 10) for tenths in range(10)],
        ("a folder", 0.0),
    ],
)
def test_a_damaged_state_gives_way_to_the_one_before(tmp_path: Path, how: str, place: float) -> None:
    for step in (1, 2):
        write_state(tmp_path, content(step))
    damage(tmp_path / STATE, how, place)
    step, (said,) = step_of(tmp_path)
    assert step == 1
    assert f"{tmp_path / STATE} is damaged" in said
    write_state(tmp_path, content(3))
    assert step_of(tmp_path) == (3, [])


def test_a_damaged_state_never_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for step in (1, 2):
        write_state(tmp_path, content(step))
    damage(tmp_path / STATE, "truncated", 0.5)
    assert step_of(tmp_path)[0] == 1
    write_state(tmp_path, content(3))
    damage(tmp_path / STATE, "truncated", 0.5)
    assert step_of(tmp_path)[0] == 1
    (tmp_path / PREVIOUS).write_bytes(b"PK")
    (tmp_path / STATE).write_bytes(b"PK")
    with pytest.raises(TrainingError, match=r"saved state must be whole, but it was 'state.pt and state.previous.pt'"):
        step_of(tmp_path)


@pytest.mark.parametrize("place", range(0, 1000, 37))
def test_a_bit_anywhere_never_gives_another_state(tmp_path: Path, place: int) -> None:
    """In names, sizes, checksums or padding: the state is whole all the same, or it is not used."""
    for step in (1, 2):
        write_state(tmp_path, content(step))
    data = bytearray((tmp_path / STATE).read_bytes())
    data[place * len(data) // 1000] ^= 0x10
    (tmp_path / STATE).write_bytes(data)
    told: list[str] = []
    state = read_state(tmp_path, Recipe(), told.append)
    step = 1 if told else 2
    assert state["progress"] == {"step": step}
    assert torch.equal(state["model"]["weight"], content(step)["model"]["weight"])


def test_a_save_that_was_cut_off_between_its_renames_is_completed(tmp_path: Path) -> None:
    """Whatever a crash left of the three names, the newest state is found, and the one before is kept."""
    files: dict[int, bytes] = {}
    for step in (1, 2, 3):
        write_state(tmp_path, content(step))
        files[step] = (tmp_path / STATE).read_bytes()
    before_first, between = {NEW: 3, STATE: 2, PREVIOUS: 1}, {NEW: 3, PREVIOUS: 2}
    for left in (before_first, between):
        for path in tmp_path.iterdir():
            path.unlink()
        for name, step in left.items():
            (tmp_path / name).write_bytes(files[step])
        assert exists(tmp_path)
        assert step_of(tmp_path) == (3, [])
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {STATE: files[3], PREVIOUS: files[2]}


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As on a full disk, the system refuses to write more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_leaves_both_states(tmp_path: Path) -> None:
    write_state(tmp_path, content(1))
    write_state(tmp_path, content(2))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with files_of_at_most(4000), pytest.raises(TrainingError, match=r"state of the run must be writable.*free space"):
        write_state(tmp_path, content(3))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_no_space_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("transformer.training.state.write_atomically", full)
    with pytest.raises(TrainingError, match=r"free space, then resume \(No space left on device\)"):
        write_state(tmp_path, content(1))


def test_another_recipe_is_refused_by_name_of_the_value(tmp_path: Path) -> None:
    write_state(tmp_path, content(1))
    other = Recipe(model={"preset": "small"})
    with pytest.raises(TrainingError, match=r"model\.preset was None, is 'small'"):
        read_state(tmp_path, other, print)
