"""From text to vectors: against the stored numbers, worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import safetensors.numpy

import transformer
from transformer.errors import InputError
from transformer.lessons.tokens import embedding, look_up, piece_of, source_pieces

if TYPE_CHECKING:
    from transformer.engine import Translator

TEXT = "Two dogs run 狗."


def test_rows_are_those_of_the_stored_file(translator: Translator, tiny_checkpoint: Path) -> None:
    stored = safetensors.numpy.load_file(tiny_checkpoint / "model.safetensors")
    found, matrix = look_up(translator, TEXT), stored["source_input.lookup.weight"]
    ids = translator.tokenizer.encode(TEXT)
    assert [piece.id for piece in found.pieces] == ids
    assert np.array_equal(embedding(translator), matrix)
    for place, number in enumerate(ids):
        assert np.array_equal(found.rows[place], matrix[number])
    assert (found.vocabulary, found.scale) == (len(matrix), math.sqrt(32))
    assert found.share == pytest.approx(matrix.size / sum(tensor.size for tensor in stored.values()))


def test_what_enters_is_the_scaled_row_and_the_position(translator: Translator) -> None:
    found = look_up(translator, TEXT)
    assert all(check.ok for check in found.checks)
    for place in range(len(found.pieces)):
        for i in range(16):
            angle = place / 10000 ** (2 * i / 32)
            for dimension, position in ((2 * i, math.sin(angle)), (2 * i + 1, math.cos(angle))):
                expected = found.rows[place, dimension] * math.sqrt(32) + position
                assert found.entering[place, dimension] == pytest.approx(expected, abs=1e-5)


def test_typed_text_of_each_piece(translator: Translator) -> None:
    found = look_up(translator, TEXT)
    assert found.typed[0] == found.typed[-1] == ""
    assert "".join(found.typed) == TEXT.replace(" ", "")
    assert [piece.unknown for piece, typed in zip(found.pieces, found.typed, strict=True) if typed == "狗"] == [True]


def test_a_model_that_computes_otherwise_is_found_out(tiny_checkpoint: Path) -> None:
    wrong = transformer.load(tiny_checkpoint)
    wrong.model.source_input.scale = 1.0
    assert [check.ok for check in look_up(wrong, TEXT).checks] == [False, True]


@pytest.mark.parametrize(("text", "said"), [("  ", "at least one word"), ("dog " * 70, "at most 64 pieces")])
def test_empty_and_long_sentences_are_refused(translator: Translator, text: str, said: str) -> None:
    for function in (look_up, source_pieces):
        with pytest.raises(InputError, match=said):
            function(translator, text)


def test_a_piece_by_its_id(translator: Translator) -> None:
    for piece in translator.tokenizer.pieces("Two dogs run."):
        assert piece_of(translator, piece.id).label == piece.label
    with pytest.raises(InputError, match="piece id"):
        piece_of(translator, translator.config.vocab_size)
