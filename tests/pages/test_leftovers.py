"""What was chosen for one sentence or model, after another was chosen: it goes, or the page says what it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages_app import bodies, notices, start

SENTENCE = "Two dogs run."
OWN = "not the model's own"

pytestmark = pytest.mark.usefixtures("in_workplace")


@pytest.fixture
def one_head(in_workplace: Path) -> Iterator[str]:
    """Another model, with a single head and other pieces under the same numbers."""
    other = in_workplace / "checkpoints" / "one-head"
    shutil.copytree(in_workplace / "checkpoints" / "tiny", other)
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    config["model"]["heads"] = 1
    (other / "config.json").write_text(json.dumps(config), encoding="utf-8")
    yield "one-head"
    shutil.rmtree(other, ignore_errors=True)


@pytest.mark.parametrize("chosen", [{"target": "Zwei Hunde"}, {"hypothesis": "3"}])
def test_maps_of_something_else_say_so_and_go_with_the_sentence(chosen: dict[str, str]) -> None:
    app = start("attention", sentence=SENTENCE, **chosen)
    said = "".join(bodies(app))
    assert OWN in said
    assert ("translation that you typed" if "target" in chosen else "translation 3 of the 5") in said
    app.text_input(key="sentence").input("A cat.").run()
    assert not app.exception
    assert OWN not in "".join(bodies(app))
    assert (app.text_input(key="target").value, app.selectbox(key="hypothesis").value) == ("", 1)


def test_the_way_back_to_the_model_s_own() -> None:
    app = start("attention", sentence=SENTENCE, target="Zwei Hunde")
    app.button(key="own_translation").click().run()
    assert not app.exception
    assert OWN not in "".join(bodies(app))


def test_a_typed_beginning_goes_with_its_sentence() -> None:
    app = start("decoding", sentence=SENTENCE)
    app.text_input(key="decoding_beginning").input("Zwei").run()
    assert app.text_input(key="prefix").value
    app.text_input(key="sentence").input("A cat.").run()
    assert (app.text_input(key="prefix").value, app.text_input(key="decoding_beginning").value) == ("", "")


def test_another_model_has_fewer_heads_and_no_link_is_blamed(one_head: str) -> None:
    app = start("attention", sentence=SENTENCE)
    app.radio(key="head").set_value(3).run()
    app.selectbox(key="model").select(one_head).run()
    assert not app.exception
    assert app.radio(key="head").value == 1
    assert not [said for said in notices(app) if "The link asks" in said]


def test_a_model_that_goes_away_is_named(one_head: str, in_workplace: Path) -> None:
    app = start("attention", sentence=SENTENCE, model=one_head)
    shutil.rmtree(in_workplace / "checkpoints" / one_head)
    app.text_input(key="sentence").input("A cat.").run()
    assert not app.exception
    first = app.selectbox(key="model").value
    assert f"The model one-head is no longer there; {first} is shown." in notices(app)


@pytest.mark.parametrize("page", ["decoding", "beam"])
def test_what_a_link_says_about_the_search_and_cannot_be_read(page: str) -> None:
    app = start(page, sentence=SENTENCE, prefix="garbage", node="-1")
    assert not app.exception
    first = start(sentence=SENTENCE, prefix="garbage", node="٣")
    said = "\n".join(notices(first))
    assert "forced beginning (prefix) cannot be read" in said
    assert "node of the search tree cannot be read" in said
    impossible = start(page, sentence=SENTENCE, prefix="9999999")
    assert "Forced beginning must be pieces of this model" in "\n".join(notices(impossible))


def test_a_piece_that_was_there_before_a_pick_is_not_called_the_strategy_s() -> None:
    from transformer import load

    steps = load("tiny").steps(SENTENCE, ())
    second, third = steps[0].candidates[4].piece.id, steps[0].candidates[2].piece.id
    app = start("decoding", sentence=SENTENCE, prefix=f"{second}-{third}!", step="1", strategy="greedy")
    page = "".join(bodies(app))
    assert "Kept: it was written before you picked a later piece (rank 5" in page
    assert "Argmax" not in page
