"""The one door: what it answers is consistent with itself, with any number of threads, for any text."""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch

import transformer
from transformer import engine, results
from transformer.capture.record import KINDS, AttentionRecord
from transformer.decoding.step import start
from transformer.engine import CacheSizes, Intervention, SamplingOptions, Translator, cache_sizes
from transformer.errors import CheckpointError, InputError
from transformer.nn.probe import Probe

SENTENCE = "Two dogs run through the tall grass."
ODD = [
    "a",
    "🐕🐕",
    "<b>bold</b>",
    "</s>",
    "<SOS> <EOS> <PAD>",
    "$x_1$",
    "مرحبا بالعالم",
    "tabs\tand\nnewlines\r\n",
    "dog dog dog dog dog dog dog dog dog dog",
    "2019 2020",
    "  spaces  around  ",
    "a\u0301 e\u0301 ﬁ ½",
    "nul \0 inside",
    "half a pair \ud83d",
    "zero\u200bwidth",
]


def test_plain_fields_are_those_of_the_best_hypothesis(translator: Translator) -> None:
    found = translator.translate(SENTENCE, beam_size=4)
    assert len(found.hypotheses) == 4
    best = found.hypotheses[0]
    assert (found.text, found.tokens, found.ids, found.score) == (best.text, best.tokens, best.ids, best.score)
    assert found.source_text == SENTENCE
    assert [piece.id for piece in found.source] == translator.tokenizer.encode(SENTENCE)
    assert found.seconds > 0
    scores = [hypothesis.score for hypothesis in found.hypotheses]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_numbers_of_a_hypothesis_belong_together(alpha: float, translator: Translator) -> None:
    for hypothesis in translator.translate(SENTENCE, length_penalty=alpha).hypotheses:
        assert len(hypothesis.ids) == len(hypothesis.log_probs) == len(hypothesis.pieces) == len(hypothesis.tokens)
        assert [piece.id for piece in hypothesis.pieces] == list(hypothesis.ids)
        assert hypothesis.total_log_prob == pytest.approx(math.fsum(hypothesis.log_probs), rel=1e-5)
        penalty = ((5 + len(hypothesis.ids)) / 6) ** alpha
        assert hypothesis.score == pytest.approx(hypothesis.total_log_prob / penalty, rel=1e-5)
        assert hypothesis.finished == (hypothesis.ids[-1] == 3)
        assert hypothesis.text == translator.tokenizer.decode(hypothesis.ids)


def test_inspection_agrees_with_the_search_on_every_hypothesis(translator: Translator) -> None:
    for hypothesis in translator.translate(SENTENCE).hypotheses:
        record = translator.inspect(SENTENCE, target_ids=hypothesis.ids)
        np.testing.assert_allclose(record.log_probs, hypothesis.log_probs, atol=1e-4)
        assert record.total_log_prob == pytest.approx(hypothesis.total_log_prob, abs=1e-3)
        assert record.target_output == hypothesis.pieces
        assert record.target_text == hypothesis.text


def test_the_own_translation_is_inspected_as_the_ids_it_wrote(translator: Translator) -> None:
    record = translator.inspect(SENTENCE, beam_size=3, length_penalty=1.0)
    found = translator.translate(SENTENCE, beam_size=3, length_penalty=1.0)
    assert tuple(piece.id for piece in record.target_output) == found.ids
    assert record.target_text == found.text
    assert record.checkpoint_sha256 == translator.sha256


