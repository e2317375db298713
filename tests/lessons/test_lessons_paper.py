"""The paper's tables against what it says elsewhere: parameter counts, costs, and the differences in its text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from transformer.lessons.history import course
from transformer.lessons.paper import BASE, TABLE_2, TABLE_3, Variation, own_scores, own_variation

if TYPE_CHECKING:
    from transformer.engine import Translator

GROUPS = {letter: [row for row in TABLE_3 if row.row == letter] for letter in ("A", "B", "C", "D", "E")}
BIG = TABLE_3[-1]


def parameters(row: Variation, vocabulary: int = 40_000) -> float:
    """Millions, without biases and norms: one embedding matrix, three attentions and two feed-forwards in a pair of
    layers (paper, Sections 3.1 to 3.4). Section 5.1 speaks of about 37,000 pieces; Table 3 fits 40,000 better."""
    attention = row.d_model * row.heads * 2 * (row.d_k + row.d_v)
    layer_pair = 3 * attention + 2 * 2 * row.d_model * row.feed_forward
    return (vocabulary * row.d_model + row.encoder_layers * layer_pair) / 1e6


def test_the_counts_of_parameters_follow_from_the_shapes() -> None:
    counted = [row for row in TABLE_3 if row.parameters is not None]
    assert len(counted) == 11
    for row in counted:
        assert parameters(row) == pytest.approx(row.parameters, rel=0.03), row


def test_what_is_left_blank_changes_no_parameter() -> None:
    for row in TABLE_3:
        if row.parameters is None:
            assert parameters(row) == pytest.approx(parameters(BASE)), row


def test_the_costs_are_hours_times_processors() -> None:
    """Sections 5.2 and 6.1, footnote 5: 12 hours and 3.5 days on 8 P100 of 9.5 TFLOPS."""
    base, big = (row for row in TABLE_2 if row.group == "transformer")
    assert base.german_cost == base.french_cost == pytest.approx(12 * 3600 * 8 * 9.5e12, rel=0.01)
    assert big.german_cost == big.french_cost == pytest.approx(3.5 * 86400 * 8 * 9.5e12, rel=0.01)


def test_the_differences_that_the_text_names() -> None:
    base, big = (row for row in TABLE_2 if row.group == "transformer")
    others = [row for row in TABLE_2 if row.group != "transformer"]
    assert big.german - max(row.german for row in others if row.german) > 2.0  # "by more than 2.0 BLEU"
    assert base.german > max(row.german for row in others if row.german)  # "surpasses all ... models and ensembles"
    single = [row for row in others if row.group == "single"]
    assert big.french > max(row.french for row in single if row.french)
    assert big.french_cost < min(row.french_cost for row in single if row.french_cost) / 4  # "less than 1/4"
    heads = GROUPS["A"]
    best = max(row.bleu for row in [*heads, BASE])
    assert best - next(row.bleu for row in heads if row.heads == 1) == pytest.approx(0.9)  # "0.9 BLEU worse"
    assert next(row.bleu for row in heads if row.heads == 32) < best  # "drops off with too many heads"
    assert all(row.bleu < BASE.bleu for row in GROUPS["B"])
    assert all(row.heads * row.d_k == row.heads * row.d_v == 512 for row in heads)  # the same amount of computation
    assert BIG.bleu == max(row.bleu for row in TABLE_3)
    assert BIG.perplexity == min(row.perplexity for row in TABLE_3)


def test_perplexity_and_bleu_part_ways_under_smoothing() -> None:
    """Section 5.4: smoothing hurts perplexity and improves BLEU."""
    without = next(row for row in GROUPS["D"] if row.smoothing == 0.0)
    assert without.perplexity < BASE.perplexity
    assert without.bleu < BASE.bleu


def test_sizes_and_what_changed() -> None:
    assert (len(TABLE_2), len(TABLE_3)) == (10, 20)
    assert {letter: len(rows) for letter, rows in GROUPS.items()} == {"A": 4, "B": 2, "C": 7, "D": 4, "E": 1}
    for row in TABLE_3:
        for name in ("encoder_layers", "decoder_layers", "d_model", "feed_forward", "heads", "d_k", "d_v", "dropout"):
            assert (getattr(row, name) != getattr(BASE, name)) == (name in row.changed), (row, name)
    assert BIG.heads * BIG.d_k == BIG.d_model
    sizes = [(row.parameters, row.bleu) for row in [*GROUPS["C"], BASE, BIG]]
    assert np.corrcoef(np.log([size for size, _ in sizes]), [bleu for _, bleu in sizes])[0, 1] > 0.6


def test_the_row_of_a_checkpoint(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text(
        '{"kind": "dev", "step": 5, "dev_loss": 2.0}\n{"kind": "dev", "step": 9, "dev_loss": 1.5}\n', encoding="utf-8"
    )
    row = own_variation(translator, course(tmp_path))
    assert (row.row, row.layers, row.d_model, row.feed_forward) == ("tiny", "3 + 2", 32, 64)
    assert (row.heads, row.d_k, row.d_v, row.dropout) == (4, 8, 8, 0.1)
    assert row.perplexity == pytest.approx(math.exp(1.5))
    assert row.parameters == pytest.approx(sum(p.numel() for p in translator.model.parameters()) / 1e6)
    assert (row.bleu, row.smoothing, row.steps) == (None, None, None)
    assert own_variation(translator, None).perplexity is None


def test_the_scores_of_a_checkpoint() -> None:
    listed = [
        {"part": "dev", "name": "BLEU", "value": 39, "signature": "s", "sentences": 1014},
        {"metric": "BLEU", "value": 0.0},
        {"part": "dev", "name": "BLEU", "value": "high"},
        "nothing",
    ]
    scores = own_scores({"scores": listed})
    assert [(one.part, one.name, one.value, one.sentences) for one in scores] == [
        ("dev", "BLEU", 39.0, 1014),
        ("", "BLEU", 0.0, None),
    ]
    assert own_scores({}) == ()
