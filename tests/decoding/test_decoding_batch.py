"""The search over a real (random) Transformer: batched, cached, padded."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.config import EOS_ID, SOS_ID, ModelConfig
from transformer.decoding.batch import batches_by_length, translate_ids
from transformer.decoding.beam import SearchOptions, beam_search, trace_beam_search
from transformer.decoding.rules import forbid
from transformer.decoding.step import model_step
from transformer.errors import InputError
from transformer.nn.model import Transformer

VOCABULARY = 40


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(7)
    config = ModelConfig(VOCABULARY, 32, 4, 2, 2, 64, dropout=0.3, max_length=24)
    return Transformer(config).eval()


@pytest.fixture(scope="module")
def sources() -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    lengths = (3, 9, 1, 6, 6, 12, 2)
    return [
        [SOS_ID, *torch.randint(4, VOCABULARY, (length,), generator=generator).tolist(), EOS_ID] for length in lengths
    ]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_batch_equals_its_sentences_alone(model, sources, beam_size) -> None:
    options = SearchOptions(beam_size=beam_size, max_extra=5, nbest=beam_size)
    together = translate_ids(model, sources, options)
    for source, found in zip(sources, together, strict=True):
        (alone,) = translate_ids(model, [source], options)
        assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in alone]
        for one, other in zip(found, alone, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-5)


def test_greedy_equals_a_loop_over_the_full_model(model, sources) -> None:
    options = SearchOptions(beam_size=1, max_extra=5)
    for source, (found,) in zip(sources, translate_ids(model, sources, options), strict=True):
        written: list[int] = []
        with torch.no_grad():
            while len(written) < len(source) + 5 and EOS_ID not in written:
                logits = model(torch.tensor([source]), torch.tensor([[SOS_ID, *written]]))
                written.append(int(forbid(logits[0, -1]).argmax()))
        assert found.tokens == tuple(written)


def test_log_probs_are_those_of_the_teacher_forced_pass(model, sources) -> None:
    for source, nbest in zip(sources, translate_ids(model, sources, SearchOptions(4, nbest=4)), strict=True):
        for hypothesis in nbest:
            target = [SOS_ID, *hypothesis.tokens[:-1]]
            with torch.no_grad():
                logits = model(torch.tensor([source]), torch.tensor([target]))
            expected = torch.log_softmax(logits[0], dim=-1)[range(len(target)), list(hypothesis.tokens)]
            assert hypothesis.log_probs == pytest.approx(expected.tolist(), abs=2e-5)


def test_the_traced_search_is_the_plain_one(model, sources) -> None:
    options = SearchOptions(beam_size=4, nbest=4, max_extra=5)
    ids = torch.tensor([sources[1]])
    with torch.inference_mode():
        state = model.start(model.encode(ids), ids.bool())
    trace = trace_beam_search(model_step(model), state, 14, options, str)
    (found,) = beam_search(model_step(model), state, [14], options)
    assert [trace.tokens(index) for index in trace.hypotheses] == [hypothesis.tokens for hypothesis in found]
    assert [trace.nodes[index].score for index in trace.hypotheses] == [hypothesis.score for hypothesis in found]


def test_no_translation_outgrows_its_limit(model, sources) -> None:
    for extra in (0, 3, 50):
        options = SearchOptions(beam_size=2, max_extra=extra, nbest=2)
        for source, found in zip(sources, translate_ids(model, sources, options), strict=True):
            assert all(len(hypothesis.tokens) <= min(len(source) + extra, 24) for hypothesis in found)


def test_budget_changes_no_translation_and_progress_counts(model, sources) -> None:
    options = SearchOptions(beam_size=2, max_extra=4)
    done: list[int] = []
    small = translate_ids(model, sources, options, token_budget=40, progress=done.append)
    assert len(done) > 1
    assert sum(done) == len(sources)
    large = translate_ids(model, sources, options, token_budget=10**6)
    assert [found[0].tokens for found in small] == [found[0].tokens for found in large]


def test_training_mode_is_left_and_restored(model, sources) -> None:
    options = SearchOptions(beam_size=2, max_extra=4)
    expected = translate_ids(model, sources, options)
    model.train()
    try:
        assert translate_ids(model, sources, options) == expected
        assert model.training
    finally:
        model.eval()


@pytest.mark.parametrize("source", [[], [SOS_ID, *[5] * 30, EOS_ID]])
def test_sources_that_do_not_fit_are_named(model, source) -> None:
    with pytest.raises(InputError, match="sentence 2 must have from 1 to 24 pieces"):
        translate_ids(model, [[SOS_ID, 4, EOS_ID], source])


def test_no_sources_no_translations(model) -> None:
    assert translate_ids(model, []) == []


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(1, 30), max_size=40), beam_size=st.integers(1, 5), budget=st.integers(1, 500))
def test_batches_hold_every_sentence_once_within_the_budget(lengths, beam_size, budget) -> None:
    batches = batches_by_length(lengths, beam_size, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * beam_size * max(lengths[index] for index in batch) <= budget
    order = [lengths[index] for batch in batches for index in batch]
    assert order == sorted(order, reverse=True)


def test_a_budget_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="token_budget"):
        batches_by_length([3], 1, 0)
