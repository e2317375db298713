"""Paths counted by walking them, costs by adding them up, and the bottleneck as a decoder that is given one vector."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from transformer.config import EOS_ID, SOS_ID
from transformer.engine import Translator
from transformer.errors import InputError
from transformer.lessons.costs import bottleneck, layer_kinds, measure, path_lengths

TEXT, TARGET = "Two dogs run through the tall grass.", "Zwei Hunde rennen."


def layers_until_seen(length: int, reaches: list[list[int]]) -> int:
    """How many layers it takes until the last position has seen the first; layer i reads back by ``reaches[i]``."""
    seen = [{place} for place in range(length)]
    for count, reach in enumerate(reaches, start=1):
        seen = [set().union(*(seen[place - back] for back in reach if place >= back)) for place in range(length)]
        if 0 in seen[-1]:
            return count
    raise AssertionError("never")


@pytest.mark.parametrize("length", [2, 3, 4, 5, 9, 10, 17, 27, 28])
@pytest.mark.parametrize("kernel", [2, 3, 5])
def test_paths_are_those_that_a_signal_walks(length: int, kernel: int) -> None:
    found = path_lengths(length, kernel)
    contiguous = [list(range(kernel))] * length
    dilated = [[kernel**layer * step for step in range(kernel)] for layer in range(8)]
    assert found["recurrent"] == layers_until_seen(length, [[0, 1]] * length)
    assert found["contiguous"] == layers_until_seen(length, contiguous)
    assert found["dilated"] == layers_until_seen(length, dilated)
    assert found["attention"] == layers_until_seen(length, [list(range(length))])


def test_the_rows_of_table_1_by_counting() -> None:
    length, width, kernel = 5, 4, 3
    attention, recurrent, convolution, dilated = layer_kinds(length, width, kernel)
    assert attention.multiplications == sum(1 for _ in range(length) for _ in range(length) for _ in range(width))
    assert recurrent.multiplications == sum(1 for _ in range(length) for _ in range(width) for _ in range(width))
    assert convolution.multiplications == dilated.multiplications == kernel * recurrent.multiplications
    assert (attention.steps, recurrent.steps, convolution.steps) == (1, length, 1)
    assert (attention.path, recurrent.path, convolution.path, dilated.path) == (1, 4, 2, 2)


def test_attention_is_cheaper_exactly_while_there_are_fewer_positions_than_dimensions() -> None:
    for length, cheaper in ((63, True), (65, False)):
        attention, recurrent, *_ = layer_kinds(length, 64)
        assert (attention.multiplications < recurrent.multiplications) is cheaper


@pytest.mark.parametrize(("length", "kernel"), [(1, 3), (4, 1)])
def test_too_small_numbers_are_refused(length: int, kernel: int) -> None:
    with pytest.raises(InputError, match="must be a whole number of at least 2"):
        path_lengths(length, kernel)


def test_what_is_measured_grows_as_it_must(translator: Translator) -> None:
    found = measure(translator, TEXT, (4, 16, 64, 128), repeats=1)
    np.testing.assert_array_equal(found.lengths, [4, 16, 64])  # the model has positions for 64
    np.testing.assert_array_equal(found.map_bytes, [4 * 4 * n * n for n in (4, 16, 64)])  # 4 heads, 4 bytes a number
    np.testing.assert_array_equal(found.vector_bytes, [4 * 32 * n for n in (4, 16, 64)])
    assert (found.attention_seconds > 0.0).all()
    assert (found.recurrent_seconds > 0.0).all()


def test_a_model_with_few_positions_is_measured_at_its_longest(translator: Translator) -> None:
    np.testing.assert_array_equal(measure(translator, TEXT, (128,), repeats=1).lengths, [64])


def test_measuring_leaves_the_global_random_numbers_alone(translator: Translator) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    measure(translator, TEXT, (4,), repeats=1)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("position", [0, 2, None])
def test_the_bottleneck_is_a_decoder_that_is_given_one_vector(position: int | None, translator: Translator) -> None:
    """All of it by another way: the encoder's output cut down to that vector before the decoder ever runs."""
    model, tokenizer = translator.model, translator.tokenizer
    target = [*tokenizer.encode_target(TARGET), EOS_ID]
    source = torch.tensor([tokenizer.encode(TEXT)])
    memory = model.encode(source)
    vector = memory.mean(1, keepdim=True) if position is None else memory[:, position : position + 1]

    def scored(read: list[int], seen: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(1, seen.size(1), dtype=torch.bool)
        return torch.log_softmax(model.project(model.decode(torch.tensor([read]), seen, mask))[0], dim=-1)

    def picked(seen: torch.Tensor) -> list[float]:
        rows = scored([SOS_ID, *target[:-1]], seen)
        return [float(rows[place, number]) for place, number in enumerate(target)]

    found = bottleneck(translator, TEXT, target, position)
    np.testing.assert_allclose(found.log_probs, picked(memory), atol=1e-4)
    np.testing.assert_allclose(found.changed_log_probs, picked(vector), atol=1e-4)
    assert found.changed_perplexity == pytest.approx(np.exp(-np.mean(picked(vector))), rel=1e-3)


def test_the_bottleneck_writes_what_its_decoder_writes(translator: Translator) -> None:
    model = translator.model
    source = torch.tensor([translator.tokenizer.encode(TEXT)])
    vector, one = model.encode(source)[:, :1], torch.ones(1, 1, dtype=torch.bool)
    read = [SOS_ID]
    while len(read) <= source.size(1) + 50 and len(read) < 64:
        scores = model.project(model.decode(torch.tensor([read]), vector, one))[0, -1]
        scores[[0, 1, 2]] = -torch.inf  # <PAD>, <UNK> and <SOS> are never written
        read.append(int(scores.argmax()))
        if read[-1] == EOS_ID:
            break
    found = bottleneck(translator, TEXT, [EOS_ID], 0)
    written = translator.tokenizer.decode(read[1:])
    assert found.changed_text[:20] == written[:20]
    assert translator.translate(TEXT, beam_size=1).text.startswith(found.text)


def test_a_position_that_is_not_there_is_refused(translator: Translator) -> None:
    with pytest.raises(InputError, match="position must be a position from 0 to"):
        bottleneck(translator, TEXT, [EOS_ID], 99)


def test_nothing_stays_changed(translator: Translator) -> None:
    before = translator.translate(TEXT, beam_size=2)
    bottleneck(translator, TEXT, [EOS_ID], 0)
    assert translator.translate(TEXT, beam_size=2).best == before.best
