"""The real app in headless Chromium: tabs that may not fail, and what is read off the pictures in them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from benchmarks.browser import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

REQUIRED = bool(os.environ.get("TRANSFORMER_REQUIRE_BROWSER"))
"""Where the browser tests must run, a missing browser is a failure."""
PATIENCE = 90_000
"""Milliseconds; a first visit loads PyTorch and Plotly, and other tests may be running."""
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="no Chromium is installed"),
]

_FIGURE = """key => {
  const picture = document.querySelector(`.st-key-${key} .js-plotly-plot`);
  if (!picture || !picture._fullData || !picture.querySelector(".main-svg")) return null;
  const plain = value => ArrayBuffer.isView(value) || Array.isArray(value) ? Array.from(value, plain)
    : Number.isNaN(value) || value === undefined ? null : value;
  const layout = picture._fullLayout;
  return {
    data: picture._fullData.map(({type, mode, name, x, y, z, zmax, opacity, showlegend}) =>
      ({type, mode, name, x: plain(x), y: plain(y), z: plain(z), zmax, opacity, showlegend})),
    shapes: layout.shapes.map(({x0, x1, y0, y1, line}) => ({x0, x1, y0, y1, width: line.width})),
    texts: layout.annotations.map(({text}) => text),
    paper: layout.paper_bgcolor,
  };
}"""
_PLACE = """([key, x, y]) => {
  const picture = document.querySelector(`.st-key-${key} .js-plotly-plot`);
  const {xaxis, yaxis, _size} = picture._fullLayout, box = picture.getBoundingClientRect();
  return [box.left + _size.l + xaxis.l2p(x), box.top + _size.t + yaxis.l2p(y)];
}"""
_LABELS = """([key, axis]) => [...document.querySelectorAll(`.st-key-${key} .${axis}tick text`)]
  .map(tick => tick.textContent)"""


@contextlib.contextmanager
def only_here(where: Browser | BrowserContext, **options: Any) -> Iterator[Page]:
    """A tab that asks nobody but this machine, and that meets no error on a page.

    Args:
        where: in a browser, nobody has been here before; in a context, what earlier tabs have loaded is at hand.
        options: of the browser's new tab.
    """
    tab = where.new_page(**options)
    tab.set_default_timeout(PATIENCE)
    asked: list[str] = []
    near = ("http://127.0.0.1", "ws://127.0.0.1", "file:", "data:", "blob:")
    tab.on("request", lambda request: None if request.url.startswith(near) else asked.append(request.url))
    try:
        yield tab
        assert asked == []
        assert tab.locator(".stException").count() == 0
    finally:
        tab.close()


def eventually(page: Page, holds: Callable[[], bool], complaint: Callable[[], object]) -> None:
    """Wait until something holds, and complain if it does not come about."""
    for _ in range(PATIENCE // 100):
        if holds():
            return
        page.wait_for_timeout(100)
    raise AssertionError(complaint())


def settled(page: Page) -> None:
    """Wait until the page's script has run to its end and nothing old is left of the run before."""
    page.wait_for_selector(".stApp[data-test-script-state=notRunning]")
    page.wait_for_function("!document.querySelector('[data-stale=true]')")


def labels(page: Page, axis: str, key: str = "large_map") -> list[str]:
    """Tick labels of a picture as they stand in it; ``axis`` is x, y, or y2 for those at the right."""
    found: list[str] = page.evaluate(_LABELS, [key, axis])
    return found


def wait_for_labels(page: Page, axis: str, expected: list[str], key: str = "large_map") -> None:
    """Wait until the tick labels of a picture are those expected."""
    eventually(page, lambda: labels(page, axis, key) == expected, lambda: f"{labels(page, axis, key)}, not {expected}")


def figure(page: Page, key: str) -> dict[str, Any] | None:
    """What Plotly has drawn: ``data``, ``shapes``, ``texts`` and the ``paper``'s colour; None if it has not yet."""
    found: dict[str, Any] | None = page.evaluate(_FIGURE, key)
    return found


def cells(page: Page, key: str) -> np.ndarray[Any, Any]:
    """The numbers of a drawn map; NaN where nothing is drawn, and no cell at all before it is there."""
    drawn = figure(page, key)
    if not drawn or not drawn["data"] or drawn["data"][0]["z"] is None:
        return np.zeros((0, 0))
    return np.array(drawn["data"][0]["z"], dtype=float)


def wait_for_cells(page: Page, key: str, expected: np.ndarray[Any, Any]) -> None:
    """Wait until a map shows these numbers, to 1e-5, and is painted."""

    def shown() -> bool:
        found = cells(page, key)
        return found.shape == expected.shape and np.allclose(found, expected, atol=1e-5, equal_nan=True)

    eventually(page, shown, lambda: f"{key} shows {cells(page, key)}, not {expected}")
    page.wait_for_selector(f".st-key-{key} .heatmaplayer image")


def click_at(page: Page, key: str, x: float, y: float) -> None:
    """Click where (x, y), in units of the axes, lies in a picture."""
    settled(page)
    page.locator(f".st-key-{key} .main-svg").first.scroll_into_view_if_needed()
    left, top = page.evaluate(_PLACE, [key, x, y])
    page.mouse.move(left - 3, top)
    page.mouse.move(left, top)
    page.wait_for_timeout(300)  # Plotly looks for what lies under the pointer at most every 50 ms
    page.mouse.click(left, top)


def choose(page: Page, key: str, label: str) -> None:
    """Choose a segment of the row of radio buttons with a key."""
    page.locator(f".st-key-{key}").get_by_text(label, exact=True).click()


def pick(page: Page, key: str, option: str) -> None:
    """Choose an option of a list that opens."""
    page.locator(f".st-key-{key} input").click()
    page.get_by_role("option", name=option, exact=True).click()
