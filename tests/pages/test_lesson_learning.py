"""The page /learning: every section for odd sentences and several models, and its numbers those of the library."""

from __future__ import annotations

import base64
import html
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages_app import ROOT, SENTENCES, array, bodies, charts, notices, start
from safetensors.torch import load_file, save_file
from streamlit.testing.v1 import AppTest

import transformer
from transformer.config import EOS_ID
from transformer.lessons.snapshots import look
from transformer.lessons.teacher import teacher_table, trained_loss

SENTENCE, TARGET = "Two dogs run.", "Zwei Hunde rennen."
ODD = ("one token", "bold", "markdown", "arabic", "unknown letters")
ANCHORS = ("forcing", "together", "cost", "rate", "history", "watch", "snapshots", "paper")
STEPS = (5, 20)
HISTORY = [
    {"kind": "train", "step": 10, "epoch": 1, "loss": 5.0, "nll": 4.5, "lr": 0.001, "gradient_norm": 2.0},
    {"kind": "train", "step": 20, "epoch": 1, "loss": 4.0, "nll": 3.5, "lr": 0.002, "gradient_norm": 1.0},
    {
        "kind": "dev",
        "step": 20,
        "epoch": 1,
        "dev_loss": 3.0,
        "dev_bleu": 7.5,
        "signature": "sig <b>",
        "best": True,
        "samples": [{"source": "$a$ <b>", "reference": "<i>b</i>", "output": ""}],
    },
]

pytestmark = pytest.mark.usefixtures("in_workplace")


@pytest.fixture(scope="module")
def kept(workplace: Path) -> Iterator[Path]:
    """The tiny model with two snapshots, the earlier one with even cross-attention, and a history."""
    folder = shutil.copytree(workplace / "checkpoints" / "tiny", workplace / "checkpoints" / "kept")
    weights = load_file(folder / "model.safetensors")
    (folder / "snapshots").mkdir()
    for step in STEPS:
        changed = {
            name: value * 0 if step == STEPS[0] and "cross_attn.key" in name else value
            for name, value in weights.items()
        }
        save_file(changed, folder / "snapshots" / f"step-{step:06d}.safetensors")
    (folder / "history.jsonl").write_text("\n".join(json.dumps(line) for line in HISTORY), encoding="utf-8")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def translator(kept: Path) -> transformer.engine.Translator:
    return transformer.load(kept)


@pytest.fixture(scope="module")
def ids(translator: transformer.engine.Translator) -> tuple[int, ...]:
    return (*translator.ids_of(TARGET), EOS_ID)


def numbers(value: dict[str, Any]) -> list[float]:
    """A row of numbers as Plotly sends it."""
    return np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"]).tolist()


def text(app: AppTest) -> str:
    return html.unescape(" ".join(bodies(app)))


@pytest.mark.parametrize("model", ["tiny", "kept"])
@pytest.mark.parametrize("name", ODD)
def test_every_section_of_odd_sentences(kept: Path, name: str, model: str) -> None:
    app = start("learning", sentence=SENTENCES[name], model=model)
    assert not app.exception
    assert [heading.anchor for heading in app.subheader] == list(ANCHORS)
    assert "<script" not in "".join(bodies(app))
    said = notices(app)
    assert any("no history" in note for note in said) == (model == "tiny")
    assert any("No snapshots" in note for note in said) == (model == "tiny")


def test_a_shipped_model() -> None:
    weights = (ROOT / "checkpoints").glob("*/model.safetensors")
    shipped = min(weights, key=lambda path: path.stat().st_size, default=None)
    if shipped is None:
        pytest.skip("no checkpoint is shipped")
    folder = shutil.copytree(shipped.parent, Path.cwd() / "checkpoints" / shipped.parent.name)
    try:
        app = start("learning", model=folder.name, sentence="Two dogs are playing in the snow.")
        assert not app.exception
        assert not any("no history" in note for note in notices(app))
        assert "trained in" in text(app)
    finally:
        shutil.rmtree(folder)


