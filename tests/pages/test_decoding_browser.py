"""The decoding page in a real browser: step, click a candidate, take it back, play to the end, and return by Back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from browser_app import MARKS, click_at, eventually, figure, labels, only_here, settled

import transformer
from benchmarks.browser import chromium, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from transformer.engine import Translator

SENTENCE = "Two dogs run."
CHART = "candidates"

pytestmark = MARKS


@pytest.fixture(scope="module")
def server(workplace: Path) -> Iterator[str]:
    with serving(workplace) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with only_here(browser, viewport={"width": 1280, "height": 1400}) as tab:
        yield tab


@pytest.fixture(scope="module")
def model(workplace: Path) -> Translator:
    return transformer.load(workplace / "checkpoints" / "tiny")


def visit(page: Page, server: str, **choices: object) -> None:
    chosen = {"model": "tiny", "sentence": SENTENCE, "max_extra": 10, **choices}
    page.goto(f"{server}/decoding?" + "&".join(f"{name}={value}" for name, value in chosen.items()))
    page.wait_for_selector(f".st-key-{CHART} .barlayer")
    settled(page)


def parameter(page: Page, name: str) -> str:
    return parse_qs(urlsplit(page.url).query).get(name, [""])[0]


def on_step(page: Page, number: int) -> None:
    eventually(page, lambda: f"Step {number} of" in page.locator(".way").inner_text(), lambda: page.url)
    settled(page)


def bars(page: Page) -> list[float]:
    drawn = figure(page, CHART)
    return list(drawn["data"][0]["x"]) if drawn else []


def test_step_click_undo_and_back(page: Page, server: str, model: Translator) -> None:
    ids = model.translate(SENTENCE, beam_size=1, max_extra=10).ids
    steps = model.steps(SENTENCE, ids)
    visit(page, server, step=2)
    on_step(page, 2)
    page.get_by_role("button", name="Next", exact=True).click()
    on_step(page, 3)
    assert parameter(page, "step") == "3"
    expected = [one.probability for one in steps[2].candidates]
    eventually(page, lambda: bars(page)[:10] == pytest.approx(expected, abs=1e-6), lambda: bars(page))

    other = steps[2].candidates[2].piece
    click_at(page, CHART, 0.7, 2)
    eventually(page, lambda: parameter(page, "prefix").endswith(f"{other.id}!"), lambda: page.url)
    settled(page)
    assert page.locator(".way .newest.picked").inner_text() == other.label
    assert page.get_by_text("Forced: you picked it (rank 3").count() == 1

    page.get_by_role("link", name="Translate").click()
    page.wait_for_selector(".translation")
    page.go_back()
    on_step(page, 3)
    assert page.locator(".way .newest.picked").inner_text() == other.label
    page.get_by_role("button", name="Undo", exact=True).click()
    eventually(page, lambda: page.locator(".way .picked").count() == 0, lambda: page.url)
    assert parameter(page, "prefix") == ""


def test_play_runs_to_the_end_and_arrows_move_the_step(page: Page, server: str, model: Translator) -> None:
    count = len(model.steps(SENTENCE, model.translate(SENTENCE, beam_size=1, max_extra=10).ids))
    visit(page, server, step=max(count - 3, 1))
    page.get_by_role("button", name="Play", exact=True).click()
    on_step(page, count)
    page.get_by_role("button", name="Play", exact=True).wait_for()  # it has stopped by itself
    settled(page)
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("ArrowLeft")
    on_step(page, count - 1)
    eventually(page, lambda: parameter(page, "step") == str(count - 1), lambda: page.url)
    rows = [label for label in labels(page, "y", CHART) if label]
    assert rows[-1].startswith("all other pieces")
