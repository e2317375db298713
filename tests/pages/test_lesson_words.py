"""The page /words: it starts with every sentence and model, its numbers are the library's, its choices change it."""

from __future__ import annotations

import base64
import shutil
import string
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import safetensors.torch
import streamlit as st
import torch
from pages_app import ROOT, array, bodies, charts, notices, start

import transformer
from transformer.catalogue import SNAPSHOTS, snapshot_of
from transformer.checkpoint import save_checkpoint
from transformer.config import ModelConfig
from transformer.lessons import embeddings, positions, tokens
from transformer.nn.model import Transformer

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

    from transformer.engine import Translator
    from transformer.text.tokenizer import Tokenizer

SENTENCE = "Two dogs run."
SENTENCES = {
    "plain": SENTENCE,
    "one token": "a",
    "markup": "<b>dogs</b> $x_1$ *st* `code` </s>",
    "unknown and right to left": "狗 مرحبا 😀",
    "long": "dog " * 20,
}
ANCHORS = (
    "pieces",
    "lookup",
    "neighbours",
    "map",
    "organised",
    "order",
    "positions",
    "clocks",
    "distance",
    "shift",
    "once",
)
ORDER = ("vectors", "neighbours", "plane", "order", "positions", "clocks", "products", "rotation")
PICTURES = {name: place for place, name in enumerate(ORDER)}
"""Where each picture stands on the page of a model without snapshots."""

pytestmark = pytest.mark.usefixtures("in_workplace")


@pytest.fixture(scope="module")
def translator(workplace: Path) -> Translator:
    return transformer.load(workplace / "checkpoints" / "tiny")


