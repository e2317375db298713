"""``train --dry-run``: what a run would be, need and take, said before it is begun."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from transformer.config import ModelConfig
from transformer.nn.model import Transformer
from transformer.text.batching import Example, collate, make_batches
from transformer.text.tokenizer import Tokenizer
from transformer.training.cost import batch_flops, mfu, parameter_count, peak_flops, training_memory
from transformer.training.memory import peak_memory
from transformer.training.recipe import Recipe
from transformer.training.step import Stepper

SIZES = 5
"""Updates of so many sizes are timed, from small to large."""
ROUNDS = 10
ENOUGH, MOST = 3.0, 10.0
"""Seconds of timing after which no new round over the sizes begins, and after which one is broken off."""
_LABEL = 20


@dataclass(frozen=True)
class Shape:
    """A padded batch of B pairs, and how much of it is text."""

    rows: int
    source_length: int
    target_length: int
    source_tokens: int
    target_tokens: int

    def flops(self, config: ModelConfig) -> float:
        """Of training on it, padding included."""
        return batch_flops(config, self.rows, self.source_length, self.target_length)

    def real_flops(self, config: ModelConfig) -> float:
        """Of training on its text."""
        return batch_flops(config, self.rows, self.source_tokens / self.rows, self.target_tokens / self.rows)


def describe(
    recipe: Recipe,
    model: Transformer,
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    stepper: Stepper,
    clock: Callable[[], float] = time.perf_counter,
) -> list[str]:
    """Lines for people: sizes, batches, operations, memory, and a forecast of the time. Nothing is written anywhere.

    Args:
        recipe: the run.
        model: its model; the timed updates change it.
        tokenizer: its tokenizer.
        examples: the training pairs in pieces, without those that are too long.
        stepper: what trains the model, in one process.
        clock: the time in seconds.

    Raises:
        TrainingError: an update failed, for example because memory ran out.
    """
    settings, on_gpu = recipe.training, stepper.device.type == "cuda"
    batches = make_batches(examples, settings.batch_tokens, settings.seed, 0)
    multiple = 8 if on_gpu else 1  # as the trainer pads
    shapes = [_shape(examples, batch, multiple) for batch in batches]
    numbers = range(len(batches))
    updates = [numbers[first : first + settings.accumulate] for first in numbers[:: settings.accumulate]]

    def train(update: int) -> float:
        chosen = [collate(examples, batches[number], multiple) for number in updates[update]]
        started = clock()
        stepper.update(chosen)
        if on_gpu:
            torch.cuda.synchronize(stepper.device)
        return clock() - started

    costs = [sum(shapes[number].flops(model.config) for number in update) for update in updates]
    seconds, timed = forecast(train, costs, settings.compile)
    lines = [
        *_sizes(recipe, model.config, tokenizer.vocab_size, shapes, len(updates)),
        *_needs(recipe, model.config, shapes, stepper),
        *_pace(recipe, model.config, shapes, stepper, seconds, timed),
    ]
    return [f"{label:<{_LABEL}} {text}" for label, text in lines]


def forecast(train: Callable[[int], float], costs: Sequence[float], compiled: bool = False) -> tuple[float, int]:
    """Seconds of an epoch, and how many updates were timed for it.

    The updates are sorted by their operations and cut into ``SIZES`` groups of equally many. The one in the middle of a
    group stands for all of it; the median counts when it was timed several times.

    Args:
        train: makes an update, by its number, and gives the seconds that it took.
        costs: operations of each update of an epoch.
        compiled: whether the first updates compile the model.
    """
    order = [int(update) for update in np.argsort(np.array(costs), kind="stable")]
    groups = [group.tolist() for group in np.array_split(order, SIZES) if len(group)]
    times: list[list[float]] = [[] for _ in groups]
    spent = 0.0
    for update in (order[-1], order[0])[: 2 if compiled else 1]:
        train(update)  # to warm up, and with the largest one, because that shows whether memory suffices
    for turn in range(ROUNDS * len(groups)):
        place = turn % len(groups)
        if times[place] and spent > (MOST if place else ENOUGH):  # each is timed once at least
            break
        took = train(groups[place][len(groups[place]) // 2])
        times[place].append(took)
        spent += took
    seconds = sum(len(group) * statistics.median(found) for group, found in zip(groups, times, strict=True))
    return seconds, sum(map(len, times))


def _shape(examples: Sequence[Example], batch: Sequence[int], multiple: int) -> Shape:
    """What ``collate`` makes of a batch."""
    sources = [len(examples[index][0]) for index in batch]
    targets = [len(examples[index][1]) + 1 for index in batch]
    source, target = (-(-max(side) // multiple) * multiple for side in (sources, targets))
    return Shape(len(batch), source, target, sum(sources), sum(targets))


def _sizes(
    recipe: Recipe, config: ModelConfig, pieces: int, shapes: Sequence[Shape], updates: int
) -> Iterator[tuple[str, str]]:
    settings = recipe.training
    yield (
        "model",
        f"{parameter_count(config):,} parameters, {config.encoder_layers} + {config.decoder_layers} layers, d_model "
        f"{config.d_model}, {config.heads} heads, feed_forward {config.feed_forward}",
    )
    yield "vocabulary", f"{pieces:,} pieces ({recipe.tokenizer.model_type})"
    pairs = sum(shape.rows for shape in shapes)
    source, target = sum(shape.source_tokens for shape in shapes), sum(shape.target_tokens for shape in shapes)
    yield (
        "training pairs",
        f"{pairs:,}, of {source / pairs:.1f} source and {target / pairs:.1f} target pieces on average",
    )
    positions = sum(shape.rows * (shape.source_length + shape.target_length) for shape in shapes)
    yield (
        "batches",
        f"{len(shapes):,} an epoch, of at most {settings.batch_tokens:,} tokens on either side; "
        f"{1.0 - (source + target) / positions:.1%} padding",
    )
    every = f", of {settings.accumulate} batches each" if settings.accumulate > 1 else ""
    epochs = settings.epochs
    yield "updates", f"{updates:,} an epoch{every}; {updates * epochs:,} in {epochs} epochs (training.epochs)"
    if recipe.training.r_drop and recipe.training.r_drop_after:
        yield "R-Drop", f"begins after {recipe.training.r_drop_after:,} updates; below are updates with it"
    if recipe.data.subword_sampling:
        yield "subword sampling", "makes the sequences of every epoch longer than they are counted here"


def _needs(recipe: Recipe, config: ModelConfig, shapes: Sequence[Shape], stepper: Stepper) -> Iterator[tuple[str, str]]:
    passes = 2 if recipe.training.r_drop else 1
    flops = passes * sum(shape.real_flops(config) for shape in shapes)
    pieces = sum(shape.target_tokens for shape in shapes)
    yield (
        "operations",
        f"{_scaled(flops / pieces, 'FLOP')} per target piece, {_scaled(flops, 'FLOP')} an epoch (matrix products, "
        "forward and backward, without padding)",
    )

    different = {(passes * shape.rows, shape.source_length, shape.target_length) for shape in shapes}
    on_gpu = stepper.device.type == "cuda"
    memories = (
        training_memory(config, rows * max(source, target), source, target, stepper.bfloat16, on_gpu, len(different))
        for rows, source, target in different
    )
    most = max(memories, key=lambda found: found.total)
    parts = ", ".join(f"{name} {_scaled(size, 'B')}" for name, size in vars(most).items() if size)
    yield "memory", f"about {_scaled(most.total, 'B')} for the largest batch, beside the program: {parts}"


def _pace(
    recipe: Recipe, config: ModelConfig, shapes: Sequence[Shape], stepper: Stepper, seconds: float, timed: int
) -> Iterator[tuple[str, str]]:
    device, epochs = stepper.device, recipe.training.epochs
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    count = torch.get_num_threads()
    threads = f", {count} thread{'s' if count > 1 else ''}" if device.type == "cpu" else ""
    yield "device", f"{card}, {'bfloat16 autocast' if stepper.bfloat16 else 'float32'}{threads}"
    peak = peak_flops(card, torch.bfloat16 if stepper.bfloat16 else torch.float32)
    passes = 2 if recipe.training.r_drop else 1
    share = f", {mfu(passes * sum(shape.flops(config) for shape in shapes), seconds, peak):.0%} MFU" if peak else ""
    target = sum(shape.target_tokens for shape in shapes)
    yield (
        "speed",
        f"{target / seconds:,.0f} target pieces/s{share} in one process, by {timed} timed updates; so far the "
        f"{'GPU' if device.type == 'cuda' else 'process'} held {_scaled(peak_memory(device), 'B')} at most",
    )
    yield (
        "time",
        f"about {_duration(seconds)} an epoch, {_duration(seconds * epochs)} for {epochs} epochs: training only, "
        "without dev evaluations and saving",
    )


def _scaled(value: float, unit: str) -> str:
    """Three digits and a prefix: 1.23 GFLOP."""
    prefixes = ["", "k", "M", "G", "T", "P", "E"]
    while abs(value) >= 999.5 and len(prefixes) > 1:
        value /= 1000
        prefixes.pop(0)
    return f"{value:#.3g}".rstrip(".") + f" {prefixes[0]}{unit}"


def _duration(seconds: float) -> str:
    """In the units that matter: 4.5 s, 12 min, 3 h 20 min, 2 d 4 h."""
    if seconds < 99.5:
        return f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"
