"""The decoding page: every step of every strategy is what the engine computes, and steering does what it says."""

from __future__ import annotations

import html
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages_app import ROOT, SENTENCES, array, bodies, charts, notices, start
from streamlit.testing.v1 import AppTest

import transformer
from transformer.engine import Intervention, SamplingOptions, TranslationHypothesis, Translator
from transformer.plots.labels import percent

SENTENCE = "Two dogs run."
CANDIDATES, CROSS, DECODER = range(3)
"""The pictures of the page, from top to bottom."""

pytestmark = pytest.mark.usefixtures("in_workplace")


@pytest.fixture(scope="module")
def model(workplace: Path) -> Translator:
    return transformer.load(workplace / "checkpoints" / "tiny")


@pytest.fixture(scope="module")
def greedy(model: Translator) -> TranslationHypothesis:
    return model.translate(SENTENCE, beam_size=1).best


def decoding(**parameters: str) -> AppTest:
    app = start("decoding", **{"sentence": SENTENCE, "max_extra": "10", **parameters})
    assert not app.exception
    return app


def drawn(app: AppTest, which: int) -> dict[str, Any]:
    return charts(app)[which]


def shown(app: AppTest) -> list[tuple[int, float]]:
    """Id and probability of each candidate in the picture."""
    data = drawn(app, CANDIDATES)["data"]
    return [(place[0], value) for place, value in zip(data[-1]["customdata"], data[0]["x"], strict=False)]


def way(app: AppTest) -> str:
    return next(body for body in bodies(app) if body.startswith('<div class="way"'))


def chips(app: AppTest, state: str) -> list[str]:
    """Labels of the pieces in a state: ``read``, ``newest``, ``later``, ``picked``, ``typed``."""
    found = re.findall(rf'<span class="chip [^"]*\b{state}\b[^>]*>(.*?)</span>', way(app))
    return [html.unescape(re.sub("</?u>", "", label)) for label in found]


def page(app: AppTest) -> str:
    return html.unescape("".join(bodies(app)))


@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_odd_sentences_at_the_first_step_and_the_last(sentence: str) -> None:
    app = decoding(sentence=sentence)
    slider = app.select_slider(key="step")
    slider.set_value(slider.options[-1] if len(slider.options) > 1 else slider.value).run()
    assert not app.exception
    assert len(charts(app)) == 3
    assert "<script" not in "".join(bodies(app))


def test_every_step_is_what_the_engine_computes(model: Translator, greedy: TranslationHypothesis) -> None:
    steps = model.steps(SENTENCE, model.translate(SENTENCE, beam_size=1, max_extra=10).ids)
    app = decoding()
    for number in (1, 2, len(steps)):
        app.select_slider(key="step").set_value(number).run()
        assert not app.exception
        step = steps[number - 1]
        expected = [(one.piece.id, pytest.approx(one.probability)) for one in step.candidates]
        assert shown(app)[:10] == expected
        assert f"{step.entropy:.2f} nats" in page(app)
        assert f"Step {number} of {len(steps)}." in way(app)


def test_the_url_names_the_step_and_the_beginning(model: Translator) -> None:
    app = decoding(step="3")
    assert app.select_slider(key="step").value == 3
    assert len(chips(app, "read")) == 2
    app.button(key="step_on").click().run()
    assert app.select_slider(key="step").value == 4
    assert app.query_params["step"] == "4"
    app.button(key="step_back").click().run()
    assert app.query_params["step"] == "3"


@pytest.mark.parametrize("step", ["0", "999", "-1", "inf", "x"])
def test_a_step_that_is_not_there_is_no_mistake(step: str) -> None:
    assert len(charts(decoding(step=step))) == 3


def test_the_maps_grow_with_the_step(model: Translator) -> None:
    ids = model.translate(SENTENCE, beam_size=1, max_extra=10).ids
    record = model.inspect(SENTENCE, target_ids=ids)
    app = decoding(step="2", layer="1", head="3")
    cross, decoder = (array(drawn(app, which)["data"][0]["z"]) for which in (CROSS, DECODER))
    np.testing.assert_allclose(cross[:2], record.cross[0, 2, :2], atol=1e-6)
    np.testing.assert_allclose(
        decoder[:2, :2], np.where(record.causal_mask[:2, :2], record.decoder[0, 2, :2, :2], np.nan)
    )
    assert np.isnan(cross[2:]).all()
    assert np.isnan(decoder[2:]).all()


def test_the_source_is_shaded_by_the_newest_position(model: Translator) -> None:
    ids = model.translate(SENTENCE, beam_size=1, max_extra=10).ids
    row = model.steps(SENTENCE, ids)[1].cross[0, 2]
    made = next(body for body in bodies(decoding(step="2", layer="1", head="3")) if "chip looked" in body)
    shares = [float(share) for share in re.findall(r"--share:([\d.]+)%", made)]
    np.testing.assert_allclose(shares, 100 * row, atol=0.051)


