from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest

from transformer.analysis.maps import KINDS, evenness, kind_view, resting_place, strongest_cells
from transformer.errors import InputError

if TYPE_CHECKING:
    from transformer.capture.record import AttentionRecord
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


def with_norms(translator: Translator, seed: int = 0) -> AttentionRecord:
    """A record whose value norms are random, that of the first source piece 0."""
    record = translator.inspect("Two dogs run.", target="Zwei Hunde.")
    generator = np.random.default_rng(seed)
    norms = {}
    for kind in KINDS:
        layers, heads, _, keys = record.attention(kind).shape
        norms[kind] = generator.random((layers, heads, keys), dtype=np.float32)
    norms["cross"][:, :, 0] = 0.0
    return dataclasses.replace(record, value_norms=norms)


@pytest.mark.parametrize("kind", KINDS)
def test_norms_by_hand(translator: Translator, kind: str) -> None:
    """Kobayashi et al. 2020: weight times norm of the value, here as a share of the row."""
    record = with_norms(translator)
    view = kind_view(record, kind, LANGUAGES, "norms")
    weights, norms = record.attention(kind), record.value_norms[kind]
    for layer, head in np.ndindex(weights.shape[:2]):
        for row in range(weights.shape[2]):
            taken = [float(weights[layer, head, row, key]) * float(n) for key, n in enumerate(norms[layer, head])]
            expected = np.array(taken) / sum(taken) if sum(taken) else np.zeros(len(taken))  # <SOS> alone may be 0
            np.testing.assert_allclose(view.weights[layer, head, row], expected, rtol=1e-5, atol=1e-7)
    assert view.weights.dtype == np.float32
    if view.allowed is not None:
        assert (view.weights[:, :, ~view.allowed] == 0.0).all()


def test_equal_norms_leave_the_weights(translator: Translator) -> None:
    record = with_norms(translator)
    equal = {kind: np.full_like(norms, 2.5) for kind, norms in record.value_norms.items()}
    view = kind_view(dataclasses.replace(record, value_norms=equal), "cross", LANGUAGES, "norms")
    np.testing.assert_allclose(view.weights, record.cross, atol=1e-6)


def test_a_row_without_any_norm_stays_zero(translator: Translator) -> None:
    record = with_norms(translator)
    record.value_norms["decoder"].setflags(write=True)
    record.value_norms["decoder"][:, :, 0] = 0.0
    weights = kind_view(record, "decoder", LANGUAGES, "norms").weights
    assert (weights[:, :, 0] == 0.0).all()  # the first row may look at <SOS> alone
    np.testing.assert_allclose(weights[:, :, 1:].sum(axis=-1), 1.0, atol=1e-6)


def test_a_view_says_which_quantity_it_shows(translator: Translator) -> None:
    record = with_norms(translator)
    weights, norms = (kind_view(record, "cross", LANGUAGES, quantity) for quantity in ("weights", "norms"))
    assert (weights.quantity, weights.columns.title, weights.measure) == ("weights", "key: English input", "weight")
    assert (norms.quantity, norms.columns.title) == ("norms", "key, by weight × norm of its value: English input")
    assert norms.measure == "weight × norm, share of the row"
    assert norms.sentence(0, 0) == weights.sentence(0, 0).replace("looks at", "takes from")
    with pytest.raises(InputError, match="quantity must be one of weights, norms, but it was 'gradients'"):
        kind_view(record, "cross", LANGUAGES, "gradients")
    with pytest.raises(InputError, match="quantity must be one that the record holds"):
        kind_view(dataclasses.replace(record, value_norms={}), "cross", LANGUAGES, "norms")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Two dogs run.", False),
        ("مرحبا يا رجل.", True),
        ("שלום 2019", True),
        ("مرحبا Hello everybody", False),
        ("123 ...", False),
    ],
)
def test_the_script_gives_the_direction(translator: Translator, text: str, expected: bool) -> None:
    record = translator.inspect(text, target=text)
    for kind in KINDS:
        view = kind_view(record, kind, LANGUAGES)
        assert view.rows.right_to_left is view.columns.right_to_left is expected


def test_each_side_has_its_own_direction(translator: Translator) -> None:
    record = translator.inspect("Two dogs run.", target="مرحبا")
    cross = kind_view(record, "cross", LANGUAGES)
    assert (cross.rows.right_to_left, cross.columns.right_to_left) == (True, False)
    # What was read may lack every letter of what is written; both are one text.
    short = dataclasses.replace(
        record,
        target_input=record.target_input[:1],
        target_output=record.target_output[1:2],
        decoder=record.decoder[:, :, :1, :1],
        causal_mask=record.causal_mask[:1, :1],
    )
    decoder = kind_view(short, "decoder", LANGUAGES)
    assert decoder.rows.right_to_left is decoder.columns.right_to_left is True
    unknown = translator.inspect("Two dogs run.", target_ids=[1, 1, 3])  # <UNK> is a name, not letters
    assert kind_view(unknown, "cross", LANGUAGES).rows.right_to_left is False


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