def test_a_search_has_the_length_penalty_of_the_checkpoint_unless_another_is_asked(
    translator: Translator, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "own"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"length_penalty": 2.5}))
    own = transformer.load(folder)
    assert (own.length_penalty, translator.length_penalty) == (2.5, 0.6)
    wanted = [hypothesis.score for hypothesis in translator.translate(SENTENCE, length_penalty=2.5).hypotheses]
    assert wanted != [hypothesis.score for hypothesis in translator.translate(SENTENCE).hypotheses]
    assert [hypothesis.score for hypothesis in own.translate(SENTENCE).hypotheses] == pytest.approx(wanted)
    assert [one.score for one in own.translate_many([SENTENCE], nbest=5)[0].hypotheses] == pytest.approx(wanted)
    assert own.beam_widths(SENTENCE, [5])[0].best.score == pytest.approx(wanted[0])
    trace = own.trace_beams(SENTENCE)
    assert trace.nodes[trace.hypotheses[0]].score == pytest.approx(wanted[0])
    assert own.inspect(SENTENCE).target_text == translator.translate(SENTENCE, length_penalty=2.5).text
    papers = translator.translate(SENTENCE).best.score
    assert own.translate(SENTENCE, length_penalty=0.6).best.score == pytest.approx(papers)


def test_score_and_inspect_agree(translator: Translator) -> None:
    scored = translator.score(SENTENCE, "Zwei Hunde rennen.")
    record = translator.inspect(SENTENCE, target="Zwei Hunde rennen.")
    assert scored.log_probs == tuple(map(float, record.log_probs))
    assert scored.total_log_prob == pytest.approx(record.total_log_prob)
    assert scored.pieces[-1].label == "<EOS>"


def test_arithmetic_ends_at_the_row_of_the_map(translator: Translator) -> None:
    record = translator.inspect(SENTENCE)
    ids = [piece.id for piece in record.target_output]
    for kind in KINDS:
        found = translator.arithmetic(SENTENCE, ids, kind, np.int64(1), 2, 3)
        assert found.ok
        np.testing.assert_allclose(found.weights, record.attention(kind)[1, 2, 3], atol=1e-6)
        assert len(found.weights) == len(record.axes(kind)[1])


def test_arithmetic_of_a_prefix_is_that_of_the_whole(translator: Translator) -> None:
    ids = translator.translate(SENTENCE).ids
    whole = translator.arithmetic(SENTENCE, ids, "decoder", 1, 0, 2)
    prefix = translator.arithmetic(SENTENCE, ids[:3], "decoder", 1, 0, 2)
    np.testing.assert_allclose(prefix.share, whole.share, atol=1e-5)


def test_the_trace_holds_the_hypotheses_of_translate(translator: Translator) -> None:
    found = translator.translate(SENTENCE, beam_size=3)
    trace = translator.trace_beams(SENTENCE, beam_size=3)
    assert [trace.tokens(node) for node in trace.hypotheses] == [hypothesis.ids for hypothesis in found.hypotheses]
    for node, hypothesis in zip(trace.hypotheses, found.hypotheses, strict=True):
        assert trace.log_probs(node) == hypothesis.log_probs
        assert tuple(trace.nodes[index].piece for index in trace.path(node)[1:]) == hypothesis.tokens


def test_more_alternatives_do_not_change_the_best(translator: Translator) -> None:
    best = translator.translate(SENTENCE, nbest=1)
    assert len(best.hypotheses) == 1
    assert translator.translate(SENTENCE, nbest=5).ids == best.ids


def test_many_together_equal_each_alone(translator: Translator, sentences: list[tuple[str, str]]) -> None:
    texts = [source for source, _ in sentences]
    done: list[int] = []
    together = translator.translate_many(texts, max_extra=5, progress=done.append)
    assert sum(done) == len(texts)
    assert [found.source_text for found in together] == texts
    for text, found in zip(texts, together, strict=True):
        alone = translator.translate(text, max_extra=5)
        assert found.score == pytest.approx(alone.score, abs=1e-4)
        assert found.text == alone.text
    assert translator.translate_many([]) == []


# ---------------------------------------------------------------------------------------------------- steered


