"""The real app in headless Chromium, each time on a server that nobody has visited yet."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import transformer
from transformer.plots.page import record_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
REQUIRED = bool(os.environ.get("TRANSFORMER_REQUIRE_BROWSER"))
"""Where the browser tests must run, a missing browser is a failure."""
PATIENCE = 90_000
"""Milliseconds; a first visit loads PyTorch and Plotly, and other tests may be running."""
SENTENCE = "Two dogs run."

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="no Chromium is installed"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def server(workplace: Path) -> Iterator[str]:
    """The address of a fresh server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py"), "--server.port", str(port)]
    command += ["--server.headless", "true", "--server.address", "127.0.0.1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    log = workplace / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=workplace, env=environment, stdout=output, stderr=output)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/_stcore/health", timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab that may talk to this machine only, and that must not meet an error on a page."""
    tab = browser.new_page(viewport={"width": 1280, "height": 1000})
    tab.set_default_timeout(PATIENCE)
    asked: list[str] = []

    def only_here(route: Any) -> None:
        asked.append(route.request.url)
        route.abort()

    tab.route(lambda url: "//127.0.0.1" not in url and not url.startswith(("file:", "data:", "blob:")), only_here)
    yield tab
    assert asked == []
    assert tab.locator(".stException").count() == 0
    tab.close()


def labels(page: Page, axis: str) -> list[str]:
    """Tick labels of the large map, as they stand in the picture."""
    found: list[str] = page.eval_on_selector_all(
        f".st-key-large_map .{axis}tick text", "ticks => ticks.map(tick => tick.textContent)"
    )
    return found


def wait_for_labels(page: Page, axis: str, expected: list[str]) -> None:
    page.wait_for_selector(".st-key-large_map .heatmaplayer image")
    eventually(lambda: labels(page, axis) == expected, lambda: f"{labels(page, axis)} is not {expected}")


def eventually(holds: Callable[[], bool], complaint: Callable[[], str]) -> None:
    until = time.monotonic() + PATIENCE / 1000
    while not holds():
        assert time.monotonic() < until, complaint()
        time.sleep(0.1)


def sentence(page: Page) -> str:
    return page.get_by_label("Sentence", exact=True).input_value()


def test_cold_deep_link_to_the_map_then_away_and_back(page: Page, server: str, workplace: Path) -> None:
    record = transformer.load(workplace / "checkpoints" / "tiny").inspect(SENTENCE)
    written = [piece.label for piece in record.target_output]
    page.goto(f"{server}/attention?model=tiny&sentence={SENTENCE}&kind=decoder&layer=1&head=3")
    wait_for_labels(page, "y", written)
    assert labels(page, "x") == record.target_tokens
    assert sentence(page) == SENTENCE
    assert page.get_by_text("decoder attention · layer 1 · head 3").first.is_visible()
    page.get_by_role("link", name="Translate").click()
    page.wait_for_selector(".translation, .notice")
    assert sentence(page) == SENTENCE
    page.go_back()
    wait_for_labels(page, "y", written)
    assert sentence(page) == SENTENCE
    page.reload()
    wait_for_labels(page, "y", written)
    assert sentence(page) == SENTENCE
    assert page.get_by_text("decoder attention · layer 1 · head 3").first.is_visible()


def test_cold_root_then_typing_then_the_map(page: Page, server: str, workplace: Path) -> None:
    page.goto(f"{server}/?model=tiny")
    page.wait_for_selector(".ribbon")
    box = page.get_by_label("Sentence", exact=True)
    box.fill("A <b>dog</b>")
    box.press("Enter")
    page.wait_for_url("**sentence=A*")
    page.get_by_role("link", name="Attention").click()
    tokens = [p.label for p in transformer.load(workplace / "checkpoints" / "tiny").tokenizer.pieces("A <b>dog</b>")]
    wait_for_labels(page, "x", tokens)
    assert sentence(page) == "A <b>dog</b>"
    page.get_by_role("link", name="Translate").click()
    page.wait_for_selector(".translation, .notice")
    assert sentence(page) == "A <b>dog</b>"


def test_clicking_a_head_and_arrow_keys_choose_it(page: Page, server: str) -> None:
    page.goto(f"{server}/attention?model=tiny&sentence={SENTENCE}")
    overview = page.locator(".st-key-heads_overview .nsewdrag")
    overview.wait_for()
    page.wait_for_timeout(500)
    area = overview.bounding_box()
    assert area
    page.mouse.move(area["x"] + area["width"] * 0.75, area["y"] + area["height"] * 0.7)
    page.wait_for_timeout(200)
    page.mouse.click(area["x"] + area["width"] * 0.75, area["y"] + area["height"] * 0.75)
    page.wait_for_url("**head=4*")
    page.get_by_text("cross attention · layer 2 · head 4").first.wait_for()
    page.wait_for_timeout(1500)  # the overview is drawn anew with the other outline
    page.locator(".st-key-head input:checked").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**head=3*")


def test_pointing_at_an_output_piece_marks_its_partners(page: Page, server: str) -> None:
    page.goto(f"{server}/?model=tiny&sentence={SENTENCE}")
    page.locator(".ribbon .t0").hover()
    outlined = (
        "[...document.querySelectorAll('.ribbon .chip')].filter(e => getComputedStyle(e).outlineStyle == 'solid')"
    )
    eventually(lambda: page.evaluate(f"{outlined}.length") >= 1, lambda: "no source piece is outlined")


def test_exported_page_works_without_a_server(page: Page, workplace: Path) -> None:
    record = transformer.load(workplace / "checkpoints" / "tiny").inspect("Two <b>dogs</b>")
    file = workplace / "record.html"
    file.write_text(record_page(record, {"source": "English", "target": "German"}), encoding="utf-8")
    page.goto(file.as_uri())
    ticks = "#map .{}tick text"
    read = "ticks => ticks.map(tick => tick.textContent)"
    page.wait_for_selector("#map .heatmaplayer image")
    assert page.eval_on_selector_all(ticks.format("x"), read) == record.source_tokens
    page.select_option("#kind", "encoder")
    page.select_option("#layer", "3")
    page.wait_for_function("document.getElementById('title').textContent == 'encoder attention · layer 3 · head 1'")
    assert page.eval_on_selector_all(ticks.format("y"), read) == record.source_tokens
    assert page.locator("#overview-cross .heatmaplayer image").count() == 1