def test_losses_are_those_of_the_typed_translation(
    translator: transformer.engine.Translator, ids: tuple[int, ...]
) -> None:
    app = start("learning", sentence=SENTENCE, model="kept")
    own = translator.translate(SENTENCE).ids
    first = teacher_table(translator, SENTENCE, own)
    np.testing.assert_allclose(numbers(charts(app)[0]["data"][0]["y"]), [row.loss for row in first.rows], atol=1e-5)
    app.text_input(key="learning_target").set_value(TARGET).run()
    assert not app.exception
    table = teacher_table(translator, SENTENCE, ids)
    np.testing.assert_allclose(numbers(charts(app)[0]["data"][0]["y"]), [row.loss for row in table.rows], atol=1e-5)
    assert f"mean loss <b>{table.loss:.3f}</b>" in text(app)
    app.select_slider(key="learning_smoothing").set_value(0.3).run()
    assert f"<b>{table.smoothed(0.3):.3f}</b>" in text(app)
    assert f"gives {trained_loss(translator, SENTENCE, ids, 0.3):.3f})" in text(app)
    app.selectbox(key=f"learning_position_{len(ids)}").set_value(1).run()
    assert f"Position 2, label “{table.rows[1].label.label}”: plain loss {table.rows[1].loss:.3f}" in text(app)


def test_a_translation_that_is_too_long_gives_way() -> None:
    app = start("learning", sentence=SENTENCE)
    app.text_input(key="learning_target").set_value("lang " * 200).run()
    assert not app.exception
    assert any("The model's own translation is used." in note for note in notices(app))


def test_the_schedule_follows_its_sliders() -> None:
    app = start("learning", sentence=SENTENCE)
    app.select_slider(key="learning_width").set_value(64)
    app.select_slider(key="learning_warmup").set_value(1).run()
    assert not app.exception
    rates = next(chart for chart in charts(app) if "learning rate" in json.dumps(chart["layout"]))
    assert max(numbers(rates["data"][-1]["y"])) == pytest.approx(64**-0.5)


def test_a_snapshot_is_what_it_was(translator: transformer.engine.Translator, kept: Path) -> None:
    app = start("learning", sentence=SENTENCE, model="kept")
    slider = next(one for one in app.select_slider if str(one.key).startswith("learning_snapshot"))
    slider.set_value(STEPS[0]).run()
    assert not app.exception
    own = translator.translate(SENTENCE).ids
    early = look(transformer.load(kept, snapshot=STEPS[0]), SENTENCE, own)
    assert f"a loss of <b>{early.loss:.3f}</b>" in text(app)
    shown = [array(trace["z"]) for chart in charts(app) for trace in chart["data"] if trace["type"] == "heatmap"]
    np.testing.assert_allclose(shown[0], 1 / shown[0].shape[1], atol=1e-5)  # keys of zero look everywhere alike


def test_the_history_and_the_samples(kept: Path) -> None:
    app = start("learning", sentence=SENTENCE, model="kept")
    assert "sig <b>" in text(app)
    assert "(empty)" in text(app)
    assert "&lt;i&gt;b&lt;/i&gt;" in "".join(bodies(app))
    curves = next(chart for chart in charts(app) if "gradient norm" in json.dumps(chart["layout"]))
    assert numbers(curves["data"][0]["y"]) == [5.0, 4.0]
    assert [shape["x0"] for shape in curves["layout"]["shapes"]] == list(STEPS)


@pytest.mark.parametrize("content", [bytes(range(256)), b'{"step": "odd"}\n[1]\n'], ids=["binary", "odd lines"])
def test_a_damaged_history_is_not_called_absent(kept: Path, content: bytes) -> None:
    path = kept / "history.jsonl"
    whole = path.read_bytes()
    path.write_bytes(content)
    try:
        said = notices(start("learning", sentence=SENTENCE, model="kept"))
    finally:
        path.write_bytes(whole)
    assert any(note.startswith("history.jsonl of this checkpoint cannot be read: none of its") for note in said)
    assert not any("no history" in note for note in said)


def test_a_history_that_was_cut_off_says_so(kept: Path) -> None:
    path = kept / "history.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    try:
        said = notices(start("learning", sentence=SENTENCE, model="kept"))
    finally:
        path.write_bytes(whole)
    assert "1 line of history.jsonl could not be read and is left out." in said


def test_a_damaged_snapshot_has_its_own_sentence(kept: Path) -> None:
    path = kept / "snapshots" / f"step-{STEPS[1]:06d}.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    try:
        app = start("learning", sentence=SENTENCE, model="kept")
        assert not app.exception
        assert any("A snapshot cannot be used" in note for note in notices(app))
        assert "Table 3" in text(app)
    finally:
        path.write_bytes(whole)


def test_the_tables_of_the_paper() -> None:
    shown = text(start("learning", sentence=SENTENCE))
    for number in ("41.8", "28.4", "3.3·10¹⁸", "1.1·10²¹", "300,000", "this model: tiny", "3 + 2"):
        assert number in shown
