"""A trace replays exactly: every number and every attention map on the way is that of a forced pass over the prefix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from transformer.capture.capture import capture
from transformer.capture.sink import Recorder
from transformer.config import SOS_ID
from transformer.decoding.beam import beam_search
from transformer.decoding.options import SearchOptions
from transformer.decoding.step import start
from transformer.engine import Translator
from transformer.nn.probe import watching
from transformer.nn.state import DecoderState

SENTENCE = "Two dogs run through the tall grass."


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam_size": 1},
        {"beam_size": 3, "coverage_penalty": 0.3, "no_repeat_ngram": 2},
        {"beam_size": 2, "prefix": "Zwei Hunde"},
    ],
)
def test_parents_give_every_log_probability_of_a_trace(options: dict, translator: Translator) -> None:
    options = dict(options)
    prefix = translator.ids_of(options.pop("prefix", ""))
    trace = translator.trace_beams(SENTENCE, max_extra=0, prefix_ids=prefix, **options)
    leaves = [index for index in range(1, len(trace.nodes)) if not trace.children(index)]
    seen = set()
    for leaf in leaves:
        path = trace.path(leaf)[1:]
        record = translator.inspect(SENTENCE, target_ids=trace.tokens(leaf))  # causal: one pass serves the whole path
        for position, index in enumerate(path):
            assert trace.nodes[index].log_prob == pytest.approx(float(record.log_probs[position]), abs=1e-4)
        totals = np.cumsum([trace.nodes[index].log_prob for index in path])
        assert [trace.nodes[index].total_log_prob for index in path] == pytest.approx(totals.tolist(), abs=1e-4)
        seen.update(path)
    assert len(seen) == len(trace.nodes) - 1  # every node is on some path


@dataclass(frozen=True)
class Watched:
    """A state that also keeps, for every row, what it was fed."""

    inner: DecoderState
    sources: Tensor
    fed: Tensor

    def reorder(self, index: Tensor) -> Watched:
        return Watched(self.inner.reorder(index), self.sources[index], self.fed[index])


@pytest.mark.parametrize("beam_size", [1, 3])
def test_attention_of_every_row_is_that_of_a_forced_pass(
    beam_size: int, translator: Translator, sentences: list[tuple[str, str]]
) -> None:
    """After reordering, in a batch padded to its longest sentence, and after sentences and hypotheses have finished."""
    model, config = translator.model, translator.config
    sources = [translator.tokenizer.encode(text) for text in ("Hi.", SENTENCE, sentences[0][0])]
    names = [
        f"decoder.{layer}.{kind}.pattern"
        for layer in range(config.decoder_layers)
        for kind in ("self_attn", "cross_attn")
    ]
    options = SearchOptions(beam_size=beam_size, nbest=beam_size)
    plain, state = start(model, sources, options.coverage_penalty > 0.0)
    compared = 0

    def step(last: Tensor, state: Watched) -> tuple[Tensor, Watched]:
        nonlocal compared
        fed = torch.cat((state.fed, last[:, None]), dim=1)
        recorder = Recorder(names)
        with watching(recorder):
            log_probs, inner = plain(last, state.inner)
        for row, (number, prefix) in enumerate(zip(state.sources.tolist(), fed.tolist(), strict=True)):
            expected = capture(model, sources[number], prefix, names)
            length = len(sources[number])
            for name in names:
                found, whole = recorder.values[name][row, :, 0], expected[name][:, -1]
                width = whole.shape[-1]
                np.testing.assert_allclose(found[:, :width], whole, atol=1e-5)
                assert (found[:, width:] == 0.0).all()  # nothing on the padding of the batch
            assert width == length  # the last name is a cross-attention
            compared += 1
        return log_probs, Watched(inner, state.sources, fed)

    begin = Watched(state, torch.arange(len(sources)), torch.empty(len(sources), 0, dtype=torch.int64))
    found = beam_search(step, begin, [3, 6, 9], options)
    assert compared > 9 * beam_size
    plain_found = beam_search(plain, state, [3, 6, 9], options)
    assert [[one.tokens for one in several] for several in found] == [
        [one.tokens for one in several] for several in plain_found
    ]
    assert SOS_ID not in found[0][0].tokens


def test_attention_of_a_node_is_that_of_inspecting_its_prefix(translator: Translator) -> None:
    """What a page shows for a node: the last row of the map of its prefix is the row that the search looked with."""
    trace = translator.trace_beams(SENTENCE, beam_size=3, max_extra=0)
    for index in trace.at_step(4):
        prefix = trace.tokens(index)
        record = translator.inspect(SENTENCE, target_ids=prefix)
        steps = translator.steps(SENTENCE, prefix)
        assert tuple(piece.id for piece in record.target_output) == prefix
        for position in range(4):
            np.testing.assert_allclose(steps[position].cross, record.cross[:, :, position], atol=1e-5)
            chosen = steps[position].chosen
            assert chosen is not None
            assert chosen.log_prob == pytest.approx(trace.log_probs(index)[position], abs=1e-4)
