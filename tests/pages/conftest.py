"""The app on a folder of checkpoints of its own, in AppTest and behind a real server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import streamlit as st

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def workplace(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory whose ``checkpoints/`` holds the tiny model, with the app's own configuration."""
    folder = tmp_path_factory.mktemp("workplace")
    shutil.copytree(tiny_checkpoint, folder / "checkpoints" / "tiny")
    shutil.copytree(ROOT / ".streamlit", folder / ".streamlit")
    return folder


@pytest.fixture
def in_workplace(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work there, with empty caches."""
    monkeypatch.chdir(workplace)
    st.cache_data.clear()
    return workplace
