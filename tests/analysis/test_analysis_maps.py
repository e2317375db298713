from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from transformer.analysis.maps import evenness, kind_view, resting_place, strongest_cells
from transformer.errors import InputError

if TYPE_CHECKING:
    from transformer.engine import Translator

LANGUAGES = {"source": "English", "target": "German"}


def test_rows_of_the_decoder_are_named_by_what_they_write(translator: Translator) -> None:
    record = translator.inspect("Two dogs run.", target="Zwei Hunde.")
    cross, decoder = (kind_view(record, kind, LANGUAGES) for kind in ("cross", "decoder"))
    assert cross.rows.labels == decoder.rows.labels == tuple(piece.label for piece in record.target_output)
    assert cross.columns.labels == tuple(record.source_tokens)
    assert decoder.columns.labels == tuple(record.target_tokens)
    assert decoder.columns.labels[0] == "<SOS>"
    assert decoder.rows.labels[-1] == "<EOS>"
    first, second = record.target_output[0].label, record.target_output[1].label
    assert cross.sentence(1, 0) == f"writing '{second}', having just read '{first}' → looks at '<SOS>'"


def test_layers_of_encoder_and_decoder_are_their_own(translator: Translator) -> None:
    record = translator.inspect("Two dogs run.", target="Zwei Hunde.")
    layers = {kind: kind_view(record, kind, LANGUAGES).layers for kind in ("encoder", "decoder", "cross")}
    assert layers == {"encoder": 3, "decoder": 2, "cross": 2}


def test_another_kind_is_refused(translator: Translator) -> None:
    record = translator.inspect("Two dogs run.", target="Zwei Hunde.")
    with pytest.raises(InputError, match="kind must be one of encoder, decoder, cross, but it was 'foo'"):
        kind_view(record, "foo", LANGUAGES)


def test_strongest_cells_are_sorted_and_never_zero() -> None:
    weights = np.array([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]], dtype=np.float32)
    cells = strongest_cells(weights, 8)
    assert [(cell.row, cell.column) for cell in cells] == [(1, 0), (0, 0), (0, 1), (1, 1)]


def test_a_resting_head_is_noticed() -> None:
    weights = np.full((4, 4), 0.05, dtype=np.float32)
    weights[:, 3] = 0.85
    rest = resting_place(weights)
    assert rest is not None
    assert (rest.column, round(rest.share, 2)) == (3, 0.85)
    assert resting_place(np.full((4, 4), 0.25, dtype=np.float32)) is None


def test_rows_without_a_choice_say_nothing() -> None:
    mask = np.tril(np.ones((4, 4), dtype=bool))
    weights = np.zeros((4, 4), dtype=np.float32)
    weights[np.arange(4), np.arange(4)] = 1.0
    assert resting_place(weights, mask) is None
    weights = np.zeros((4, 4), dtype=np.float32)
    weights[:, 0] = 1.0
    rest = resting_place(weights, mask)
    assert rest is not None
    assert rest.column == 0


def test_evenness_runs_from_one_key_to_all_keys() -> None:
    assert evenness(np.full((2, 4), 0.25, dtype=np.float32)) == pytest.approx(1.0)
    assert evenness(np.eye(4, dtype=np.float32)) == pytest.approx(0.0)
    half = np.array([[0.5, 0.5, 0.0, 0.0]], dtype=np.float32)
    assert evenness(half) == pytest.approx(0.5)
    assert evenness(np.ones((3, 1), dtype=np.float32)) is None
    mask = np.tril(np.ones((4, 4), dtype=bool))
    assert evenness((mask / mask.sum(axis=1, keepdims=True)).astype(np.float32), mask) == pytest.approx(1.0)
