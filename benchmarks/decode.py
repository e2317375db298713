"""Decoding speed on a CPU: this product's search against Hugging Face's ``generate`` and CTranslate2.

All systems hold the same weights (random ones: time does not depend on them) and translate the same sentences, in
turns, each in a process of its own that rests meanwhile. Where a model stops depends on its weights, so every sentence
is given the length of its reference and nobody may stop earlier or later. The figure is target pieces a second over all
sentences, and milliseconds for one sentence of 13 words. Made-up pairs have the lengths of Multi30k, so that anybody
can run this; --data DIR takes the sentences of test2016 in the pieces of the shipped model.

ours          ``transformer.decoding``, batches by length, float32
marian        ``MarianMTModel.generate`` with its cache; sentences of equal length together, at most --marian-batch
ct2-float32   CTranslate2, its own batches of at most --ct2-batch
ct2-int8      the same with int8 weights

The others need: pip install -r benchmarks/requirements.txt
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the product, from whatever folder this is run

from benchmarks.baselines import marian_is_installed
from benchmarks.common import (
    count,
    emit,
    interleave,
    leave,
    other_cpu,
    parser,
    ratios,
    tell,
    usage,
    wait_until_quiet,
)
from benchmarks.pairs import CAPTIONS, multi30k_test, synthetic
from benchmarks.peers import ctranslate2_is_installed, ctranslate2_of, marian_of, piece_names
from benchmarks.worker import Worker
from transformer.config import EOS_ID, SOS_ID, ModelConfig
from transformer.decoding.batch import TOKEN_BUDGET, batches_by_length
from transformer.decoding.beam import beam_search
from transformer.decoding.options import SearchOptions
from transformer.decoding.step import start
from transformer.nn.model import Transformer
from transformer.text.batching import Example

PRESETS = ("tiny", "small", "base")
VOCABULARY = 8_000
"""Pieces; the shipped models have 8,000 and 10,000."""
SYSTEMS = ("ours", "marian", "ct2-float32", "ct2-int8")
SENTENCE = ([SOS_ID, *range(100, 115), EOS_ID], list(range(200, 215)))
"""Thirteen words are about fifteen pieces."""
MODES = {"greedy": 1, "beam 5": 5}

Decode = Callable[[Sequence[Example], int], list[list[int]]]
"""Translate: (pairs, beam size) -> the pieces written for each, as many as its reference has."""


class Ours:
    """The search as ``translate_many`` runs it, kept from writing <EOS>."""

    def __init__(self, model: Transformer, budget: int) -> None:
        self._model, self._budget = model, budget

    def __call__(self, pairs: Sequence[Example], beam_size: int) -> list[list[int]]:
        options = SearchOptions(beam_size=beam_size)
        written: list[list[int]] = [[] for _ in pairs]
        for batch in batches_by_length([len(source) for source, _ in pairs], beam_size, self._budget):
            step, state = start(self._model, [pairs[index][0] for index in batch])

            def endless(last: torch.Tensor, state: Any, step: Any = step) -> tuple[torch.Tensor, Any]:
                log_probs, state = step(last, state)
                log_probs[:, EOS_ID] = -math.inf
                return log_probs, state

            limits = [len(pairs[index][1]) for index in batch]
            for index, found in zip(batch, beam_search(endless, state, limits, options), strict=True):
                written[index] = list(found[0].tokens)
        return written


class Marian:
    """``generate`` with a cache; without an end it writes exactly as many pieces as it is told to."""

    def __init__(self, model: Transformer, batch: int) -> None:
        self._model, self._batch = marian_of(model).model, batch

    def __call__(self, pairs: Sequence[Example], beam_size: int) -> list[list[int]]:
        written: list[list[int]] = [[] for _ in pairs]
        for length, batch in equal_lengths(pairs, self._batch):
            longest = max(len(pairs[index][0]) for index in batch)
            rows = [pairs[index][0] + [0] * (longest - len(pairs[index][0])) for index in batch]
            source = torch.tensor(rows)
            with torch.inference_mode():
                found = self._model.generate(
                    source,
                    attention_mask=(source != 0).long(),
                    num_beams=beam_size,
                    do_sample=False,
                    eos_token_id=None,
                    min_new_tokens=length,
                    max_new_tokens=length,
                )
            for index, row in zip(batch, found.tolist(), strict=True):
                written[index] = row[1:]
        return written


class CTranslate2:
    """``translate_batch``; as a call has one length for all, sentences of equal length go together."""

    def __init__(self, translator: Any, vocabulary: int, batch: int) -> None:
        self._translator, self._batch = translator, batch
        self._names = piece_names(vocabulary)
        self._numbers = {name: number for number, name in enumerate(self._names)}

    def __call__(self, pairs: Sequence[Example], beam_size: int) -> list[list[int]]:
        written: list[list[int]] = [[] for _ in pairs]
        for length, batch in equal_lengths(pairs, len(pairs)):
            found = self._translator.translate_batch(
                [[self._names[piece] for piece in pairs[index][0]] for index in batch],
                max_batch_size=self._batch,
                beam_size=beam_size,
                length_penalty=0.6,
                min_decoding_length=length,
                max_decoding_length=length,
            )
            for index, result in zip(batch, found, strict=True):
                written[index] = [self._numbers[name] for name in result.hypotheses[0]]
        return written


def equal_lengths(pairs: Sequence[Example], most: int) -> Iterator[tuple[int, list[int]]]:
    """Sentences whose references are equally long, at most so many together: (length, their indices), by source."""
    order = sorted(range(len(pairs)), key=lambda index: (len(pairs[index][1]), len(pairs[index][0])))
    for length, group in itertools.groupby(order, key=lambda index: len(pairs[index][1])):
        together = list(group)
        for first in range(0, len(together), most):
            yield length, together[first : first + most]


def build(system: str, preset: str, batches: dict[str, int], threads: int) -> Decode:
    """A system that holds the weights that belong to a preset."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = Transformer(ModelConfig.preset(preset, VOCABULARY)).eval()
    if system == "ours":
        return Ours(model, batches["ours"])
    if system == "marian":
        return Marian(model, batches["marian"])
    with tempfile.TemporaryDirectory() as folder:  # it is read when it is opened
        translator = ctranslate2_of(model, Path(folder) / system, system.removeprefix("ct2-"), threads)
    return CTranslate2(translator, model.config.vocab_size, batches["ct2"])