def test_every_hypothesis_begins_with_the_prefix(translator: Translator) -> None:
    prefix = translator.ids_of("Zwei Hunde")
    assert prefix == tuple(translator.tokenizer.encode_target("Zwei Hunde"))
    found = translator.translate(SENTENCE, beam_size=3, prefix_ids=prefix)
    assert len(found.hypotheses) == 3
    for hypothesis in found.hypotheses:
        assert hypothesis.ids[: len(prefix)] == prefix
        record = translator.inspect(SENTENCE, target_ids=hypothesis.ids)
        np.testing.assert_allclose(record.log_probs, hypothesis.log_probs, atol=1e-4)
    trace = translator.trace_beams(SENTENCE, beam_size=3, prefix_ids=prefix)
    assert trace.forced == len(prefix)
    assert [trace.tokens(node) for node in trace.hypotheses] == [hypothesis.ids for hypothesis in found.hypotheses]


def test_a_complete_prefix_is_the_translation(translator: Translator) -> None:
    ids = (*translator.ids_of("Zwei Hunde."), 3)
    found = translator.translate(SENTENCE, prefix_ids=ids)
    assert [(hypothesis.ids, hypothesis.finished) for hypothesis in found.hypotheses] == [(ids, True)]
    assert found.score == pytest.approx(found.total_log_prob / ((5 + len(ids)) / 6) ** 0.6)
    assert translator.sample(SENTENCE, SamplingOptions(), ids).ids == ids


def test_a_prefix_may_be_as_long_as_the_model_has_positions(translator: Translator) -> None:
    ids = (9,) * 64
    assert translator.translate(SENTENCE, prefix_ids=ids).ids == ids
    assert translator.sample(SENTENCE, SamplingOptions(max_extra=0), ids).ids == ids
    assert len(translator.steps(SENTENCE, ids)) == 64  # no position is left to write one more
    assert len(translator.steps(SENTENCE, ids[:63])) == 64


def test_options_reach_the_search(translator: Translator) -> None:
    options = {"beam_size": 2, "no_repeat_ngram": 1, "coverage_penalty": 0.2}
    found = translator.translate(SENTENCE, **options)
    assert translator.translate_many([SENTENCE], nbest=None, **options)[0].hypotheses == found.hypotheses
    for hypothesis in found.hypotheses:
        assert len(set(hypothesis.ids)) == len(hypothesis.ids)
        assert hypothesis.coverage <= 0.0
        expected = hypothesis.total_log_prob / ((5 + len(hypothesis.ids)) / 6) ** 0.6 + hypothesis.coverage
        assert hypothesis.score == pytest.approx(expected, rel=1e-5)
    trace = translator.trace_beams(SENTENCE, **options)
    assert [trace.tokens(node) for node in trace.hypotheses] == [hypothesis.ids for hypothesis in found.hypotheses]


def test_a_search_for_each_beam_width(translator: Translator) -> None:
    found = translator.beam_widths(SENTENCE, (1, 3), max_extra=3)
    assert [one.ids for one in found] == [
        translator.translate(SENTENCE, beam_size=width, max_extra=3).ids for width in (1, 3)
    ]
    assert all(len(one.hypotheses) == 1 for one in found)


def test_a_drawn_translation_is_scored_by_the_model(translator: Translator) -> None:
    options = SamplingOptions(temperature=1.5, top_k=20, top_p=0.9, seed=4, max_extra=0)
    drawn = translator.sample(SENTENCE, options)
    assert drawn == translator.sample(SENTENCE, options)
    record = translator.inspect(SENTENCE, target_ids=drawn.ids)
    np.testing.assert_allclose(record.log_probs, drawn.log_probs, atol=1e-4)
    assert drawn.score == drawn.total_log_prob == pytest.approx(record.total_log_prob, abs=1e-3)
    assert translator.sample(SENTENCE, options, drawn.ids[:2]).ids == drawn.ids
    assert len({translator.sample(SENTENCE, SamplingOptions(seed=seed, max_extra=0)).ids for seed in range(4)}) > 1


# ---------------------------------------------------------------------------------------------------- steps


