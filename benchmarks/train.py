"""Training speed on a CPU: this product's step against PyTorch's nn.Transformer and Hugging Face's MarianMTModel.

One step is forward, label-smoothed loss, backward, clipping and Adam. All systems have the same sizes, tied embeddings
and sinusoidal positions, and see exactly the same batches, in turns within one process. Made-up pairs have the lengths
of Multi30k, so that anybody can run this; --data DIR takes the corpus itself. The figure is real target pieces a
second; padding is not counted.

ours          the trainer's own step, in the precision that it chooses for this processor
ours-dropout  the same with dropout also on attention weights and activations, as nn.Transformer has it (not by default)
torch-fp32    nn.Transformer, as in PyTorch's tutorial
torch-bf16    the same under bfloat16 autocast
marian-bf16   MarianMTModel under bfloat16 autocast; needs: pip install -r benchmarks/requirements.txt
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the product, from whatever folder this is run

from benchmarks.baselines import Marian, TorchTransformer, marian_is_installed, training_step
from benchmarks.common import (
    count,
    emit,
    interleave,
    leave,
    other_cpu,
    parser,
    ratios,
    read_usage,
    tell,
    wait_until_quiet,
)
from benchmarks.pairs import CAPTIONS, multi30k, padding, synthetic
from transformer.config import ModelConfig
from transformer.nn.model import Transformer
from transformer.text.batching import Batch, collate, make_batches
from transformer.training.allocator import keep_memory
from transformer.training.precision import use_bfloat16
from transformer.training.recipe import TrainingSection
from transformer.training.step import Stepper

VOCABULARIES = {"tiny": 10_000, "small": 8_000}
"""Pieces by preset."""
SYSTEMS = ("ours", "ours-dropout", "torch-fp32", "torch-bf16", "marian-bf16")
USUAL = tuple(system for system in SYSTEMS if system != "ours-dropout")
PAIRS = 29_000
"""As many as Multi30k has: how well lengths fit into a batch depends on it."""
HALVES = 2
"""Turns until the batches come again. Every system sees all of them once before anything is measured: a shape that is
met for the first time costs oneDNN and the allocator a preparation that later epochs, which have the same fifty shapes,
find done."""
SETTINGS = TrainingSection(device="cpu")
"""A recipe's defaults: 4,096 tokens a batch, label smoothing 0.1, clipping at 1, precision "auto"."""

Step = Callable[[Batch], float]


def build(system: str, config: ModelConfig) -> Step:
    """A fresh model of a system, as the function that trains it on a batch and returns the loss."""
    torch.manual_seed(1)
    if system.startswith("ours"):
        if system == "ours-dropout":
            config = dataclasses.replace(config, attention_dropout=config.dropout, activation_dropout=config.dropout)
        stepper = Stepper(Transformer(config), SETTINGS, torch.device("cpu"))
        return lambda batch: stepper.update([batch]).loss
    model = Marian(config) if system == "marian-bf16" else TorchTransformer(config)
    return training_step(model, system.endswith("bf16"), SETTINGS.label_smoothing, SETTINGS.clip_norm)


def precision(system: str) -> str:
    """What a system multiplies in."""
    if system.startswith("ours"):
        return "bfloat16" if use_bfloat16(SETTINGS.precision, torch.device("cpu")) else "float32"
    return "bfloat16" if system.endswith("bf16") else "float32"


def speed(step: Step, batches: Sequence[Batch], clock: Callable[[], float] = time.perf_counter) -> float:
    """Real target pieces a second over some batches."""
    started = clock()
    for batch in batches:
        step(batch)
    return sum(batch.target_tokens for batch in batches) / (clock() - started)


def chosen_batches(data: Path | None, vocab_size: int, number: int) -> list[Batch]:
    """The first batches of the first epoch, as the trainer makes them; again from the first if it has fewer."""
    examples = multi30k(data, vocab_size) if data else synthetic(PAIRS, vocab_size, CAPTIONS, SETTINGS.seed)
    planned = make_batches(examples, SETTINGS.batch_tokens, SETTINGS.seed)
    return [collate(examples, planned[index % len(planned)]) for index in range(number)]


def measure(preset: str, systems: Sequence[str], rounds: int, steps: int, data: Path | None) -> dict[str, float]:
    """Print a line for each system on one preset; the ratios of ours to each other one."""
    config = ModelConfig.preset(preset, VOCABULARIES[preset])
    batches = chosen_batches(data, config.vocab_size, HALVES * steps)
    built = {system: build(system, config) for system in systems}
    for step in built.values():
        speed(step, batches)
    turns = {
        system: lambda turn, step=step: speed(step, batches[turn % HALVES * steps :][:steps])
        for system, step in built.items()
    }
    before = read_usage()
    figures = interleave(turns, rounds)
    others = other_cpu(before, read_usage())
    for system, values in figures.items():
        emit(
            benchmark="train",
            system=system,
            preset=preset,
            value=round(statistics.median(values)),
            unit="target tokens/s",
            threads=torch.get_num_threads(),
            other_cpu=others,
            lowest=round(min(values)),
            highest=round(max(values)),
            rounds=rounds,
            steps=steps,
            precision=precision(system),
            vocab_size=config.vocab_size,
            padding=round(padding(batches), 4),
            pairs="Multi30k" if data else "synthetic",
        )
    return ratios(figures, "ours")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; the exit status."""
    options = parser(__doc__)
    options.add_argument("--preset", nargs="+", choices=list(VOCABULARIES), default=list(VOCABULARIES))
    options.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(USUAL), metavar="SYSTEM")
    options.add_argument("--rounds", type=count, default=5, help="turns of every system (5)")
    options.add_argument("--steps", type=count, default=6, help="updates in a turn (6)")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options.add_argument("--threads", type=count, default=min(2, cores), help="of PyTorch (2, or 1 on one core)")
    options.add_argument("--data", type=Path, help="folder of Multi30k, to use its sentences")
    chosen = options.parse_args(arguments)
    torch.set_num_threads(chosen.threads)
    keep_memory()  # as the trainer does; the others share the process, and so the gain
    systems = list(dict.fromkeys(chosen.systems))
    if "marian-bf16" in systems and not marian_is_installed():
        tell("marian-bf16 is left out: it needs pip install -r benchmarks/requirements.txt")
        systems.remove("marian-bf16")
    found = {}
    for preset in dict.fromkeys(chosen.preset):
        wait_until_quiet(chosen.patience, chosen.noisy)
        found[preset] = measure(preset, systems, chosen.rounds, chosen.steps, chosen.data)
    emit(ratios=found)
    return 0


if __name__ == "__main__":
    leave(main)
