"""A log that cannot be written ends nothing."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from tqdm import tqdm

from transformer.training.telling import VOICE, tell


def test_a_sentence_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    tell("Größe: 3.")
    assert capsys.readouterr().err == "Größe: 3.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_on_a_full_disk_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    full = open("/dev/full", "w", buffering=1)  # noqa: SIM115
    monkeypatch.setattr(sys, "stderr", full)
    tell("lost")
    with tqdm(total=3, file=VOICE, mininterval=0) as bar:
        bar.update(3)
    monkeypatch.undo()
    with pytest.raises(OSError, match="No space left"):
        full.close()


def test_a_closed_log_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    tell("lost")
