"""Every page from ``app.py``, with ordinary and with odd sentences."""

from __future__ import annotations

import html
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from pages_app import PAGES, SENTENCES, array, bodies, charts, notices, start
from streamlit.testing.v1 import AppTest

import transformer

ROOT = Path(__file__).resolve().parents[2]
FEW = ["translate", "attention", "words"]
"""Pages that stand for all where the frame speaks before the page has its turn."""
NO_SENTENCE = "There is no sentence yet. Type one into the box above and press Enter, or choose an example."

pytestmark = pytest.mark.usefixtures("in_workplace")


def ribbon(app: AppTest) -> str:
    return next(body for body in bodies(app) if '<div class="ribbon"' in body)


@pytest.mark.parametrize("page", ["translate", "attention"])  # the others' tests have odd sentences of their own
@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_any_sentence_is_shown(page: str, sentence: str) -> None:
    app = start(page, sentence=sentence)
    assert not app.exception
    assert app.text_input(key="sentence").value == sentence
    assert "<script" not in "".join(bodies(app))
    assert html.escape(sentence.split()[0][:1]) in ribbon(app)


@pytest.mark.parametrize("page", FEW)
@pytest.mark.parametrize("sentence", ["", "   ", "\t\n"])
def test_no_sentence_says_what_to_do(page: str, sentence: str) -> None:
    app = start(page, sentence=sentence)
    assert not app.exception
    assert notices(app) == [NO_SENTENCE]


@pytest.mark.parametrize("page", FEW)
def test_too_long_a_sentence_says_the_limit(page: str) -> None:
    app = start(page, sentence="dog " * 300)
    assert not app.exception
    (said,) = notices(app)
    assert said.startswith("Sentence must be at most 64 pieces with <SOS> and <EOS>, but it was ")


