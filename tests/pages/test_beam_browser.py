"""The beam page in a real browser: click a node, search on behind it and return, change the beam."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from browser_app import MARKS, click_at, eventually, figure, only_here, settled, wait_for_cells

import transformer
from benchmarks.browser import chromium, serving
from transformer.analysis.tree import tree_layout

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from transformer.decoding.trace import BeamTrace
    from transformer.engine import Translator

SENTENCE = "Two dogs run."
CHART = "search_tree"

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
    with only_here(browser, viewport={"width": 1280, "height": 1600}) as tab:
        yield tab


@pytest.fixture(scope="module")
def model(workplace: Path) -> Translator:
    return transformer.load(workplace / "checkpoints" / "tiny")


def parameter(page: Page, name: str) -> str:
    return parse_qs(urlsplit(page.url).query).get(name, [""])[0]


def trace_of(model: Translator, beam: int) -> BeamTrace:
    return model.trace_beams(SENTENCE, beam_size=beam, nbest=1, max_extra=10)


def places(page: Page, trace: BeamTrace) -> dict[int, tuple[float, float]]:
    """Where each node is drawn; nothing while another tree is."""
    drawn = figure(page, CHART)
    nodes = tree_layout(trace, 0, trace.hypotheses[0]).nodes
    handles = [one for one in (drawn or {"data": []})["data"] if one["x"] and len(one["x"]) == 2 * len(nodes)]
    if not handles:
        return {}
    found = handles[-1]
    return dict(zip(nodes, zip(found["x"], found["y"], strict=True), strict=False))


def test_click_a_node_search_on_and_change_the_beam(page: Page, server: str, model: Translator) -> None:
    trace = trace_of(model, 3)
    page.goto(f"{server}/beam?model=tiny&sentence={SENTENCE}&beam=3&max_extra=10&nbest=1")
    page.wait_for_selector(f".st-key-{CHART} .scatterlayer")
    settled(page)
    eventually(page, lambda: bool(places(page, trace)), lambda: figure(page, CHART))

    node = next(index for index, one in enumerate(trace.nodes) if one.step == 2 and one.status == "kept")
    click_at(page, CHART, *places(page, trace)[node])
    eventually(page, lambda: parameter(page, "node") == str(node), lambda: page.url)
    record = model.inspect(SENTENCE, target_ids=trace.tokens(node))
    wait_for_cells(page, "story_map", np.asarray(record.cross[-1].mean(axis=0)))

    page.get_by_role("button", name="Search on from here", exact=True).click()
    eventually(page, lambda: parameter(page, "prefix") != "", lambda: page.url)
    page.get_by_text("is forced to begin with").wait_for()
    settled(page)
    page.get_by_role("button", name="Back to the free search", exact=True).click()
    eventually(page, lambda: parameter(page, "prefix") == "", lambda: page.url)
    eventually(page, lambda: bool(places(page, trace)), lambda: figure(page, CHART))

    slider = page.get_by_role("slider", name="Beam size")
    slider.focus()
    page.keyboard.press("ArrowRight")
    eventually(page, lambda: parameter(page, "beam") == "4", lambda: page.url)
    wider = trace_of(model, 4)
    eventually(page, lambda: bool(places(page, wider)), lambda: figure(page, CHART))
    assert len(wider.nodes) > len(trace.nodes)
