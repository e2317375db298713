from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from transformer.analysis.maps import evenness
from transformer.analysis.metrics import (
    HeadFigures,
    confidence,
    diagonality,
    distance,
    entropy,
    head_figures,
    share_at,
    sink_share,
    why_undefined,
)
from transformer.analysis.words import hidden_keys
from transformer.capture.record import AttentionRecord

if TYPE_CHECKING:
    from transformer.engine import Translator

FIGURES = ("entropy", "evenness", "distance", "previous", "same", "next", "confidence", "sink", "diagonality")
SHARES = ("evenness", "previous", "same", "next", "confidence", "sink", "diagonality")


def causal(length: int) -> NDArray[np.bool_]:
    return np.tril(np.ones((length, length), dtype=bool))


def random_maps(shape: tuple[int, ...], allowed: NDArray[np.bool_] | None = None, seed: int = 0) -> NDArray[np.float32]:
    weights = np.random.default_rng(seed).random(shape) ** 4
    if allowed is not None:
        weights *= allowed
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def record(translator: Translator) -> AttentionRecord:
    return translator.inspect("Two dogs run.", target="Zwei Hunde.")


def known(record: AttentionRecord, encoder: object, decoder: object, cross: object) -> dict[str, HeadFigures]:
    """Figures of a record in which each kind has one layer with one head of the given weights."""
    maps = {
        name: np.array(values, dtype=np.float32)[None, None]
        for name, values in (("encoder", encoder), ("decoder", decoder), ("cross", cross))
    }
    length, columns = maps["cross"].shape[2:]
    piece = record.source[0]
    source = (piece, *(replace(piece, label="word", special=False) for _ in range(columns - 1)))
    target = (piece, *(replace(piece, label="Wort", special=False) for _ in range(length - 1)))
    changed = replace(
        record,
        source=source,
        target_input=target,
        target_output=target,
        log_probs=np.zeros(length, dtype=np.float32),
        causal_mask=causal(length),
        **maps,
    )
    return {figures.kind: figures for figures in head_figures(changed)}


# Every figure against a plain loop over rows and keys.


@pytest.mark.parametrize("masked", [False, True])
def test_figures_of_random_maps_equal_plain_loops(masked: bool) -> None:
    length = 6
    mask = causal(length) if masked else np.ones((length, length), dtype=bool)
    maps = random_maps((2, 3, length, length), mask)
    sinks = np.array([True, False, False, True, False, False])
    allowed = mask if masked else None
    for layer in range(2):
        for head in range(3):
            a = maps[layer, head].astype(float).tolist()
            rows = range(1, length) if masked else range(length)
            keys = [range(t + 1) if masked else range(length) for t in range(length)]

            def mean(values: list[float]) -> float:
                return pytest.approx(sum(values) / len(values), abs=1e-6)

            at = (layer, head)
            assert entropy(maps, allowed)[at] == mean(
                [-sum(a[t][s] * math.log(a[t][s]) for s in keys[t]) for t in rows]
            )
            assert confidence(maps, allowed)[at] == mean([max(a[t]) for t in rows])
            assert distance(maps, allowed)[at] == mean([sum(a[t][s] * abs(t - s) for s in keys[t]) for t in rows])
            assert sink_share(maps, sinks, allowed)[at] == mean([a[t][0] + a[t][3] for t in rows])
            for offset in (-1, 0, 1):
                values = [a[t][t + offset] for t in rows if t + offset in keys[t]]
                if values:
                    assert share_at(maps, offset, allowed)[at] == mean(values)
                else:
                    assert np.isnan(share_at(maps, offset, allowed)[at])


@pytest.mark.parametrize(("length", "columns"), [(5, 5), (4, 7), (9, 3), (2, 2)])
def test_diagonality_equals_a_plain_loop(length: int, columns: int) -> None:
    weights = random_maps((length, columns), seed=3)
    apart = [[abs(t / (length - 1) - s / (columns - 1)) for s in range(columns)] for t in range(length)]
    found = sum(float(weights[t, s]) * apart[t][s] for t in range(length) for s in range(columns)) / length
    uniform = sum(sum(row) / columns for row in apart) / length
    nearest = sum(min(row) for row in apart) / length
    expected = max(0.0, 1.0 - (found - nearest) / (uniform - nearest))
    assert diagonality(weights) == pytest.approx(expected, abs=1e-6)


