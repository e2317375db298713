"""Coverage is counted along every prefix, whatever becomes of the rows."""

from __future__ import annotations

import math

import pytest
import torch

from transformer.config import EOS_ID, SOS_ID, ModelConfig
from transformer.decoding.batch import translate_ids
from transformer.decoding.beam import beam_search, trace_beam_search
from transformer.decoding.coverage import CoveredState
from transformer.decoding.options import SearchOptions
from transformer.decoding.step import start
from transformer.nn.attention import attention_pattern, attention_scores
from transformer.nn.model import Transformer

VOCABULARY = 30


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(11)
    model = Transformer(ModelConfig(VOCABULARY, 16, 2, 2, 3, 32, dropout=0.3, max_length=16)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)  # attention that is not nearly even
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def sources() -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    return [
        [SOS_ID, *torch.randint(4, VOCABULARY, (length,), generator=generator).tolist(), EOS_ID] for length in (3, 7, 1)
    ]


def last_layer(model: Transformer, source: list[int], tokens: tuple[int, ...]) -> torch.Tensor:
    """[T, S] mean over the heads of the last cross-attention, from its own queries and keys; no probe is asked."""
    layer = list(model.decoder)[-1]
    seen: list[torch.Tensor] = []
    handle = layer.cross_attn.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs[:2]))
    try:
        model(torch.tensor([source]), torch.tensor([[SOS_ID, *tokens[:-1]]]))
    finally:
        handle.remove()
    attention = layer.cross_attn

    def split(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (attention.heads, -1)).transpose(1, 2)

    scores = attention_scores(split(attention.query(seen[0])), split(attention.key(seen[1])))
    return attention_pattern(scores, None)[0].mean(dim=0)


def log_coverage(model: Transformer, source: list[int], tokens: tuple[int, ...]) -> float:
    received = last_layer(model, source, tokens).sum(dim=0)[1:-1].tolist()
    return sum(math.log(min(one, 1.0)) for one in received)


def test_the_penalty_is_that_of_a_forced_pass_in_batches_too(model, sources) -> None:
    options = SearchOptions(beam_size=4, nbest=4, max_extra=4, coverage_penalty=0.5)
    together = translate_ids(model, sources, options)
    for source, found in zip(sources, together, strict=True):
        (alone,) = translate_ids(model, [source], options)
        assert [one.tokens for one in found] == [one.tokens for one in alone]
        for one in found:
            assert one.coverage == pytest.approx(0.5 * log_coverage(model, source, one.tokens), abs=1e-4)
            assert one.coverage <= 0.0
        finished = [one.score for one in found if one.finished]
        assert finished == sorted(finished, reverse=True)
    assert any(one.coverage < -0.1 for found in together for one in found)


def test_every_node_of_a_tree_has_its_own(model, sources) -> None:
    options = SearchOptions(beam_size=3, nbest=3, max_extra=2, coverage_penalty=1.0)
    step, state = start(model, [sources[0]], options.coverage_penalty > 0.0)
    trace = trace_beam_search(step, state, 6, options, str, forced=(7, 9))
    for index in range(1, len(trace.nodes)):
        expected = log_coverage(model, sources[0], trace.tokens(index))
        assert trace.nodes[index].coverage == pytest.approx(expected, abs=1e-4)


def test_the_search_that_counts_is_otherwise_the_one_that_does_not(model, sources) -> None:
    options = SearchOptions(beam_size=3, nbest=3, max_extra=4)
    counting, state = start(model, sources, coverage=True)
    assert isinstance(state, CoveredState)
    found = beam_search(counting, state, [7, 9, 7], options)
    step, plain = start(model, sources, options.coverage_penalty > 0.0)
    for one, other in zip(found, beam_search(step, plain, [7, 9, 7], options), strict=True):
        assert [hypothesis.tokens for hypothesis in one] == [hypothesis.tokens for hypothesis in other]


def test_numbers_by_hand() -> None:
    counted = torch.tensor([[False, True, True, False], [False, True, False, False]])
    received = torch.tensor([[0.0, 0.5, 2.0, 0.0], [0.0, 0.25, 0.0, 0.0]])
    state = CoveredState(_Nothing(), received, counted)  # type: ignore[arg-type]
    assert state.log_coverage().tolist() == pytest.approx([math.log(0.5), math.log(0.25)])
    turned = state.reorder(torch.tensor([1, 1, 0]))
    assert turned.log_coverage().tolist() == pytest.approx([math.log(0.25), math.log(0.25), math.log(0.5)])
    pattern = torch.tensor(
        [[[[0.0, 0.4, 0.0, 0.0]], [[0.0, 0.6, 0.0, 0.0]]], [[[0.0, 0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0, 0.0]]]]
    )
    grown = state.grown(state.inner, pattern)
    assert grown.log_coverage().tolist() == pytest.approx([0.0, math.log(0.25)], abs=1e-6)
    assert state.received.tolist() == received.tolist()  # the old one stays usable


def test_what_was_never_looked_at_costs_much_but_not_everything() -> None:
    counted = torch.tensor([[False, True, False]])
    state = CoveredState.start(_Nothing(), counted)  # type: ignore[arg-type]
    assert -100.0 < float(state.log_coverage()[0]) < -80.0
    nothing = CoveredState.start(_Nothing(), torch.zeros(1, 2, dtype=torch.bool))  # type: ignore[arg-type]
    assert nothing.log_coverage().tolist() == [0.0]


class _Nothing:
    def reorder(self, index: torch.Tensor) -> _Nothing:
        return self
