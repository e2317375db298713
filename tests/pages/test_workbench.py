"""The views of the attention page: each draws what its name says, for odd sentences too, and follows the choices."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages_app import SENTENCES, array, bodies, charts, notices, start

import transformer
from transformer.analysis.maps import KINDS, kind_view
from transformer.analysis.words import hidden_keys, to_words, without
from transformer.webapp.choices import VIEWS

SENTENCE = "Two dogs run."
PICTURES = {"one head": 2, "all heads": 1, "lines": 1, "arithmetic": 1, "mask": 3, "figures": 0, "across layers": 2}

pytestmark = pytest.mark.usefixtures("in_workplace")


@pytest.fixture(scope="module")
def translator(workplace: Path) -> transformer.engine.Translator:
    return transformer.load(workplace / "checkpoints" / "tiny")


def first_map(**parameters: str) -> np.ndarray[Any, Any]:
    """The numbers of the first picture of the page."""
    return array(charts(start("attention", sentence=SENTENCE, **parameters))[0]["data"][0]["z"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_view_of_every_kind(kind: str) -> None:
    app = start("attention", sentence=SENTENCE, kind=kind)
    for view in VIEWS:
        app.radio(key="view").set_value(view).run()
        assert not app.exception, view
        assert notices(app) == [] or view == "one head"
        assert len(charts(app)) == PICTURES[view] - (view == "across layers" and kind == "encoder")
        assert bool(app.dataframe) == (view == "figures")


@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_every_view_of_odd_sentences(sentence: str) -> None:
    app = start("attention", sentence=sentence, level="words", hide="specials and punctuation")
    for view in VIEWS:
        app.radio(key="view").set_value(view).run()
        assert not app.exception, view
        assert app.radio(key="view").value == view
        assert "<script" not in "".join(bodies(app))


def test_words_and_hidden_keys_are_what_the_library_says(translator: transformer.engine.Translator) -> None:
    record = translator.inspect(SENTENCE)
    maps = kind_view(record, "cross", translator.languages)
    hidden = hidden_keys(record, "cross", True, False)
    rows = np.array([piece.special for piece in record.target_output])
    expected = to_words(without(maps, hidden, rows), record).weights[1, 2]
    found = first_map(kind="cross", layer="2", head="3", level="words", hide="specials")
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)


def test_several_heads_are_one_map(translator: transformer.engine.Translator) -> None:
    weights = translator.inspect(SENTENCE).cross
    choice = {"kind": "cross", "layer": "2", "head": "1"}
    np.testing.assert_allclose(first_map(combine="mean of layer", **choice), weights[1].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(first_map(combine="maximum of all", **choice), weights.max(axis=(0, 1)), atol=1e-6)


def test_norms_and_a_stretched_scale(translator: transformer.engine.Translator) -> None:
    record = translator.inspect(SENTENCE)
    weights = record.cross[0, 0] * record.value_norms["cross"][0, 0]
    app = start("attention", sentence=SENTENCE, kind="cross", layer="1", quantity="norms", scale="stretched")
    trace = charts(app)[0]["data"][0]
    found = array(trace["z"])
    np.testing.assert_allclose(found, weights / weights.sum(axis=1, keepdims=True), atol=1e-6)
    assert trace["zmax"] == pytest.approx(found.max())
    assert any("weight × norm of the value, colours stretched" in body for body in bodies(app))


def test_a_target_of_ones_own_is_forced(translator: transformer.engine.Translator) -> None:
    target = "Zwei Hunde rennen."
    app = start("attention", sentence=SENTENCE, target=target, kind="cross")
    record = translator.inspect(SENTENCE, target=target)
    assert array(charts(app)[0]["data"][0]["z"]).shape == record.cross.shape[2:]
    shown = html.unescape("".join(bodies(app)))
    assert f"your target: log-probability {record.total_log_prob:.2f}" in shown
    assert "the model's own: log-probability" in shown
    plain = start("translate", sentence=SENTENCE, target=target)
    assert not plain.exception  # the target is for the maps; the translation stays the model's


def test_maps_of_another_hypothesis(translator: transformer.engine.Translator) -> None:
    second = translator.translate(SENTENCE).hypotheses[1]
    record = translator.inspect(SENTENCE, target_ids=second.ids)
    app = start("attention", sentence=SENTENCE, hypothesis="2", kind="cross", layer="1", head="1")
    np.testing.assert_allclose(array(charts(app)[0]["data"][0]["z"]), record.cross[0, 0], atol=1e-6)


def test_scores_are_shown_before_and_after_the_mask(translator: transformer.engine.Translator) -> None:
    ids = translator.translate(SENTENCE).ids
    scores = translator.attention_scores(SENTENCE, ids, "decoder", 1)[0]
    app = start("attention", sentence=SENTENCE, view="mask", kind="decoder", layer="2", head="1")
    mask, before, after = (array(chart["data"][0]["z"]) for chart in charts(app))
    np.testing.assert_array_equal(mask, np.tril(np.ones_like(mask)))
    np.testing.assert_allclose(before, scores, atol=1e-5)
    np.testing.assert_allclose(after, np.where(mask > 0, scores, np.nan), atol=1e-5)


def test_everything_hidden_says_so() -> None:
    app = start("attention", sentence=".", target=".", hide="specials and punctuation", kind="cross")
    assert notices(app) == ["Everything is hidden: this sentence has nothing else. Choose “Hide: nothing”."]


def test_wrong_choices_in_the_link_are_named() -> None:
    app = start(sentence=SENTENCE, view="3d", quantity="gradients")
    assert not app.exception
    said = notices(app)[0]
    assert "view “3d”" in said
    assert "quantity “gradients”" in said