def test_steps_are_the_rows_of_the_record(translator: Translator) -> None:
    found = translator.translate(SENTENCE, beam_size=2, max_extra=2)
    record = translator.inspect(SENTENCE, target_ids=found.ids)
    steps = translator.steps(SENTENCE, found.ids, count=200)
    extra = 0 if found.best.finished else 1
    assert [step.position for step in steps] == list(range(len(found.ids) + extra))
    for step, piece, log_prob in zip(steps, found.ids, record.log_probs, strict=False):
        assert step.chosen is not None
        assert (step.chosen.piece.id, step.chosen.log_prob) == (piece, pytest.approx(float(log_prob), abs=1e-4))
        assert step.candidates[step.chosen.rank] == step.chosen
        np.testing.assert_allclose(step.cross, record.cross[:, :, step.position], atol=1e-5)
        assert not step.cross.flags.writeable
        assert [one.rank for one in step.candidates] == list(range(197))  # all but the three that are never written
        shown = [one.probability for one in step.candidates]
        assert shown == sorted(shown, reverse=True)
        assert math.fsum(shown) + step.rest == pytest.approx(1.0, abs=1e-5)
        assert 0.0 < step.entropy < math.log(200)


def test_greedy_search_takes_the_first_candidate_of_every_step(translator: Translator) -> None:
    found = translator.translate(SENTENCE, beam_size=1, max_extra=0)
    steps = translator.steps(SENTENCE, found.ids, count=3)
    assert [step.candidates[0].piece.id for step in steps[: len(found.ids)]] == list(found.ids)
    assert all(len(step.candidates) == 3 for step in steps)
    assert [step.chosen.rank for step in steps if step.chosen] == [0] * len(found.ids)


def test_the_last_step_of_a_beginning_has_chosen_nothing(translator: Translator) -> None:
    (first,) = translator.steps(SENTENCE, ())
    assert (first.position, first.chosen, len(first.candidates)) == (0, None, 10)
    whole = translator.steps(SENTENCE, (9, 12, 3))
    assert [step.chosen is None for step in whole] == [False] * 3
    beginning = translator.steps(SENTENCE, (9, 12))
    assert [step.chosen is None for step in beginning] == [False, False, True]
    for one, other in zip(whole, beginning, strict=True):
        assert one.candidates == other.candidates
        np.testing.assert_array_equal(one.cross, other.cross)


def test_an_intervention_changes_the_step_that_it_is_made_at(translator: Translator) -> None:
    plain = translator.steps(SENTENCE, (9, 12))
    same = translator.steps(SENTENCE, (9, 12), intervention=Intervention())
    assert [step.candidates for step in plain] == [step.candidates for step in same]
    changed = translator.steps(SENTENCE, (9, 12), intervention=Intervention(forced=2))
    assert [step.candidates for step in changed[:2]] == [step.candidates for step in plain[:2]]
    assert changed[2].candidates != plain[2].candidates
    assert (changed[2].cross[:, :, 2] == 1.0).all()


def test_a_cache_is_as_large_as_it_says(translator: Translator) -> None:
    source = translator.tokenizer.encode(SENTENCE)
    step, state = start(translator.model, [source])
    with torch.inference_mode():
        for _ in range(3):
            _, state = step(torch.tensor([9]), state)

    assert cache_sizes(translator.config, len(source), 3) == CacheSizes(state.source.nbytes, state.own.nbytes)


@pytest.mark.parametrize("text", ODD)
def test_odd_text_can_be_stepped_through_and_forced(text: str, translator: Translator) -> None:
    ids = translator.ids_of(text)[:20]
    assert len(translator.steps(text, ids)) == len(ids) + 1
    assert translator.translate(text, beam_size=2, max_extra=3, prefix_ids=ids).ids[: len(ids)] == ids


def test_an_empty_target_is_a_target(translator: Translator) -> None:
    record = translator.inspect(SENTENCE, target="")
    assert record.ok
    assert (record.target_tokens, record.output_tokens) == (["<SOS>"], ["<EOS>"])
    assert (record.decoder == 1.0).all()


