"""The page /writing: it starts with any sentence and model, and its numbers are those of the library."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pages_app import array, bodies, charts, start
from streamlit.testing.v1 import AppTest

import transformer
from transformer.engine import Translator
from transformer.lessons.writing import scores_by_alpha, weighing, work
from transformer.webapp.lessons.writing_choosing import ALPHAS

ROOT = Path(__file__).resolve().parents[2]
PLAIN = "Two dogs run through the snow."
SENTENCES = {
    "plain": PLAIN,
    "one token": "a",
    "markup": "<b>dogs</b> $x_1$ *st* `code` :red[x] </s>",
    "right to left and emoji": "مرحبا 😀",
    "long": "dog " * 20,
}
SHIPPED = [path.parent.name for path in sorted(ROOT.glob("checkpoints/*/config.json"))][:1]

pytestmark = pytest.mark.usefixtures("in_workplace")


def writing(**parameters: str) -> AppTest:
    app = start("writing", **parameters)
    assert not app.exception
    return app


@pytest.fixture
def tiny(workplace: Path) -> Translator:
    return transformer.load(workplace / "checkpoints" / "tiny")


@pytest.mark.parametrize("model", ["tiny", *SHIPPED])
@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_it_starts_with_any_sentence(model: str, sentence: str) -> None:
    app = writing(sentence=sentence, model=model)
    assert len(charts(app)) == 3
    assert "<script" not in "".join(bodies(app))
    assert [heading.value for heading in app.subheader] == [
        "What is computed once, and what again for every word?",
        "How does it choose the next word, and how does it know when to stop?",
        "What does greedy search miss?",
        "Why is the probability divided by a length?",
    ]


def test_pictures_show_the_library_s_numbers(tiny: Translator) -> None:
    app = writing(sentence=PLAIN)
    record = tiny.inspect(PLAIN)
    found = work(tiny.config, len(record.source), len(record.target_output))
    kept, anew = chart(app, "writing_work")["data"]
    np.testing.assert_allclose(numbers(kept["y"]), found.kept / 1e6)
    np.testing.assert_allclose(numbers(anew["y"]), found.anew / 1e6)
    assert f"{found.once:,}" in "".join(bodies(app))

    greedy = tiny.translate(PLAIN, beam_size=1).best
    steps = weighing(tiny, PLAIN, greedy.ids)
    bars, diamonds, end = chart(app, "writing_weighed")["data"]
    np.testing.assert_allclose(numbers(bars["y"]), steps.chosen, rtol=1e-5)
    np.testing.assert_allclose(numbers(diamonds["y"]), steps.rival, rtol=1e-5)
    np.testing.assert_allclose(numbers(end["y"]), steps.end, rtol=1e-5)

    hypotheses = tiny.translate(PLAIN, beam_size=5, nbest=5).hypotheses
    scores = scores_by_alpha([one.total_log_prob for one in hypotheses], [len(one.ids) for one in hypotheses], ALPHAS)
    lines = chart(app, "writing_by_alpha")["data"]
    np.testing.assert_allclose([numbers(line["y"]) for line in lines], scores, rtol=1e-6)


def test_the_exponent_orders_the_table(tiny: Translator) -> None:
    app = writing(sentence=PLAIN)
    hypotheses = tiny.translate(PLAIN, beam_size=5, nbest=5).hypotheses
    for alpha in (0.0, 2.0):
        app.select_slider(key="writing_alpha").set_value(alpha).run()
        assert not app.exception
        table = next(body for body in bodies(app) if f"by score at α = {alpha:g}" in body)
        scores = [one.total_log_prob / ((5 + len(one.ids)) / 6) ** alpha for one in hypotheses]
        shown = [f">{score:.3f}<" for score in sorted(scores, reverse=True)]
        assert sorted(shown, key=table.index) == shown


def chart(app: AppTest, key: str) -> dict:
    (found,) = [one for one in app.get("plotly_chart") if one.proto.id.endswith(f"-{key}")]
    return json.loads(found.proto.spec)


def numbers(value: object) -> np.ndarray:
    if isinstance(value, dict):
        return array({"shape": "-1", **value})
    return np.array(value, dtype=float)