def test_picking_another_piece_decodes_on_from_there(model: Translator) -> None:
    app = decoding(step="2")
    before = model.translate(SENTENCE, beam_size=1, max_extra=10).ids[:1]
    other = model.steps(SENTENCE, before)[-1].candidates[3].piece
    picker = next(box for box in app.selectbox if box.label == "Write another piece here")
    picker.select(other.id).run()
    assert not app.exception
    expected = model.translate(SENTENCE, beam_size=1, max_extra=10, prefix_ids=(*before, other.id)).best
    labels = [piece.label for piece in expected.pieces]
    assert chips(app, "newest") == [labels[1]]
    assert chips(app, "read") + chips(app, "newest") + chips(app, "later") == labels
    assert chips(app, "picked") == [labels[1]]
    assert app.query_params["prefix"] == f"{before[0]}-{other.id}!"
    assert "Forced: you picked it (rank 4" in page(app)
    assert f"{expected.total_log_prob:.2f}" in page(app)
    app.button(key="undo").click().run()
    assert app.text_input(key="prefix").value == ""
    assert chips(app, "picked") == []


def test_a_click_on_a_row_picks_its_piece(model: Translator) -> None:
    """AppTest cannot click into a picture; the callback is given what the browser would send."""
    from transformer.webapp.decoding import choosing

    app = decoding()
    field = drawn(app, CANDIDATES)["data"][-1]
    assert field["hovertemplate"]
    assert "hoverinfo" not in field
    assert callable(choosing.pick)


def test_a_typed_beginning_is_forced(model: Translator) -> None:
    app = decoding()
    app.text_input(key="decoding_beginning").input("Zwei").run()
    assert not app.exception
    ids = model.ids_of("Zwei")
    expected = model.translate(SENTENCE, beam_size=1, max_extra=10, prefix_ids=ids).best
    assert len(chips(app, "typed")) == len(ids)
    assert chips(app, "read") + chips(app, "newest") + chips(app, "later") == [piece.label for piece in expected.pieces]
    assert app.select_slider(key="step").value == len(ids) + 1
    app.button(key="undo").click().run()
    assert chips(app, "typed") == []
    app.text_input(key="decoding_beginning").input("Zwei Hunde " * 100).run()
    assert any("must be at most 64 pieces" in said for said in notices(app))


@pytest.mark.parametrize("prefix", ["0!", "2!", "3!-5", "99999!", "nonsense", "5-", "<b>"])
def test_a_beginning_of_a_link_that_cannot_be(prefix: str) -> None:
    app = decoding(prefix=prefix)
    if not charts(app):
        assert any("Press Start over" in said for said in notices(app))
        app.button(key="start_over").click().run()
    assert len(charts(app)) == 3


def test_an_ended_beginning_is_the_whole_translation(model: Translator) -> None:
    app = decoding(prefix="3!")
    assert chips(app, "newest") == ["<EOS>"]
    assert "(empty)" in page(app)


def test_sampling_is_the_engine_s(model: Translator) -> None:
    settings = {"strategy": "sampling", "temperature": "1.5", "top_k": "20", "top_p": "0.9", "seed": "7"}
    app = decoding(**settings)
    options = SamplingOptions(temperature=1.5, top_k=20, top_p=0.9, seed=7, max_extra=10)
    expected = model.sample(SENTENCE, options)
    assert chips(app, "newest") + chips(app, "later") == [piece.label for piece in expected.pieces]
    assert "Drawn with seed 7, temperature 1.5, among the 20 likeliest, top-p 0.9" in page(app)
    assert f"{expected.total_log_prob:.2f}" in page(app)


def test_a_sampled_piece_is_shown_whatever_its_rank(model: Translator) -> None:
    app = decoding(strategy="sampling", temperature="2.0", seed="3")
    count = len(model.sample(SENTENCE, SamplingOptions(temperature=2.0, seed=3, max_extra=10)).ids)
    for number in range(1, min(count, 6) + 1):
        app.select_slider(key="step").set_value(number).run()
        spec = drawn(app, CANDIDATES)
        (box,) = spec["layout"]["shapes"]
        assert len(shown(app)) == 11 or box["y1"] < 10
        total = sum(spec["data"][0]["x"])
        assert total == pytest.approx(1.0, abs=2e-3)  # what may not be written has a share too


def test_beam_search_goes_the_way_of_the_translation(model: Translator) -> None:
    app = decoding(strategy="beam search", beam="4")
    expected = model.translate(SENTENCE, beam_size=4, max_extra=10).best
    assert chips(app, "newest") + chips(app, "later") == [piece.label for piece in expected.pieces]
    assert "Both are the same." in page(app)


@pytest.mark.parametrize("reach", ["all layers and heads", "this layer", "this head"])
def test_an_intervention_changes_the_distribution_of_this_step(model: Translator, reach: str) -> None:
    before = model.translate(SENTENCE, beam_size=1, max_extra=10).ids[:2]
    app = decoding(step="3", layer="2", head="2")
    next(box for box in app.selectbox if box.key == "intervention_reach").select(reach)
    next(box for box in app.selectbox if box.label == "Force attention onto").select(1).run()
    assert not app.exception
    where = {"all layers and heads": (None, None), "this layer": (1, None), "this head": (1, 1)}[reach]
    change = Intervention(forced=1, layer=where[0], head=where[1])
    step = model.steps(SENTENCE, before, intervention=change)[-1]
    usual = {one.piece.id: one.probability for one in model.steps(SENTENCE, before, count=50)[-1].candidates}
    assert shown(app)[:10] == [(one.piece.id, pytest.approx(one.probability)) for one in step.candidates]
    grey = drawn(app, CANDIDATES)["data"][1]["x"][:10]
    assert grey == [pytest.approx(usual.get(one.piece.id, 0.0)) for one in step.candidates]
    assert any(said.startswith("Intervention in ") for said in notices(app))