@pytest.mark.parametrize("text", ODD)
def test_odd_text_is_translated_and_inspected(text: str, translator: Translator) -> None:
    record = translator.inspect(text)
    assert record.ok
    assert record.source_text == text
    assert translator.inspect(SENTENCE, target=text).ok


# ---------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u3000"])
def test_empty_text_is_refused(text: str, translator: Translator) -> None:
    for ask in (translator.translate, translator.inspect, translator.trace_beams):
        with pytest.raises(InputError, match="sentence must hold at least one"):
            ask(text)


def test_a_sentence_too_long_is_refused_by_number(translator: Translator) -> None:
    assert translator.max_source_pieces == 64
    fits, too_long = "s" * 61, "s" * 400
    text = " ".join(["dog"] * 300)
    pieces = len(translator.tokenizer.encode(text))
    with pytest.raises(InputError, match=rf"at most 64 pieces.*{pieces}"):
        translator.translate(text)
    with pytest.raises(InputError, match="sentence 2 of 2 must be at most 64"):
        translator.translate_many([fits, too_long])
    with pytest.raises(InputError, match="target must be at most 64"):
        translator.inspect(SENTENCE, target=text)


def test_a_sentence_that_just_fits_is_taken(translator: Translator) -> None:
    text = "a"
    while len(translator.tokenizer.encode(text + " b")) <= 64:
        text += " b"
    assert translator.inspect(text, target=text).ok
    assert translator.translate(text).text is not None


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.translate(SENTENCE, beam_size=0),
        lambda t: t.translate(SENTENCE, beam_size=2, nbest=3),
        lambda t: t.translate(SENTENCE, length_penalty=-1.0),
        lambda t: t.translate(SENTENCE, length_penalty=float("nan")),
        lambda t: t.translate(None),
        lambda t: t.translate(b"bytes"),
        lambda t: t.translate(SENTENCE, coverage_penalty=-1.0),
        lambda t: t.translate(SENTENCE, no_repeat_ngram=-1),
        lambda t: t.translate(SENTENCE, prefix_ids=[3, 9]),
        lambda t: t.translate(SENTENCE, prefix_ids=[10**6]),
        lambda t: t.translate(SENTENCE, prefix_ids=[9] * 65),
        lambda t: t.trace_beams(SENTENCE, prefix_ids=[2]),
        lambda t: t.beam_widths(SENTENCE, [0]),
        lambda t: t.sample("", SamplingOptions()),
        lambda t: t.sample(SENTENCE, SamplingOptions(), [0]),
        lambda t: t.ids_of(5),
        lambda t: t.ids_of("dog " * 300),
        lambda t: t.steps("", []),
        lambda t: t.steps(SENTENCE, [3, 9]),
        lambda t: t.steps(SENTENCE, [9], count=0),
        lambda t: t.steps(SENTENCE, [9], intervention=Intervention(forced=64)),
        lambda t: t.inspect(SENTENCE, target=5),
        lambda t: t.inspect(SENTENCE, target="a", target_ids=[9, 3]),
        lambda t: t.inspect(SENTENCE, target_ids=[]),
        lambda t: t.inspect(SENTENCE, target_ids=[2, 9]),
        lambda t: t.inspect(SENTENCE, target_ids=[0]),
        lambda t: t.inspect(SENTENCE, target_ids=[3, 9]),
        lambda t: t.inspect(SENTENCE, target_ids=[-1]),
        lambda t: t.inspect(SENTENCE, target_ids=[10**6]),
        lambda t: t.inspect(SENTENCE, target_ids=[9] * 65),
        lambda t: t.arithmetic("", [9, 3], "cross", 0, 0, 0),
        lambda t: t.arithmetic(SENTENCE, [], "cross", 0, 0, 0),
        lambda t: t.arithmetic(SENTENCE, [9, 3], "both", 0, 0, 0),
        lambda t: t.arithmetic(SENTENCE, [9, 3], "cross", 2, 0, 0),  # the decoder has fewer layers than the encoder
        lambda t: t.arithmetic(SENTENCE, [9, 3], "encoder", 3, 0, 0),
        lambda t: t.arithmetic(SENTENCE, [9, 3], "encoder", -1, 0, 0),
        lambda t: t.arithmetic(SENTENCE, [9, 3], "encoder", True, 0, 0),
        lambda t: t.arithmetic(SENTENCE, [9, 3], "encoder", 0, 4, 0),
        lambda t: t.arithmetic(SENTENCE, [9, 3], "cross", 0, 0, 2),
        lambda t: t.arithmetic(SENTENCE, [9, 3], "encoder", 0, 0, 64),
        lambda t: t.arithmetic(SENTENCE, [9, 3], "cross", 0, 0, 0.0),
    ],
)
def test_what_no_model_can_do_is_refused_in_one_sentence(ask: Callable[[Any], object], translator: Translator) -> None:
    with pytest.raises(InputError) as error:
        ask(translator)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