# Heads whose figures are known.


def test_uniform_attention() -> None:
    uniform = np.full((1, 4, 4), 0.25, dtype=np.float32)
    assert entropy(uniform) == pytest.approx(math.log(4))
    assert confidence(uniform) == pytest.approx(0.25)
    assert distance(uniform) == pytest.approx((6 + 4 + 4 + 6) / 16)
    assert [share_at(uniform, offset)[0] for offset in (-1, 0, 1)] == pytest.approx([0.25] * 3)
    assert diagonality(uniform) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_a_head_that_looks_at_one_offset_only(offset: int) -> None:
    weights = np.eye(5, k=offset, dtype=np.float32)
    weights[weights.sum(axis=1) == 0.0, 2] = 1.0  # the row without such a key looks elsewhere
    for other in (-1, 0, 1):
        assert share_at(weights, other) == pytest.approx(float(other == offset))
    assert confidence(weights) == 1.0
    assert entropy(weights) == 0.0


def test_share_at_asks_for_mean_weight_not_for_the_largest() -> None:
    weights = np.array([[0.4, 0.3, 0.3], [0.4, 0.3, 0.3], [0.3, 0.4, 0.3]], dtype=np.float32)
    assert share_at(weights, -1) == pytest.approx(0.4)  # the largest weight is there in every row that has the key


def test_rows_without_a_choice_do_not_count() -> None:
    weights = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]], dtype=np.float32)
    mask = causal(3)
    assert entropy(weights, mask) == pytest.approx((math.log(2) + 1.5 * math.log(2)) / 2)
    assert confidence(weights, mask) == pytest.approx(0.5)
    assert distance(weights, mask) == pytest.approx((0.5 + 0.75) / 2)
    assert share_at(weights, 0, mask) == pytest.approx(0.5)
    assert share_at(weights, -1, mask) == pytest.approx((0.5 + 0.25) / 2)
    assert sink_share(weights, np.array([True, False, False]), mask) == pytest.approx((0.5 + 0.25) / 2)
    assert sink_share(weights, np.array([True, True, False]), mask) == pytest.approx(0.5)  # row 1 sees sinks only
    assert np.isnan(sink_share(weights, np.array([True, True, True]), mask))


@pytest.mark.parametrize(("length", "columns"), [(4, 4), (3, 8), (11, 4), (2, 5)])
def test_diagonality_is_one_on_the_diagonal_and_falls_in_a_line_to_uniform(length: int, columns: int) -> None:
    perfect = np.zeros((length, columns), dtype=np.float32)
    for t in range(length):
        perfect[t, round(t * (columns - 1) / (length - 1))] = 1.0
    uniform = np.full((length, columns), 1.0 / columns, dtype=np.float32)
    for share in (0.0, 0.25, 0.5, 1.0):
        mixed = share * perfect + (1.0 - share) * uniform
        assert diagonality(mixed) == pytest.approx(share, abs=1e-5)
    assert diagonality(perfect[::-1]) == 0.0


def test_diagonality_in_the_decoder_and_where_it_is_undefined() -> None:
    mask = causal(5)
    assert diagonality(np.eye(5, dtype=np.float32), mask) == pytest.approx(1.0)
    uniform = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
    assert diagonality(uniform, mask) == pytest.approx(0.0, abs=1e-6)
    at_start = np.zeros((5, 5), dtype=np.float32)
    at_start[:, 0] = 1.0
    assert diagonality(at_start, mask) == 0.0
    assert np.isnan(diagonality(np.ones((1, 4), dtype=np.float32) / 4))
    assert np.isnan(diagonality(np.ones((4, 1), dtype=np.float32)))


def test_a_head_that_was_switched_off_has_no_figures(record: AttentionRecord) -> None:
    off = np.zeros((3, 3))
    found = known(record, off, off, off)
    assert all(value is None for figures in found.values() for value in list(asdict(figures).values())[3:])
    half = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=np.float32)
    assert confidence(half) == 1.0


