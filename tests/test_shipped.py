"""The checkpoints that ship: what they must be able to do, and what they said when they were made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import transformer
from transformer.catalogue import available, snapshots
from transformer.engine import Translator
from transformer.text.synthetic import reverse_pairs

ROOT = Path(__file__).resolve().parents[1]
CHECKPOINTS = ROOT / "checkpoints"
NAMES = ["en-fr", "en-de-multi30k", "reverse"]
MOST = {"en-fr": 25_000_000, "en-de-multi30k": 8_000_000, "reverse": 2_000_000}
"""Bytes of a checkpoint, without its snapshots."""


@pytest.fixture(scope="module", params=NAMES)
def shipped(request: pytest.FixtureRequest) -> Translator:
    return transformer.load(CHECKPOINTS / request.param)


@pytest.fixture(scope="module")
def reverse() -> Translator:
    return transformer.load(CHECKPOINTS / "reverse")


def test_the_model_for_everyday_sentences_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert available() == NAMES


def test_a_checkpoint_is_whole_and_small(shipped: Translator) -> None:
    files = {path.name: path.stat().st_size for path in shipped.folder.iterdir() if path.is_file()}
    assert set(files) == {"model.safetensors", "config.json", "tokenizer.model", "history.jsonl", "README.md"}
    assert sum(files.values()) < MOST[shipped.name]
    card = (shipped.folder / "README.md").read_text(encoding="utf-8")
    assert shipped.meta["data"]["terms"] in card
    lines = (shipped.folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["kind"] for line in lines} == {"train", "dev"}


def test_every_example_passes_the_checks_of_its_record(shipped: Translator) -> None:
    for text in shipped.examples:
        record = shipped.inspect(text)
        assert record.ok, [check for check in record.checks if not check.ok]


def test_stored_translations_are_reproduced(shipped: Translator) -> None:
    """Sentences of our own with what the model made of them when it was shipped, by beam search with M = 5."""
    stored: dict[str, Any] = json.loads((ROOT / "tests" / "assets" / "translations.json").read_text(encoding="utf-8"))[
        shipped.name
    ]
    assert len(stored) == 20
    found = shipped.translate_many(stored)
    assert {text: one.text for text, one in zip(stored, found, strict=True)} == stored


def test_the_way_of_one_model_can_be_walked() -> None:
    """Snapshots of a training, each of which opens and knows more than the one long before it."""
    folder = CHECKPOINTS / "en-de-multi30k"
    steps = list(snapshots(folder))
    assert 8 <= len(steps) <= 10
    assert sum(path.stat().st_size for path in snapshots(folder).values()) < 60_000_000
    text, target = "Two dogs are playing in the snow.", "Zwei Hunde spielen im Schnee."
    found = [transformer.load(folder, snapshot=step).score(text, target).total_log_prob for step in steps]
    found.append(transformer.load(folder).score(text, target).total_log_prob)
    assert found[0] < found[1] < found[2] < found[-1]  # later it is sure enough, and swings


def test_score_of_the_translation_model_is_recorded() -> None:
    scores = json.loads((CHECKPOINTS / "en-de-multi30k" / "config.json").read_text(encoding="utf-8"))["scores"]
    (tokenised,) = (s for s in scores if s["part"] == "test2016" and s["name"] == "BLEU, tokenised form")
    assert tokenised["value"] >= 40
    assert "|alpha:1.4" in tokenised["signature"]
    assert transformer.load(CHECKPOINTS / "en-de-multi30k").length_penalty == 1.4
    assert "tok:none" in tokenised["signature"]


def test_new_letters_are_reversed(reverse: Translator) -> None:
    pairs = reverse_pairs(300, seed=987654)
    found = reverse.translate_many([pair.source for pair in pairs], beam_size=1)
    right = sum(one.text == pair.target for one, pair in zip(found, pairs, strict=True))
    assert right >= 0.99 * len(pairs)


def test_a_cross_head_follows_the_anti_diagonal(reverse: Translator) -> None:
    """Writing letter t of n, it looks at letter n - t + 1 of the source in at least 95 % of all positions."""
    hits = np.zeros((reverse.config.decoder_layers, reverse.config.heads))
    positions = 0
    for pair in reverse_pairs(100, seed=13579, min_length=4):
        record = reverse.inspect(pair.source)
        n = len(record.source) - 2
        rows = record.cross[:, :, :n].argmax(axis=-1)  # [L, H, n]; the last row writes <EOS>
        hits += (rows == np.arange(n, 0, -1)).sum(axis=-1)
        positions += n
    assert hits.max() / positions >= 0.95