def answering(
    system: str, preset: str, pairs: Sequence[Example], batches: dict[str, int], threads: int
) -> Callable[[str, int], float]:
    """What a worker does: ("all", beam size) -> target pieces a second, ("one", beam size) -> milliseconds."""
    decode = build(system, preset, batches, threads)
    for beam_size in MODES.values():  # what is met for the first time is prepared before anything is measured
        decode(pairs[: max(1, len(pairs) // 8)], beam_size)

    def answer(what: str, beam_size: int) -> float:
        return speed(decode, pairs, beam_size) if what == "all" else latency(decode, beam_size)

    return answer


def speed(decode: Decode, pairs: Sequence[Example], beam_size: int) -> float:
    """Target pieces a second."""
    started = time.perf_counter()
    written = decode(pairs, beam_size)
    return sum(len(one) for one in written) / (time.perf_counter() - started)


def latency(decode: Decode, beam_size: int, times: int = 5) -> float:
    """Milliseconds for ``SENTENCE``, the median of several times."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        decode([SENTENCE], beam_size)
        taken.append(time.perf_counter() - started)
    return 1000.0 * statistics.median(taken)


def compare(systems: Mapping[str, Callable[[], float]], rounds: int, unit: str, **about: Any) -> dict[str, float]:
    """Let the systems take turns and print a line for each; how many times as quick as each other one ours is."""
    before = usage()
    figures = interleave({name: lambda _, turn=turn: turn() for name, turn in systems.items()}, rounds)
    others = other_cpu(before, usage())
    digits = 1 if unit == "ms" else 0
    for name, values in figures.items():
        emit(
            benchmark="decode",
            system=name,
            **about,
            value=round(statistics.median(values), digits),
            unit=unit,
            other_cpu=others,
            lowest=round(min(values), digits),
            highest=round(max(values), digits),
            rounds=rounds,
        )
    if unit == "ms":  # less is quicker
        figures = {name: [1.0 / value for value in values] for name, values in figures.items()}
    return ratios(figures, "ours")


def measure(
    preset: str, systems: Sequence[str], pairs: Sequence[Example], rounds: int, batches: dict[str, int], threads: int
) -> dict[str, dict[str, float]]:
    """Every mode of one preset; the ratios by mode."""
    found = {}
    with contextlib.ExitStack() as open_ones:
        built = {
            system: open_ones.enter_context(Worker(answering, system, preset, pairs, batches, threads))
            for system in systems
        }
        for mode, beam_size in MODES.items():
            about = {"preset": preset, "threads": threads}
            found[mode] = compare(
                {name: partial(worker, "all", beam_size) for name, worker in built.items()},
                rounds,
                "target tokens/s",
                mode=mode,
                sentences=len(pairs),
                **about,
            )
            alone = f"one sentence, {mode}"
            found[alone] = compare(
                {name: partial(worker, "one", beam_size) for name, worker in built.items()},
                rounds,
                "ms",
                mode=alone,
                **about,
            )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; the exit status."""
    options = parser(__doc__)
    options.add_argument("--preset", nargs="+", choices=PRESETS, default=["tiny", "small"])
    options.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM")
    options.add_argument("--rounds", type=count, default=5, help="turns of every system (5)")
    options.add_argument("--sentences", type=count, default=1000, help="how many (1000)")
    options.add_argument("--budget", type=count, default=TOKEN_BUDGET, help=f"of our batches ({TOKEN_BUDGET})")
    options.add_argument("--marian-batch", type=count, default=64, help="sentences together (64)")
    options.add_argument("--ct2-batch", type=count, default=64, help="sentences together (64)")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options.add_argument("--threads", type=count, default=min(2, cores), help="of every system (2, or 1 on one core)")
    options.add_argument("--data", type=Path, help="folder of Multi30k, to use its sentences")
    chosen = options.parse_args(arguments)
    systems = list(dict.fromkeys(chosen.systems))
    for system in [*systems]:
        there = marian_is_installed() if system == "marian" else system == "ours" or ctranslate2_is_installed()
        if not there:
            tell(f"{system} is left out: it needs pip install -r benchmarks/requirements.txt")
            systems.remove(system)
    pairs = multi30k_test(chosen.data) if chosen.data else synthetic(chosen.sentences, VOCABULARY, CAPTIONS)
    batches = {"ours": chosen.budget, "marian": chosen.marian_batch, "ct2": chosen.ct2_batch}
    found = {}
    for preset in dict.fromkeys(chosen.preset):
        wait_until_quiet(chosen.patience, chosen.noisy)
        found[preset] = measure(preset, systems, pairs[: chosen.sentences], chosen.rounds, batches, chosen.threads)
    emit(ratios=found)
    return 0


if __name__ == "__main__":
    leave(main)
