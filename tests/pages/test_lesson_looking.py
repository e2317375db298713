"""The page /looking: it starts with any sentence, and its numbers are those of the library."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from pages_app import array, bodies, start
from streamlit.testing.v1 import AppTest

import transformer
from transformer.analysis.metrics import head_figures
from transformer.engine import Translator
from transformer.lessons import costs, heads, projections, scaling

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


def looking(**parameters: str) -> AppTest:
    app = start("looking", **parameters)
    assert not app.exception
    return app


def figures(app: AppTest) -> list[dict]:
    """All pictures of the page, in its order."""
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def numbers(value: object) -> np.ndarray:
    """An array of a picture; Plotly leaves out the shape of a row."""
    return array({"shape": "-1", **value}) if isinstance(value, dict) else np.array(value)


def named(app: AppTest, name: str) -> dict:
    """The picture that has a trace, or an axis, of this name."""
    for figure in figures(app):
        traces = [trace.get("name") for trace in figure["data"]]
        titles = [figure["layout"].get(axis, {}).get("title", {}).get("text") for axis in ("xaxis", "yaxis")]
        if name in traces + titles:
            return figure
    raise AssertionError(f"no picture is called {name}")


@pytest.fixture
def tiny(workplace: Path) -> Translator:
    return transformer.load(workplace / "checkpoints" / "tiny")


@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_any_sentence_fills_all_four_sections(sentence: str) -> None:
    app = looking(sentence=sentence)
    page = "".join(bodies(app))
    assert "<script" not in page
    assert "checks failed" not in page
    assert [heading.anchor for heading in app.subheader] == [
        "why-attention",
        "queries-keys-values",
        "scaling",
        "heads",
    ]
    assert page.count('class="attempt"') == 4
    assert len(figures(app)) == 15


@pytest.mark.skipif(not SHIPPED, reason="no model is shipped")
@pytest.mark.parametrize("sentence", [PLAIN, "a"])
def test_a_shipped_model_starts(sentence: str, in_workplace: Path) -> None:
    folder = in_workplace / "checkpoints" / SHIPPED[0]
    if not folder.exists():
        shutil.copytree(ROOT / "checkpoints" / SHIPPED[0], folder)
    try:
        app = looking(model=SHIPPED[0], sentence=sentence)
        assert "checks failed" not in "".join(bodies(app))
    finally:
        shutil.rmtree(folder)


def test_the_bottleneck_is_the_library_s(tiny: Translator) -> None:
    app = looking(sentence=PLAIN)
    ids = tiny.translate(PLAIN).best.ids
    last = len(tiny.tokenizer.encode(PLAIN)) - 1
    for position, choice in ((last, None), (None, -1), (1, 1)):
        if choice is not None:
            app.selectbox(key="looking_vector").set_value(choice).run()
        found = costs.bottleneck(tiny, PLAIN, ids, position)
        usual, changed = named(app, "reading one vector")["data"]
        np.testing.assert_allclose(numbers(usual["y"]), np.exp(found.log_probs), atol=1e-5)
        np.testing.assert_allclose(numbers(changed["y"]), np.exp(found.changed_log_probs), atol=1e-5)


def test_table_1_is_filled_in_for_this_sentence(tiny: Translator) -> None:
    page = "".join(bodies(looking(sentence=PLAIN)))
    count = len(tiny.tokenizer.encode(PLAIN))
    assert f"For this sentence, n = {count}, d = 32, k = 3" in page
    for kind in costs.layer_kinds(count, 32):
        assert f">{kind.multiplications:,}</td>" in page


def test_maps_are_weighed_at_every_length_that_fits() -> None:
    figure = named(looking(sentence=PLAIN), "attention maps")
    maps, vectors = figure["data"]
    np.testing.assert_array_equal(numbers(maps["x"]), [16, 32, 64])
    np.testing.assert_array_equal(numbers(maps["y"]), [4 * 4 * n**2 for n in (16, 32, 64)])
    np.testing.assert_array_equal(numbers(vectors["y"]), [4 * 32 * n for n in (16, 32, 64)])


def test_one_piece_of_one_head_and_both_score_maps(tiny: Translator) -> None:
    app = looking(sentence=PLAIN)
    for key, value in (("looking_layer", 2), ("looking_head", 3), ("looking_piece", 4)):
        app.selectbox(key=key).set_value(value).run()
    assert not app.exception
    found = projections.projections(tiny, PLAIN, 1, 2)
    strips = next(f for f in figures(app) if f["layout"]["yaxis"].get("ticktext") == ["q", "k", "v"])
    expected = np.stack([found.queries[4], found.keys[4], found.values[4]])
    np.testing.assert_allclose(numbers(strips["data"][0]["z"]), expected, atol=1e-5)
    maps = [numbers(f["data"][0]["z"]) for f in figures(app) if f["data"][0].get("hovertemplate", "").count("score %")]
    raw, learned = projections.raw_scores(found), projections.learned_scores(found)
    np.testing.assert_allclose(maps[0], raw.scores, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(maps[1], learned.scores, rtol=1e-5, atol=1e-4)
    assert f"{learned.asymmetry:.2f}" in "".join(bodies(app))


def test_the_look_up_adds_up_to_the_output_of_the_head(tiny: Translator) -> None:
    app = looking(sentence=PLAIN)
    for key, value in (("looking_layer", 1), ("looking_head", 1)):
        app.selectbox(key=key).set_value(value).run()
    figure = next(f for f in figures(app) if f["data"][0]["type"] == "bar" and len(f["data"]) == 3)
    weights, values = numbers(figure["data"][1]["x"]), numbers(figure["data"][2]["z"])
    assert weights.sum() == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(values[:-1].sum(axis=0), values[-1], atol=1e-5)
    expected = heads.slices(tiny, PLAIN, 0, 1).outputs[0]
    np.testing.assert_allclose(values[-1], expected, atol=1e-5)


def test_entropies_and_the_model_without_the_division(tiny: Translator) -> None:
    app = looking(sentence=PLAIN)
    ids = tiny.translate(PLAIN).best.ids
    found = scaling.spreads(tiny, PLAIN, ids)
    points = named(app, "cross")["data"]
    cross = next(trace for trace in points if trace.get("name") == "cross")
    assert numbers(cross["x"]) == pytest.approx([one.entropy for one in found if one.kind == "cross"])
    assert numbers(cross["y"]) == pytest.approx([one.undivided_entropy for one in found if one.kind == "cross"])
    changed = scaling.without_division(tiny, PLAIN, ids)
    assert f"{changed.changed_perplexity:,.0f}"[:3] in "".join(bodies(app))


def test_the_two_heads_are_those_whose_figures_differ_most(tiny: Translator) -> None:
    app = looking(sentence=PLAIN)
    app.selectbox(key="looking_pair_kind").set_value("cross").run()
    record = tiny.inspect(PLAIN)
    pair = heads.different_heads(head_figures(record), "cross")
    assert pair is not None
    page = "".join(bodies(app))
    maps = [numbers(figure["data"][0]["z"]) for figure in figures(app)[-2:]]
    for shown, head in zip(maps, (pair.first, pair.second), strict=True):
        assert f"cross attention · layer {head.layer} · head {head.head}" in page
        np.testing.assert_allclose(shown, record.cross[head.layer - 1, head.head - 1], atol=1e-5)


def test_measuring_again_and_another_sentence_keep_the_choices() -> None:
    app = looking(sentence=PLAIN)
    app.selectbox(key="looking_layer").set_value(3).run()
    app.button(key="looking_measure").click().run()
    assert not app.exception
    app.text_input(key="sentence").input("a").run()
    assert not app.exception
    assert app.selectbox(key="looking_layer").value == 3


def test_the_page_changes_nothing_of_the_model(tiny: Translator) -> None:
    before = {name: value.clone() for name, value in tiny.model.state_dict().items()}
    looking(sentence=PLAIN)
    assert all(torch.equal(value, before[name]) for name, value in tiny.model.state_dict().items())
