"""The app in AppTest, and what is read off it."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

from transformer.webapp import frame

ROOT = Path(__file__).resolve().parents[2]
PAGES = [spec.file for spec in frame.PAGES]
SENTENCES = {
    "plain": "Two dogs run through the snow.",
    "one token": "a",
    "emoji": "😀 🎉",
    "bold": "<b>dogs</b>",
    "end sign": "</s>",
    "markdown": "$x_1$ *st* `code` :red[x] [a](b)",
    "arabic": "مرحبا بالعالم",
    "tabs and newlines": "two\tdogs\nrun",
    "unknown letters": "狗 Žluťoučký",
    "same word": "dog " * 10,
    "numbers": "2019 2020",
    "quotes": '"it\'s" & <script>alert(1)</script>',
}


def start(page: str = PAGES[0], **parameters: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    for name, value in {"model": "tiny", **parameters}.items():
        app.query_params[name] = value
    app.run()
    return app if page == PAGES[0] else app.switch_page(str(ROOT / "pages" / f"{page}.py")).run()


def bodies(app: AppTest) -> list[str]:
    return [element.proto.body for element in app.get("html")]


def notices(app: AppTest) -> list[str]:
    """The texts of the plain messages on the page, as a person reads them."""
    found = [body for body in bodies(app) if body.startswith('<div class="notice')]
    return [html.unescape(body[body.index(">") + 1 : body.rindex("</div>")]) for body in found]


def charts(app: AppTest) -> list[dict[str, Any]]:
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def array(value: dict[str, Any]) -> np.ndarray:
    flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
    return flat.reshape([int(side) for side in str(value["shape"]).split(",")])