@pytest.fixture
def with_snapshots(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The tiny model beside two stages of a training that never was: other weights."""
    folder = workplace / "checkpoints" / "tiny"
    (folder / SNAPSHOTS).mkdir()
    for step in (10, 200):
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        torch.manual_seed(step)
        tensors["source_input.lookup.weight"].normal_()
        safetensors.torch.save_file(tensors, snapshot_of(folder, step), metadata={"format": "pt"})
    st.cache_data.clear()
    yield folder
    shutil.rmtree(folder / SNAPSHOTS)


def picture(app: AppTest, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = charts(app)[PICTURES[name]]["data"]
    return found


def values(data: Any) -> np.ndarray:
    """One number a place, however Plotly has packed them."""
    if not isinstance(data, dict):
        return np.array(data, dtype=float)
    return np.frombuffer(base64.b64decode(data["bdata"]), dtype=data["dtype"])


def headings(app: AppTest) -> list[str]:
    return [element.proto.anchor for element in app.subheader]


@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_every_section_starts(sentence: str) -> None:
    app = start("words", sentence=sentence)
    assert not app.exception
    assert headings(app) == list(ANCHORS)
    assert "<script" not in "".join(bodies(app))
    assert any("keeps no snapshots" in notice for notice in notices(app))


@pytest.mark.parametrize("name", ["reverse", "en-de-multi30k"])
def test_a_shipped_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (ROOT / "checkpoints" / name / "model.safetensors").is_file():
        pytest.skip(f"{name} is not there")
    monkeypatch.chdir(ROOT)
    app = start("words", model=name)
    assert not app.exception
    assert headings(app) == list(ANCHORS)


def test_numbers_are_those_of_the_library(translator: Translator) -> None:
    app = start("words", sentence=SENTENCE)
    looked = tokens.look_up(translator, SENTENCE)
    np.testing.assert_allclose(array(picture(app, "vectors")[0]["z"]), looked.entering, atol=1e-6)
    near = embeddings.neighbours(translator, looked.pieces[1].id)
    np.testing.assert_allclose(values(picture(app, "neighbours")[0]["x"]), near.cosines, atol=1e-6)
    ids = [piece.id for piece in looked.pieces if not piece.special]
    laid = embeddings.piece_map(translator, ids, 2)
    asked = picture(app, "plane")[2]
    np.testing.assert_allclose(values(asked["x"]), laid.points[: laid.asked, 0], atol=1e-6)
    effect = positions.order_effect(translator, "the dog chased the cat", "the cat chased the dog")
    np.testing.assert_allclose(values(picture(app, "order")[0]["x"]), effect.moved_on, atol=1e-5)
    table = positions.position_table(translator, 64).table
    np.testing.assert_allclose(array(picture(app, "positions")[0]["z"]), table, atol=1e-6)
    matrix = positions.products(table).matrix
    np.testing.assert_allclose(values(picture(app, "products")[-2]["y"]), matrix[20], atol=1e-5)
    rotation = positions.shift(translator, 3).rotation
    np.testing.assert_allclose(array(picture(app, "rotation")[0]["z"]), rotation[:8, :8], atol=1e-6)


def test_choices_change_their_pictures(translator: Translator) -> None:
    app = start("words", sentence=SENTENCE)
    looked = tokens.look_up(translator, SENTENCE)
    app.button_group(key="words_stage").set_value("row of E").run()
    np.testing.assert_allclose(array(picture(app, "vectors")[0]["z"]), looked.rows, atol=1e-6)
    chosen = looked.pieces[2].id
    app.selectbox(key="words_piece").set_value(chosen).run()
    near = embeddings.neighbours(translator, chosen)
    np.testing.assert_allclose(values(picture(app, "neighbours")[0]["x"]), near.cosines, atol=1e-6)
    app.select_slider(key="words_companions").set_value(0).run()
    app.text_input(key="words_map").set_value("man woman").run()
    asked = list(dict.fromkeys(piece.id for piece in translator.tokenizer.pieces("man woman")[1:-1]))
    points = embeddings.piece_map(translator, asked, 0).points
    np.testing.assert_allclose(values(picture(app, "plane")[2]["x"]), points[:, 0], atol=1e-6)
    app.select_slider(key="words_place").set_value(5).run()
    app.select_slider(key="words_shift").set_value(8).run()
    matrix = positions.products(positions.position_table(translator, 64).table).matrix
    np.testing.assert_allclose(values(picture(app, "products")[-2]["y"]), matrix[5], atol=1e-5)
    rotation = positions.shift(translator, 8).rotation
    np.testing.assert_allclose(array(picture(app, "rotation")[0]["z"]), rotation[:8, :8], atol=1e-6)
    assert not app.exception


def test_the_sentence_turned_round(translator: Translator) -> None:
    app = start("words", sentence="two dogs")
    app.button_group(key="words_pair").set_value("your sentence, its words turned round").run()
    effect = positions.order_effect(translator, "two dogs", "dogs two")
    np.testing.assert_allclose(values(picture(app, "order")[0]["x"]), effect.moved_on, atol=1e-5)
    app.text_input(key="sentence").set_value("dog").run()
    assert any("Turned round" in notice for notice in notices(app))
    assert not app.exception


def test_own_words_that_cannot_be_read_give_way_to_the_sentence() -> None:
    app = start("words", sentence=SENTENCE)
    app.text_input(key="words_own").set_value("\u200b").run()
    assert not app.exception
    app.text_input(key="words_map").set_value(" ".join(string.ascii_letters)).run()
    assert not app.exception
    assert any("the first 24 are taken" in body for body in bodies(app))


def test_early_and_late_in_training(with_snapshots: Path, translator: Translator) -> None:
    app = start("words", sentence=SENTENCE)
    assert not app.exception
    ids = [piece.id for piece in tokens.source_pieces(translator, SENTENCE) if not piece.special]
    for step in (10, 200):
        app.select_slider(key="words_step").set_value(step).run()
        found = embeddings.organised(transformer.load(with_snapshots, snapshot=step), translator, ids)
        maps = charts(app)[3:5]
        np.testing.assert_allclose(array(maps[0]["data"][0]["z"]), found.first, atol=1e-6)
        np.testing.assert_allclose(array(maps[1]["data"][0]["z"]), found.last, atol=1e-6)
        assert any(f"{found.spreads[0]:.2f} early" in body for body in bodies(app))
    assert not any("no snapshots" in notice for notice in notices(app))


def test_a_damaged_snapshot_is_said(with_snapshots: Path) -> None:
    snapshot_of(with_snapshots, 10).write_bytes(b"nothing")
    app = start("words", sentence=SENTENCE)
    assert not app.exception
    assert any("snapshot cannot be opened" in notice for notice in notices(app))


@pytest.mark.parametrize("kind", ["learned", "none"])
def test_other_positions_are_said(kind: str, workplace: Path, tiny_tokenizer: Tokenizer) -> None:
    torch.manual_seed(1)
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size,
        d_model=16,
        heads=2,
        encoder_layers=1,
        decoder_layers=1,
        feed_forward=32,
        positions=kind,
        max_length=48,
    )
    names = {"source": "English", "target": "German", "source_code": "en", "target_code": "de"}
    folder = workplace / "checkpoints" / kind
    save_checkpoint(folder, Transformer(config), tiny_tokenizer, languages=names, dtype="float32")
    try:
        app = start("words", model=kind, sentence=SENTENCE)
        assert not app.exception
        assert headings(app) == list(ANCHORS)
        said = "were learned" if kind == "learned" else "without positions"
        assert sum(said in notice for notice in notices(app)) >= 3
    finally:
        shutil.rmtree(folder)