def test_what_is_no_checkpoint_is_refused() -> None:
    with pytest.raises(CheckpointError):
        transformer.load("no-such-model")


# ---------------------------------------------------------------------------------------------------- threads


def _same(one: AttentionRecord, other: AttentionRecord) -> bool:
    return (
        one.target_output == other.target_output
        and np.array_equal(one.log_probs, other.log_probs)
        and all(np.array_equal(one.attention(kind), other.attention(kind)) for kind in KINDS)
    )


def test_a_hundred_threads_each_get_what_a_lone_call_gives(
    translator: Translator, sentences: list[tuple[str, str]]
) -> None:
    words = sorted({word for source, _ in sentences for word in source.split()})
    generator = random.Random(1)
    texts = [" ".join(generator.choices(words, k=3 + number % 9)) for number in range(100)]
    assert len(set(texts)) == 100
    alone = [translator.inspect(text, beam_size=1, max_extra=0) for text in texts]
    together = Barrier(100)

    def ask(text: str) -> AttentionRecord:
        together.wait()
        return translator.inspect(text, beam_size=1, max_extra=0)

    with ThreadPoolExecutor(100) as pool:
        at_once = list(pool.map(ask, texts))
    for text, one, other in zip(texts, alone, at_once, strict=True):
        assert other.source_text == text
        assert other.ok
        assert _same(one, other), text


def test_hooks_are_registered_once(tiny_checkpoint: Path) -> None:
    model = transformer.load(tiny_checkpoint)
    model.inspect(SENTENCE)
    model.inspect(SENTENCE)
    for probe in model.model.modules():
        if isinstance(probe, Probe):
            assert len(probe._forward_hooks) == 1


# ---------------------------------------------------------------------------------------------------- package


def test_a_translator_says_what_it_is(translator: Translator) -> None:
    assert translator.name == "tiny"
    assert translator.languages["target"] == "German"
    assert translator.examples == ("A man is standing on a ladder.", "Two dogs run.")
    assert translator.config.encoder_layers == 3
    assert len(translator.sha256) == 64
    assert translator.parameter_count == sum(p.numel() for p in translator.model.parameters())


def test_results_can_be_imported_from_the_engine() -> None:
    for name in ("ScoredTarget", "Translation", "TranslationHypothesis"):
        assert getattr(engine, name) is getattr(results, name) is getattr(transformer, name)
    for name in ("CacheSizes", "Candidate", "DecodingStep", "cache_sizes"):
        assert getattr(engine, name) is getattr(results, name)


def test_public_names_exist_and_importing_them_is_cheap() -> None:
    program = (
        "import sys, transformer; assert 'torch' not in sys.modules; "
        "import transformer.capture, transformer.decoding.trace; assert 'torch' not in sys.modules; "
        "[getattr(transformer, name) for name in transformer.__all__]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    with pytest.raises(AttributeError, match="nothing"):
        transformer.nothing  # noqa: B018