@pytest.mark.parametrize("page", FEW)
def test_no_models_say_how_to_train_one(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.catalogue.found", dict)
    app = start(page)
    assert not app.exception
    (said,) = notices(app)
    assert "python -m transformer train reverse --out checkpoints/reverse" in said


@pytest.mark.parametrize("page", FEW)
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.model", "config.json"])
def test_a_broken_checkpoint_is_named(page: str, name: str, in_workplace: Path) -> None:
    broken = in_workplace / "checkpoints" / "broken"
    shutil.copytree(in_workplace / "checkpoints" / "tiny", broken)
    try:
        (broken / name).write_bytes((broken / name).read_bytes()[:100])
        app = start(page, model="broken", sentence="Two dogs run.")
    finally:
        shutil.rmtree(broken)
    assert not app.exception
    (said,) = notices(app)
    assert said.startswith("The model broken cannot be opened. Choose another model above.")
    assert name.split(".")[0] in said


def test_the_first_example_is_there_at_first() -> None:
    app = start()
    assert app.text_input(key="sentence").value == "A man is standing on a ladder."


def test_choosing_an_example_and_typing() -> None:
    app = start()
    app.button(key="example_1").click().run()
    assert app.text_input(key="sentence").value == "Two dogs run."
    app.text_input(key="sentence").input("A cat.").run()
    assert "cat" in ribbon(app) or "·at" in ribbon(app)
    assert app.text_input(key="sentence").value == "A cat."
    assert not app.exception


@pytest.mark.parametrize("page", FEW)
def test_values_of_a_link_that_cannot_be(page: str) -> None:
    values = {"model": "nowhere", "kind": "foo", "layer": "99", "head": "0", "beam": "inf", "length_penalty": "nan"}
    app = start(page, sentence="Two dogs run.", nbest="1e3", **values)
    assert not app.exception
    if page == PAGES[0]:
        said = "\n".join(notices(app))
        for name, value in values.items():
            assert f"The link asks for {name} “{value}”, which is not there" in said
        assert "It can be 1 to 10." in said
        assert "It can be encoder, decoder or cross." in said


def test_values_of_a_link_are_used() -> None:
    app = start("attention", sentence="Two dogs run.", kind="encoder", layer="3", head="4", beam="2")
    assert not app.exception
    assert notices(app) == [] or all("link" not in said for said in notices(app))
    assert "encoder attention · layer 3 · head 4" in "".join(bodies(app))
    assert app.select_slider(key="beam").value == 2


def test_the_map_is_that_of_the_head(workplace: Path) -> None:
    import transformer

    record = transformer.load(workplace / "checkpoints" / "tiny").inspect("Two dogs run.", beam_size=5)
    large, overview = charts(start("attention", sentence="Two dogs run.", kind="cross", layer="1", head="3"))
    np.testing.assert_allclose(array(large["data"][0]["z"]), record.cross[0, 2], atol=1e-6)
    written = [html.escape(piece.label, quote=False) for piece in record.target_output]
    assert large["layout"]["yaxis"]["ticktext"] == written
    assert array(overview["data"][0]["z"]).dtype == np.uint8
    assert [place[1] for place in overview["data"][1]["customdata"]] == [1, 2, 3, 4]


@pytest.mark.parametrize(("kind", "layers"), [("encoder", 3), ("decoder", 2), ("cross", 2)])
def test_pickers_offer_what_the_model_has(kind: str, layers: int) -> None:
    app = start("attention", sentence="Two dogs run.", kind=kind)
    assert app.radio(key="layer").options == [str(number) for number in range(1, layers + 1)]
    assert app.radio(key="head").options == ["1", "2", "3", "4"]
    app.radio(key="kind").set_value("cross").run()
    assert not app.exception
    assert app.radio(key="layer").value <= 2


def test_alternatives_and_probabilities_are_the_engine_s(workplace: Path) -> None:
    import transformer

    found = transformer.load(workplace / "checkpoints" / "tiny").translate("Two dogs run.", beam_size=3, nbest=2)
    page = "".join(bodies(start(sentence="Two dogs run.", beam="3", nbest="2")))
    assert "The 2 best translations, by score" in page
    for hypothesis in found.hypotheses:
        assert f"{hypothesis.score:.2f}" in page
    assert f'<div class="translation" dir="auto">{html.escape(found.text.strip())}</div>' in page


def test_unknown_letters_are_named() -> None:
    said = " ".join(notices(start(sentence="狗 dogs")))
    assert "The model does not know these signs (underlined above): 狗." in said


def test_changing_the_page_keeps_the_sentence_and_does_not_crash() -> None:
    app = start(sentence="Two dogs run.")
    for page in ("attention", "translate", "attention"):
        app.switch_page(str(ROOT / "pages" / f"{page}.py")).run()
        assert not app.exception
        assert app.text_input(key="sentence").value == "Two dogs run."


def test_two_checkpoints_with_the_same_weights_are_not_mixed_up(in_workplace: Path) -> None:
    """One head of 32 computes another thing than four of 8 with the very same matrices."""
    other = in_workplace / "checkpoints" / "one-head"
    shutil.copytree(in_workplace / "checkpoints" / "tiny", other)
    try:
        config = json.loads((other / "config.json").read_text(encoding="utf-8"))
        config["model"]["heads"] = 1
        (other / "config.json").write_text(json.dumps(config), encoding="utf-8")
        for model in ("tiny", "one-head", "tiny"):
            app = start("attention", model=model, sentence="Two dogs run.", kind="encoder")
            assert not app.exception
            expected = transformer.load(in_workplace / "checkpoints" / model).inspect("Two dogs run.").encoder[-1, 0]
            np.testing.assert_allclose(array(charts(app)[0]["data"][0]["z"]), expected, atol=1e-6)
    finally:
        shutil.rmtree(other)


def test_the_search_has_the_length_penalty_of_its_model_until_the_user_chooses_one(in_workplace: Path) -> None:
    other = in_workplace / "checkpoints" / "longer"
    shutil.copytree(in_workplace / "checkpoints" / "tiny", other)
    try:
        config = json.loads((other / "config.json").read_text(encoding="utf-8"))
        (other / "config.json").write_text(json.dumps(config | {"length_penalty": 1.45}), encoding="utf-8")
        app = start(model="longer", sentence="Two dogs run.")
        slider = app.select_slider(key="length_penalty")
        assert (slider.value, len(slider.options)) == (1.45, 22)
        found = transformer.load(other).translate("Two dogs run.")
        assert f">{found.best.score:.2f}<" in "".join(bodies(app))
        app.selectbox(key="model").select("tiny").run()
        assert app.select_slider(key="length_penalty").value == 0.6
        app.selectbox(key="model").select("longer").run()
        assert app.select_slider(key="length_penalty").value == 1.45
        app.select_slider(key="length_penalty").set_value(0.9).run()
        app.selectbox(key="model").select("tiny").run()
        assert app.select_slider(key="length_penalty").value == 0.9
        app = start(model="longer", sentence="Two dogs run.", length_penalty="1.45")
        assert not [said for said in notices(app) if said.startswith("The link asks")]
        app.selectbox(key="model").select("tiny").run()
        assert not app.exception
        assert app.select_slider(key="length_penalty").value == 0.6
    finally:
        shutil.rmtree(other)


@pytest.mark.parametrize("page", FEW)
def test_a_bad_folder_among_the_checkpoints_harms_no_other(page: str, in_workplace: Path) -> None:
    folder = in_workplace / "checkpoints"
    bad = [folder / "~nobody", folder / "config-is-a-folder", folder / "deep", folder / "half"]
    bad.append(Path(os.fsdecode(bytes(folder) + b"/\xff\xfe")))
    for path in bad:
        path.mkdir()
    try:
        (bad[0] / "config.json").write_text("{}", encoding="utf-8")
        (bad[1] / "config.json").mkdir()
        (bad[2] / "config.json").write_text("[" * 100_000, encoding="utf-8")
        half = json.loads((folder / "tiny" / "config.json").read_text(encoding="utf-8"))
        half["examples"] = ["\ud800"]
        (bad[3] / "config.json").write_text(json.dumps(half), encoding="utf-8")
        (bad[4] / "config.json").write_text("{}", encoding="utf-8")
        app = start(page, sentence="Two dogs run.")
        assert not app.exception
        assert "Two" in ribbon(app) or "·w" in ribbon(app)
        for name in ("~nobody", "deep", "half"):
            app = start(page, model=name, sentence="Two dogs run.")
            assert not app.exception
            assert notices(app)[0].startswith(f"The model {name} cannot be opened.")
    finally:
        for path in bad:
            shutil.rmtree(path)


def test_a_number_of_a_link_may_be_written_in_another_way() -> None:
    app = start(sentence="Two dogs run.", length_penalty="1", beam="2")
    assert not app.exception
    assert not [said for said in notices(app) if said.startswith("The link asks")]
