"""The history file: appending, reading what a crash left, forgetting what lies after a state."""

from __future__ import annotations

from pathlib import Path

import pytest

from transformer.training.history import History


@pytest.fixture
def history(tmp_path: Path) -> History:
    written = History(tmp_path / "history.jsonl")
    for step in (10, 20, 30):
        written.append(kind="train", step=step, loss=1 / 3, sample="Straße")
    return written


def test_lines_come_back_as_written(history: History) -> None:
    assert [line["step"] for line in history.lines()] == [10, 20, 30]
    assert history.lines()[0] == {"kind": "train", "step": 10, "loss": 0.333333, "sample": "Straße"}
    assert "Straße" in history.path.read_text(encoding="utf-8")


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert History(tmp_path / "none.jsonl").lines() == []


def test_what_lies_after_a_step_is_forgotten(history: History) -> None:
    history.cut_after(20, 0)
    assert [line["step"] for line in history.lines()] == [10, 20]
    history.append(kind="train", step=21)
    assert [line["step"] for line in history.lines()] == [10, 20, 21]


def test_a_dev_line_of_an_epoch_that_is_not_complete_is_forgotten(history: History) -> None:
    history.append(kind="dev", step=20, epoch=1)
    history.append(kind="dev", step=30, epoch=2)
    history.cut_after(30, 1)
    assert [(line["kind"], line["step"]) for line in history.lines()][-2:] == [("train", 30), ("dev", 20)]


@pytest.mark.parametrize("lost", [1, 2, 5, 25])  # 5 cuts within the two bytes of ß
def test_a_last_line_that_was_cut_off_is_left_out(history: History, lost: int) -> None:
    data = history.path.read_bytes()
    assert data.endswith('ße"}\n'.encode())
    history.path.write_bytes(data[:-lost])
    steps = [line["step"] for line in history.lines()]
    assert steps == ([10, 20, 30] if lost == 1 else [10, 20])
    history.cut_after(30, 0)
    history.append(kind="train", step=40)
    assert [line["step"] for line in history.lines()] == [*steps, 40]
