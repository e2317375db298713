"""The page /between: it starts with any sentence and model, and its numbers are those of the library."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from pages_app import array, bodies, charts, notices, start
from streamlit.testing.v1 import AppTest

import transformer
from transformer.engine import Translator
from transformer.lessons import feed_forward, normalisation, residual, vocabulary
from transformer.plots.labels import percent
from transformer.webapp.lessons import between_parts

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lessons"))
from between_models import normalising_first  # noqa: E402

PLAIN = "Two dogs run through the snow."
SENTENCES = {
    "plain": PLAIN,
    "one token": "a",
    "markup": "<b>dogs</b> $x_1$ *st* `code` :red[x] </s>",
    "right to left and emoji": "مرحبا 😀",
    "long": "dog " * 20,
}
SHIPPED = [path.parent.name for path in sorted(ROOT.glob("checkpoints/*/config.json"))][:1]
CHARTS = 10

pytestmark = pytest.mark.usefixtures("in_workplace")


def between(**parameters: str) -> AppTest:
    app = start("between", **parameters)
    assert not app.exception
    return app


@pytest.fixture
def tiny(workplace: Path) -> Translator:
    return transformer.load(workplace / "checkpoints" / "tiny")


@pytest.mark.parametrize("model", ["tiny", *SHIPPED])
@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_it_starts_with_any_sentence(model: str, sentence: str) -> None:
    app = between(sentence=sentence, model=model)
    page = "".join(bodies(app))
    assert len(charts(app)) == CHARTS
    assert "<script" not in page
    assert page.count('<b class="good">✓') == 3
    assert "✗" not in page
    assert [heading.value for heading in app.subheader] == [
        "What happens to a position after it has looked around?",
        "What runs through all layers?",
        "What does a layer normalisation do to a vector?",
        "What does it do to a vector of this sentence?",
        "Why not normalise over the batch?",
        "How does a vector become a piece?",
        "When does the model know what it will write?",
    ]


def test_a_model_that_normalises_first_and_has_gelu(in_workplace: Path, tiny_tokenizer) -> None:
    folder = in_workplace / "checkpoints" / "first"
    try:
        normalising_first(tiny_tokenizer, folder)
        app = between(sentence=PLAIN, model="first")
    finally:
        shutil.rmtree(folder)
    assert len(charts(app)) == CHARTS
    assert any("GELU" in formula.value for formula in app.get("latex"))
    assert any(r"x + \mathrm{Sublayer}(\mathrm{LayerNorm}(x))" in formula.value for formula in app.get("latex"))
    assert "points at" not in "".join(bodies(app)).split("The same units in numbers")[1].split("</table>")[0]


def test_pictures_show_the_library_s_numbers(tiny: Translator) -> None:
    app = between(sentence=PLAIN)
    ids = tiny.translate(PLAIN).ids
    activations, units, shares, lengths, values, parameters, padding, logits, lens = _in_order(app)

    hidden = feed_forward.activations(tiny, PLAIN, ids, "encoder")
    order = feed_forward.busiest_first(hidden[-1])
    np.testing.assert_allclose(_numbers(activations["data"][0]["z"]), hidden[-1][:, order], atol=1e-6)
    best = feed_forward.strongest(hidden[-1], 2, feed_forward.outward(tiny, "encoder", 2), 10)
    assert units["layout"]["xaxis"]["ticktext"] == [str(unit.number) for unit in best]
    expected = [100 * feed_forward.active_share(layer).mean() for layer in hidden]
    np.testing.assert_allclose(_numbers(shares["data"][0]["x"])[:3], expected, rtol=1e-6)

    stream = residual.lengths(tiny, PLAIN, ids, "encoder")
    drawn = {trace.get("name"): _numbers(trace["y"]) for trace in lengths["data"]}
    np.testing.assert_allclose(drawn["what the sublayer adds"], stream.added[:, 2], rtol=1e-6)
    np.testing.assert_allclose(drawn["the stream that leaves, normalised"], stream.after[:, 2], rtol=1e-6)

    normed = residual.normalised(tiny, PLAIN, ids, "encoder", 2, "self_attn")
    means = [shape["x0"] for shape in values["layout"]["shapes"] if shape["type"] == "line"]
    steps = (normed.read[2], normed.standard[2], normed.given[2])
    np.testing.assert_allclose(means, [float(np.mean(step)) for step in steps], atol=1e-6)
    assert sum(_numbers(parameters["data"][0]["y"])) == tiny.config.d_model

    batch = normalisation.padded_batch(tiny, [PLAIN, *tiny.examples], 2)
    np.testing.assert_allclose(_numbers(padding["data"][0]["y"]), 100 * batch.batch_moved, atol=1e-4)
    assert max(_numbers(padding["data"][1]["y"])) < 1e-3

    choice = vocabulary.choice(tiny, PLAIN, ids, 1)
    assert np.nansum(_numbers(logits["data"][0]["y"]).astype(float)) == tiny.config.vocab_size
    shares = vocabulary.softmax(choice.logits)
    bars = _chart(app, "between_probabilities")["data"][1]
    np.testing.assert_allclose(_numbers(bars["x"])[:10], 100 * np.sort(shares)[::-1][:10], rtol=1e-5)

    layers = vocabulary.lens(tiny, PLAIN, ids)
    np.testing.assert_allclose(_numbers(lens["data"][0]["z"]), layers.top_probabilities[:, :, 0], rtol=1e-5)
    assert f"<td>rank {layers.written_ranks[0, 1] + 1:,}</td>" in "".join(bodies(app)).replace(' class="number"', "")


def test_choosing_another_place(tiny: Translator) -> None:
    app = between(sentence=PLAIN)
    ids = tiny.translate(PLAIN).ids
    app.button_group(key="between_ff_stack").set_value("decoder").run()
    app.button_group(key="between_ff_layer_decoder").set_value(1).run()
    app.selectbox(key="between_ff_position_decoder").set_value(0).run()
    assert not app.exception
    hidden = feed_forward.activations(tiny, PLAIN, ids, "decoder")[0]
    found = _chart(app, "between_activations")
    np.testing.assert_allclose(
        _numbers(found["data"][0]["z"]), hidden[:, feed_forward.busiest_first(hidden)], atol=1e-6
    )
    assert found["layout"]["shapes"][0]["y0"] == -0.5
    app.text_input(key="sentence").input("a").run()  # fewer positions than were chosen from
    assert not app.exception


def test_the_temperature_changes_the_bars(tiny: Translator) -> None:
    app = between(sentence=PLAIN)
    app.select_slider(key="between_temperature").set_value(0.5).run()
    choice = vocabulary.choice(tiny, PLAIN, tiny.translate(PLAIN).ids, 1)
    usual, now = (_numbers(trace["x"]) for trace in _chart(app, "between_probabilities")["data"])
    np.testing.assert_allclose(now[:10], 100 * np.sort(vocabulary.softmax(choice.logits, 0.5))[::-1][:10], rtol=1e-5)
    np.testing.assert_allclose(usual[:10], 100 * np.sort(vocabulary.softmax(choice.logits))[::-1][:10], rtol=1e-5)
    assert percent(float(now[0]) / 100) in "".join(bodies(app))


def test_the_example_by_hand() -> None:
    app = between(sentence=PLAIN)
    page = "".join(bodies(app))
    assert "Mean μ = 1, variance σ² = 2.6667, √(σ² + ε) = 1.633" in page
    assert "-1.2247" in page
    box = app.text_input(key="between_numbers")
    box.input("2 2 2").run()
    assert "variance σ² = 0," in "".join(bodies(app))
    app.text_input(key="between_numbers").input("<b>one</b>").run()
    assert not app.exception
    assert [said for said in notices(app) if "Number must be written in digits" in said]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (-0.0, "0"), (12.3, "12.30"), (-1234.5, "-1,234.50"), (0.00421, "0.00421"), (1e-9, "0.00")],
)
def test_numbers_are_written_short(value: float, shown: str) -> None:
    assert between_parts.number(value) == shown


@pytest.mark.parametrize(
    ("share", "shown"), [(0.0, "0 %"), (1e-7, "0 % (rounding)"), (0.0123, "1.23 %"), (20.6, "2,060 %")]
)
def test_changes_are_told_in_per_cent(share: float, shown: str) -> None:
    assert between_parts.changed(share) == shown


def _in_order(app: AppTest) -> list[dict]:
    keys = ("activations", "units", "shares", "lengths", "values", "parameters", "padding", "logits", "lens")
    return [_chart(app, f"between_{key}") for key in keys]


def _chart(app: AppTest, key: str) -> dict:
    """The picture with a key; its id ends with it."""
    (found,) = [chart for chart in app.get("plotly_chart") if chart.proto.id.endswith(f"-{key}")]
    return json.loads(found.proto.spec)


def _numbers(value: object) -> np.ndarray:
    if isinstance(value, dict):  # one axis has no shape
        return array({"shape": "-1", **value})
    return np.array(value)
