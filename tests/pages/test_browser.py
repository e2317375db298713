"""The real app in headless Chromium, each time on a server that nobody has visited yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_app import MARKS, eventually, labels, only_here, wait_for_labels

import transformer
from benchmarks.browser import chromium, serving
from transformer.plots.page import record_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SENTENCE = "Two dogs run."

pytestmark = MARKS


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with chromium() as started:
        yield started


@pytest.fixture
def server(workplace: Path) -> Iterator[str]:
    """The address of a fresh server."""
    with serving(workplace) as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with only_here(browser, viewport={"width": 1280, "height": 1000}) as tab:
        yield tab


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
    page.get_by_role("link", name="Attention", exact=True).click()
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
    eventually(page, lambda: page.evaluate(f"{outlined}.length") >= 1, lambda: "no source piece is outlined")


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
