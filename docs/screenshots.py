"""Take the pictures of the README from the real app: python docs/screenshots.py [NAME ...]

Each is the upper part of the page in a browser without a screen. Needs Chromium, and playwright: pip install -r
tests/requirements.txt
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the product, from whatever folder this is run

from benchmarks.browser import ROOT, chromium, serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

SENTENCE = "If it rains tomorrow, we will stay at home."
ATTENTION = {"sentence": SENTENCE}
SECTION = ".st-key-section_"
SHOTS: dict[str, tuple[str, dict[str, str], str]] = {
    "attention": ("attention", {**ATTENTION, "layer": "4"}, ".st-key-large_map"),
    "all-heads": ("attention", {**ATTENTION, "view": "all heads"}, ".st-key-all_heads"),
    "lines": ("attention", {**ATTENTION, "view": "lines", "level": "words"}, ".st-key-lines_picture"),
    "arithmetic": ("attention", {**ATTENTION, "view": "arithmetic"}, ".js-plotly-plot"),
    "mask": ("attention", {**ATTENTION, "view": "mask", "kind": "decoder"}, ".js-plotly-plot"),
    "figures": ("attention", {**ATTENTION, "view": "figures"}, ".st-key-figures_table"),
    "across-layers": ("attention", {**ATTENTION, "view": "across layers"}, ".js-plotly-plot"),
    "decoding": ("decoding", {"sentence": SENTENCE, "step": "4"}, ".js-plotly-plot"),
    "beam": ("beam", {"sentence": "Where is the station?"}, ".js-plotly-plot"),
    "lesson-heads": ("looking", ATTENTION, f"{SECTION}heads"),
    "lesson-leak": ("masks", ATTENTION, f"{SECTION}leak"),
    "lesson-greedy": ("writing", ATTENTION, f"{SECTION}greedy"),
}
"""By name of the file: page, parameters of its address, and what must be on it; a lesson's section is taken alone."""
WIDTH, HEIGHT = 1280, 900
TALLEST, TALLEST_SECTION = 1500, 1090
"""Pixels of a page and of a section; what lies below is left out."""


def take(page: Page, address: str, name: str) -> None:
    """Write ``docs/<name>.png``."""
    path, parameters, wanted = SHOTS[name]
    page.goto(f"{address}/{path}?{urlencode(parameters)}")
    page.locator(wanted).first.wait_for()
    page.wait_for_function("document.querySelector('.stApp').dataset.testScriptState === 'notRunning'")
    page.wait_for_timeout(2500)  # Plotly draws after the script has ended
    if wanted.startswith(SECTION):
        page.set_viewport_size({"width": WIDTH, "height": 3 * TALLEST})  # pictures far below are drawn, too
        page.wait_for_timeout(2500)
        save(page.locator(wanted).screenshot(), name, TALLEST_SECTION)
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        return
    height = page.evaluate("document.querySelector('.stMainBlockContainer').scrollHeight")
    page.set_viewport_size({"width": WIDTH, "height": min(max(HEIGHT, int(height)), TALLEST)})
    page.wait_for_timeout(1000)
    save(page.screenshot(), name)
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


def save(png: bytes, name: str, tallest: int = TALLEST) -> None:
    """Write the upper part of a picture in 256 colours."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture = picture.crop((0, 0, picture.width, min(picture.height, tallest)))
    small = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(ROOT / "docs" / f"{name}.png", optimize=True)


def main() -> int:
    """Take the named pictures, or all."""
    wanted = sys.argv[1:] or list(SHOTS)
    unknown = [name for name in wanted if name not in SHOTS]
    if unknown:
        print(f"There is no picture {unknown[0]}; there are {', '.join(SHOTS)}.", file=sys.stderr)
        return 2
    with serving(ROOT) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_default_timeout(180_000)
        for name in wanted:
            take(page, address, name)
            print(f"docs/{name}.png", file=sys.stderr)
    (ROOT / "server.log").unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