# The table.


def test_every_head_has_a_row_in_order(record: AttentionRecord) -> None:
    found = head_figures(record)
    assert [(figures.kind, figures.layer, figures.head) for figures in found] == [
        (kind, layer, head)
        for kind, layers in (("encoder", 3), ("decoder", 2), ("cross", 2))
        for layer in range(1, layers + 1)
        for head in range(1, 5)
    ]
    assert tuple(asdict(found[0]))[3:] == FIGURES


def test_figures_are_in_range_and_missing_only_where_the_question_makes_no_sense(record: AttentionRecord) -> None:
    for figures in head_figures(record):
        values = {name: value for name, value in asdict(figures).items() if name in FIGURES}
        missing = {name for name, value in values.items() if value is None}
        assert (
            missing
            == {"encoder": set(), "decoder": {"next"}, "cross": {"distance", "previous", "same", "next"}}[figures.kind]
        )
        assert all(why_undefined(figures.kind, name) != why_undefined("encoder", "entropy") for name in missing)
        assert all(type(value) is float for value in values.values() if value is not None)
        assert all(0.0 <= values[name] <= 1.0 + 1e-6 for name in SHARES if values[name] is not None)


def test_the_table_holds_the_figures_of_the_right_head(record: AttentionRecord) -> None:
    found = {(figures.kind, figures.layer, figures.head): figures for figures in head_figures(record)}
    decoder = found["decoder", 2, 3]
    maps, mask = record.decoder[1, 2], record.causal_mask
    assert decoder.entropy == pytest.approx(float(entropy(maps, mask)))
    assert decoder.evenness == pytest.approx(evenness(maps, mask))
    assert decoder.distance == pytest.approx(float(distance(maps, mask)))
    assert decoder.same == pytest.approx(float(share_at(maps, 0, mask)))
    assert decoder.sink == pytest.approx(float(sink_share(maps, hidden_keys(record, "decoder", True, True), mask)))
    cross = found["cross", 1, 4]
    assert cross.confidence == pytest.approx(float(record.cross[0, 3].max(axis=1).mean()))
    assert cross.sink == pytest.approx(float(sink_share(record.cross[0, 3], hidden_keys(record, "cross", True, True))))
    encoder = found["encoder", 3, 1]
    assert encoder.next == pytest.approx(float(np.diagonal(record.encoder[2, 0], 1).mean()))
    assert encoder.previous == pytest.approx(float(np.diagonal(record.encoder[2, 0], -1).mean()))


def test_known_heads_in_the_table(record: AttentionRecord) -> None:
    """The encoder looks at itself, the decoder at the piece before, cross-attention at <SOS>."""
    shift = np.eye(4, k=-1)
    shift[0, 0] = 1.0
    rest = np.zeros((4, 3))
    rest[:, 0] = 1.0
    found = known(record, np.eye(3), shift, rest)
    assert (found["encoder"].same, found["encoder"].distance, found["encoder"].diagonality) == (1.0, 0.0, 1.0)
    assert (found["encoder"].previous, found["encoder"].next) == (0.0, 0.0)
    assert found["encoder"].sink == pytest.approx(1 / 3)
    assert (found["decoder"].previous, found["decoder"].same, found["decoder"].distance) == (1.0, 0.0, 1.0)
    assert found["decoder"].sink == pytest.approx(1 / 3)  # row 0 can only look at <SOS>; of rows 1 to 3 the first does
    assert (found["cross"].sink, found["cross"].confidence, found["cross"].entropy) == (1.0, 1.0, 0.0)


def test_a_target_of_one_piece_leaves_the_decoder_without_a_choice(record: AttentionRecord) -> None:
    found = known(record, np.full((2, 2), 0.5), [[1.0]], [[0.5, 0.5]])
    assert all(value is None for value in list(asdict(found["decoder"]).values())[3:])
    assert "no row has a choice" in why_undefined("decoder", "entropy")
    assert found["cross"].entropy == pytest.approx(math.log(2))
    assert found["cross"].diagonality is None
    assert found["encoder"].evenness is None
    assert "more than two" in why_undefined("encoder", "evenness")
