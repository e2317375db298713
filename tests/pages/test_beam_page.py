"""The beam page: its tree is the engine's trace, and every story can be recomputed."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages_app import ROOT, SENTENCES, array, bodies, charts, notices, start
from streamlit.testing.v1 import AppTest

import transformer
from transformer.analysis.beam import LOST, OPEN, OUTSCORED, RETURNED, coverage, story
from transformer.analysis.tree import tree_layout
from transformer.decoding.trace import BeamTrace
from transformer.engine import Translator
from transformer.webapp.search.against import verdict
from transformer.webapp.search.examples import FLAWED
from transformer.webapp.search.found import name, same_text

SENTENCE = "Two dogs run."
SETTINGS = {"beam": "3", "nbest": "2", "max_extra": "10"}

pytestmark = pytest.mark.usefixtures("in_workplace")


@pytest.fixture(scope="module")
def model(workplace: Path) -> Translator:
    return transformer.load(workplace / "checkpoints" / "tiny")


@pytest.fixture(scope="module")
def trace(model: Translator) -> BeamTrace:
    return model.trace_beams(SENTENCE, beam_size=3, nbest=2, max_extra=10)


def beam(**parameters: str) -> AppTest:
    app = start("beam", **{"sentence": SENTENCE, **SETTINGS, **parameters})
    assert not app.exception
    return app


def tree(app: AppTest) -> dict[str, Any]:
    return charts(app)[0]


def drawn(app: AppTest) -> list[int]:
    """The nodes in the picture, in the order of the trace."""
    handles = tree(app)["data"][-1]["customdata"]
    return [place[0] for place in handles[: len(handles) // 2]]


def page(app: AppTest) -> str:
    return html.unescape("".join(bodies(app)))


def heading(app: AppTest) -> str:
    return next(body for body in bodies(app) if body.startswith("<h3>"))


@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_odd_sentences_with_everything_drawn(sentence: str) -> None:
    app = beam(sentence=sentence)
    app.selectbox(key="tree_pruned").set_value("all").run()
    app.selectbox(key="node_picker").set_value(len(drawn(app)) - 1).run()
    assert not app.exception
    assert len(charts(app)) == 2
    assert "<script" not in "".join(bodies(app))


def test_the_tree_is_the_trace(trace: BeamTrace) -> None:
    app = beam()
    assert drawn(app) == list(tree_layout(trace).nodes)
    app.selectbox(key="tree_pruned").set_value("1 a step").run()
    assert drawn(app) == list(tree_layout(trace, 1).nodes)
    app.selectbox(key="tree_pruned").set_value("all").run()
    assert drawn(app) == list(range(len(trace.nodes)))
    app.selectbox(key="tree_layout").set_value("lanes").run()
    assert drawn(app) == list(range(len(trace.nodes)))
    assert not app.exception


def test_without_a_choice_the_best_translation_is_told(trace: BeamTrace) -> None:
    app = beam()
    assert heading(app).startswith("<h3>The best translation")
    assert app.selectbox(key="node_picker").value == trace.hypotheses[0]


def test_the_story_of_each_kind_of_node(model: Translator, trace: BeamTrace) -> None:
    told = [story(trace, node) for node in range(1, len(trace.nodes)) if node not in trace.hypotheses]
    firsts = {one.outcome: one for one in reversed(told)}
    assert LOST in firsts
    for one in firsts.values():
        app = beam(node=str(one.node))
        said = page(app)
        assert f"{one.total:.3f}" in said
        assert f"score{one.score:.3f}" in said.replace('</td><td dir="auto">', "")
        starts = {
            LOST: f"<h3>Lost at step {one.lost_at}",
            RETURNED: "<h3>On the way to the 2nd translation",
            OUTSCORED: "<h3>It came to an end, but",
            OPEN: "<h3>Still in the beam",
        }
        assert heading(app).startswith(starts.get(one.outcome, "<h3>"))
        record = model.inspect(SENTENCE, target_ids=trace.tokens(one.node))
        np.testing.assert_allclose(
            array(charts(app)[1]["data"][0]["z"]).squeeze(), record.cross[-1].mean(axis=0).squeeze(), atol=1e-6
        )


def test_why_a_node_lost(trace: BeamTrace) -> None:
    lost = [one for one in (story(trace, node) for node in range(len(trace.nodes))) if one.outcome == LOST]
    for one in (lost[0], next(one for one in lost if one.status == "kept")):
        app = beam(node=str(one.node))
        reason = next(said for said in notices(app) if "needed" in said)
        assert f"{one.needed:.3f}" in reason
        assert f"{one.gap:.3f}" in reason
        assert f"What was kept instead at step {one.lost_at}" in page(app)
        for node, total in one.displaced[-2:]:
            assert f"{total:.3f}" in page(app)
            assert trace.nodes[node].status in page(app)


def test_any_layer_and_head_of_the_beginning(model: Translator, trace: BeamTrace) -> None:
    node = trace.hypotheses[1]
    app = beam(node=str(node))
    app.selectbox(key="story_head").set_value((0, 2)).run()
    assert not app.exception
    record = model.inspect(SENTENCE, target_ids=trace.tokens(node))
    np.testing.assert_allclose(array(charts(app)[1]["data"][0]["z"]), record.cross[0, 2], atol=1e-6)


def test_the_picker_chooses_and_the_url_names_it(trace: BeamTrace) -> None:
    app = beam()
    app.selectbox(key="node_picker").set_value(2).run()
    assert app.text_input(key="node").value == "2"
    assert app.selectbox(key="node_picker").value == 2
    assert f"step {trace.nodes[2].step} of {trace.steps}".replace("step ", "") in page(app)
    app.selectbox(key="node_picker").set_value(0).run()
    assert heading(app).startswith("<h3>The root: every translation begins here</h3>")
    assert not app.exception


@pytest.mark.parametrize("node", ["9999", "x", "-1", "1e2", "٣"])
def test_a_node_that_is_not_there(node: str) -> None:
    app = beam(node=node)
    assert heading(app).startswith("<h3>The best translation")
    assert any("The link asks for node 9999" in said for said in notices(app)) == (node == "9999")


def test_another_beam_keeps_the_node_with_the_same_text(model: Translator, trace: BeamTrace) -> None:
    app = beam(node=str(trace.hypotheses[1]))
    app.select_slider(key="beam").set_value(4).run()
    wider = model.trace_beams(SENTENCE, beam_size=4, nbest=2, max_extra=10)
    same = same_text(wider, trace.tokens(trace.hypotheses[1]))
    assert not app.exception
    assert app.selectbox(key="node_picker").value == (wider.hypotheses[0] if same is None else same)


def test_searching_on_from_a_node_and_back(model: Translator, trace: BeamTrace) -> None:
    node = next(index for index in trace.at_step(2) if trace.nodes[index].status == "kept" and index != 0)
    app = beam(node=str(node))
    app.button(key="search_on").click().run()
    assert not app.exception
    forced = model.trace_beams(SENTENCE, beam_size=3, nbest=2, max_extra=10, prefix_ids=trace.tokens(node))
    assert drawn(app) == list(tree_layout(forced).nodes)
    (said,) = [said for said in notices(app) if said.startswith("Every translation of this search is forced")]
    assert f"(score {forced.nodes[forced.hypotheses[0]].score:.3f})" in said
    assert f"(score {trace.nodes[trace.hypotheses[0]].score:.3f})" in said
    app.button(key="search_free").click().run()
    assert drawn(app) == list(tree_layout(trace).nodes)
    assert app.text_input(key="prefix").value == ""


def test_a_beginning_of_a_link_that_no_decoder_could_have_written() -> None:
    app = beam(prefix="2-2-2")
    assert any(said.startswith("The forced beginning cannot be used. ") for said in notices(app))
    app.button(key="search_free").click().run()
    assert len(charts(app)) == 2
    assert not app.exception


def test_the_table_of_translations(model: Translator, trace: BeamTrace) -> None:
    said = page(beam())
    assert "The 2 best translations, by score" in said
    for node in trace.hypotheses:
        tokens = trace.tokens(node)
        record = model.inspect(SENTENCE, target_ids=tokens)
        real = [not piece.special for piece in record.source]
        share = 100 * coverage(record.cross[-1].mean(axis=0))[real].mean()
        assert f"{trace.nodes[node].total_log_prob:.2f}</td>" in said
        assert f"{trace.nodes[node].score:.3f}</td>" in said
        assert f">{float(f'{share:.3g}'):.10g} %</td>" in said
    assert "coverage penalty</th>" not in said


def test_the_coverage_penalty_is_told(model: Translator) -> None:
    said = page(beam(coverage_penalty="0.5"))
    found = model.trace_beams(SENTENCE, beam_size=3, nbest=2, max_extra=10, coverage_penalty=0.5)
    assert "coverage penalty</th>" in said
    for node in found.hypotheses:
        assert f"{found.nodes[node].coverage:.3f}</td>" in said
        assert f"{found.nodes[node].score:.3f}</td>" in said


def test_greedy_search_is_compared(model: Translator) -> None:
    greedy = model.translate(SENTENCE, beam_size=1, max_extra=10).best
    best = model.translate(SENTENCE, beam_size=3, nbest=2, max_extra=10).best
    said = page(beam())
    assert f"<b>greedy search</b>: log-probability {greedy.total_log_prob:.2f}, score {greedy.score:.3f}" in said
    assert f"<b>beam of 3</b>: log-probability {best.total_log_prob:.2f}, score {best.score:.3f}" in said
    assert "Both write the same. A beam of 1 is greedy search" in page(beam(beam="1", nbest="1"))


def test_what_is_said_of_greedy_search(model: Translator) -> None:
    first, second = model.translate(SENTENCE, beam_size=3, max_extra=10).hypotheses[:2]
    good, bad = sorted((first, second), key=lambda one: one.total_log_prob)[::-1]
    assert "times as probable. Greedy search cannot see that" in verdict(bad, good, 0, 3)
    assert "less probable as a whole and only scores better" in verdict(good, bad, 0, 3)
    assert verdict(good, good, None, 3) == "Both write the same."
    assert "goes on with nothing" in verdict(good, bad, 10_000, 3)


def test_every_beam_size_once_the_fold_is_open(model: Translator) -> None:
    app = beam()
    assert len(charts(app)) == 2
    app.session_state["widths"] = True
    app.run()
    assert not app.exception
    line, bars = charts(app)[2]["data"][:2]
    found = model.beam_widths(SENTENCE, max_extra=10)
    np.testing.assert_allclose(line["y"], [one.score for one in found], atol=1e-6)
    assert list(bars["y"]) == [len(one.ids) for one in found]


def test_names_of_nodes(trace: BeamTrace) -> None:
    assert name(trace, 0) == "<SOS>, the root"
    assert name(trace, trace.hypotheses[0]).startswith("1st translation: ")
    assert name(trace, 1 + trace.nodes[2].rank).startswith(
        f"step 1, rank {trace.nodes[1 + trace.nodes[2].rank].rank + 1}"
    )


@pytest.mark.parametrize("node", range(1, 20))
def test_a_node_is_found_by_its_text(trace: BeamTrace, node: int) -> None:
    assert same_text(trace, trace.tokens(node)) == node
    assert same_text(trace, (*trace.tokens(node), 10_000)) is None


@pytest.mark.parametrize("shipped", FLAWED)
def test_the_sentences_that_are_shipped_show_the_flaw(shipped: str) -> None:
    model = transformer.load(ROOT / "checkpoints" / shipped)
    greedy = model.translate_many(FLAWED[shipped], beam_size=1)
    wide = model.translate_many(FLAWED[shipped], beam_size=5)
    gains = [two.total_log_prob - one.total_log_prob for one, two in zip(greedy, wide, strict=True)]
    assert all(one.text != two.text for one, two in zip(greedy, wide, strict=True)), gains
    assert min(gains) > 0.0