def test_a_muted_word_gets_no_attention(model: Translator) -> None:
    app = decoding(step="2")
    (box,) = app.multiselect
    box.select((1,) if (1,) in box.options else box.options[1]).run()
    assert not app.exception
    made = next(body for body in bodies(app) if "chip looked" in body)
    assert 'class="chip looked muted"' in made
    for tip, share in re.findall(r'title="([^"]*)" style="--share:([\d.]+)%', made):
        assert share == "0.0" or "muted" not in tip


def players(app: AppTest) -> list[str]:
    """Play and Pause are two buttons, of which one is there: a press of one that comes late never means the other."""
    return [str(button.key) for button in app.button if button.key in ("step_play", "step_pause")]


def test_playing_goes_on_step_by_step_and_stops_at_the_end() -> None:
    app = decoding(step="2")
    app.button(key="step_play").click().run()
    assert players(app) == ["step_pause"]
    here = app.select_slider(key="step").value
    app.run()  # as the clock of the fragment does
    assert app.select_slider(key="step").value == here + 1
    app.button(key="step_on").click().run()
    assert players(app) == ["step_play"]
    app.run()  # the clock's last tick
    last = int(app.select_slider(key="step").options[-1])
    app.select_slider(key="step").set_value(last - 1).run()  # playing has stopped, so it can be moved
    app.button(key="step_play").click().run()
    for _ in range(4):
        app.run()
        assert not app.exception
    assert app.select_slider(key="step").value == last
    assert players(app) == ["step_play"]


@pytest.mark.parametrize("stop", ["step_pause", "step_on", None])
def test_a_tick_sent_before_a_stop_was_known_does_not_move_the_step_back(stop: str | None) -> None:
    app = decoding(step="2")
    slider = app.select_slider(key="step")
    last = int(slider.options[-1])
    if not stop:
        slider.set_value(last - 1).run()
    app.button(key="step_play").click().run()
    if stop:
        app.button(key=stop).click().run()
    else:
        app.run()
    where = app.select_slider(key="step").value
    assert where == {"step_pause": 2, "step_on": 3, None: last}[stop]
    for _ in range(2):  # a busy browser may send several, all with the step that it still shows
        slider = app.select_slider(key="step")
        assert slider.disabled
        slider.proto.disabled = slider.disabled = False  # no user moves it: the tick brings what it showed before
        slider.set_value(where - 1).run()
        assert app.select_slider(key="step").value == where
    app.run()
    assert players(app) == ["step_play"]
    assert not app.select_slider(key="step").disabled
    app.select_slider(key="step").set_value(where - 1).run()
    assert app.select_slider(key="step").value == where - 1


def test_another_sentence_forgets_the_beginning_and_the_step() -> None:
    app = decoding(prefix="5!-6!", step="2")
    app.text_input(key="sentence").input("A cat.").run()
    assert not app.exception
    assert app.text_input(key="prefix").value == ""
    assert app.select_slider(key="step").value == 1


def test_other_pages_keep_step_and_beginning() -> None:
    app = decoding(prefix="5!-6!", step="2", strategy="sampling", seed="4")
    for name in ("attention", "translate", "decoding"):
        app.switch_page(str(ROOT / "pages" / f"{name}.py")).run()
        assert not app.exception
        assert app.select_slider(key="step").value == 2
        assert app.text_input(key="prefix").value == "5!-6!"
        assert app.radio(key="strategy").value == "sampling"
    assert chips(app, "picked") != []


def test_what_the_cache_holds_is_counted() -> None:
    """Two layers of 2 x 32 numbers of 4 bytes for each position."""
    app = decoding(step="3")
    pieces = page(app).split("keys and values of ")[1].split(" ")[0]
    assert f"{int(pieces) * 512 / 1000:.3g} kB, computed once" in page(app)
    assert "keys and values of 3 positions: 1.54 kB, 512 B more with each step" in page(app)


def test_the_parting_of_two_ways(model: Translator) -> None:
    own = model.translate(SENTENCE, beam_size=5, max_extra=10).best
    other = next(one.piece.id for one in model.steps(SENTENCE, ())[0].candidates if one.piece.id != own.ids[0])
    mine = model.translate(SENTENCE, beam_size=1, max_extra=10, prefix_ids=(other,)).best
    said = page(decoding(prefix=f"{other}!"))
    assert "They part at step 1." in said
    gap = mine.total_log_prob - own.total_log_prob
    assert f"exp({gap:.2f}) = {math.exp(gap):.3g}" in said
    assert percent(math.exp(mine.total_log_prob / len(mine.ids))) in said
