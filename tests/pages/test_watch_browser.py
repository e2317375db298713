"""The real toy training on the learning page in a real browser: it begins, moves, is stopped, and looked back at."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from browser_app import MARKS, cells, eventually, only_here, settled

from benchmarks.browser import chromium, serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [*MARKS, pytest.mark.skipif(sys.platform == "win32", reason="it needs locks of the system")]


@pytest.fixture
def server(workplace: Path, tmp_path: Path) -> Iterator[str]:
    """A server whose trainings do not wait for those of others, and leave nothing behind."""
    with contextlib.ExitStack() as running:
        with pytest.MonkeyPatch.context() as its_own:  # not the browser's, whose sockets need a short path
            its_own.setenv("TMPDIR", str(tmp_path))
            address = running.enter_context(serving(workplace))
        yield address
    assert [path for path in tmp_path.glob("transformer-toy-*") if path.is_dir()] == []


@pytest.fixture
def page(server: str) -> Iterator[Page]:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with chromium() as browser, only_here(browser, viewport={"width": 1280, "height": 1400}) as tab:
        tab.goto(f"{server}/learning?model=tiny&sentence=Two+dogs+run.")
        tab.wait_for_selector(".st-key-learning_watch_start")
        settled(tab)
        yield tab


def updates(page: Page) -> int:
    """Of the snapshot that is shown; 0 if none is."""
    found = re.search(r"After ([\d,]+) updates: ", page.locator(".st-key-section_watch").inner_text())
    return int(found[1].replace(",", "")) if found else 0


def test_start_watch_stop_and_look_back(page: Page, tmp_path: Path) -> None:
    page.get_by_role("button", name="Train it now").click()
    pair = page.locator(".st-key-learning_live_map_pair .heatmaplayer image")
    eventually(page, lambda: updates(page) >= 20, lambda: page.locator(".st-key-section_watch").inner_text())
    before = updates(page)
    eventually(page, lambda: updates(page) > before, lambda: f"it stays at {before}")
    assert pair.count() >= 1  # the one beneath is seen until the one above is drawn
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("It was stopped after ").wait_for()
    settled(page)
    last = updates(page)
    assert last > 1
    page.wait_for_selector(".st-key-learning_watch_map .heatmaplayer image")
    page.get_by_role("slider", name="After how many updates").focus()
    page.keyboard.press("Home")
    eventually(page, lambda: updates(page) == 1, lambda: updates(page))
    settled(page)
    eventually(
        page, lambda: cells(page, "learning_watch_map").shape == (9, 10), lambda: cells(page, "learning_watch_map")
    )
    shown = cells(page, "learning_watch_map")
    np.testing.assert_allclose(shown.sum(axis=1), 1, atol=1e-5)
    assert shown.max() < 0.5  # weights at random look everywhere nearly alike
    assert [path for path in tmp_path.glob("transformer-toy-*") if path.is_dir()]
