"""Toy models that are a table, and slow searches written straight from the definitions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.config import EOS_ID
from transformer.decoding.options import SearchOptions, length_penalty

Table = Callable[[tuple[int, ...]], list[float]]
"""Written pieces -> log-probability of each piece of the vocabulary behind them."""


@dataclass(frozen=True)
class ToyState:
    """For each row its table and the pieces that it was fed, <SOS> included."""

    tables: tuple[Table, ...]
    fed: tuple[tuple[int, ...], ...]

    @classmethod
    def start(cls, *tables: Table) -> ToyState:
        return cls(tables, ((),) * len(tables))

    def reorder(self, index: Tensor) -> ToyState:
        rows = index.tolist()
        return ToyState(tuple(self.tables[row] for row in rows), tuple(self.fed[row] for row in rows))


def toy_step(last: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
    fed = tuple((*row, piece) for row, piece in zip(state.fed, last.tolist(), strict=True))
    rows = [table(row[1:]) for table, row in zip(state.tables, fed, strict=True)]
    return torch.tensor(rows, dtype=torch.float32), ToyState(state.tables, fed)


def random_table(seed: int, vocabulary: int, sharpness: float = 2.0, memory: int | None = None) -> Table:
    """A log-softmax that depends on the last ``memory`` written pieces (None: on all of them)."""

    def table(written: tuple[int, ...]) -> list[float]:
        context = written if memory is None else written[len(written) - min(memory, len(written)) :]
        source = random.Random(f"{seed} {context}")
        logits = torch.tensor([source.gauss(0.0, sharpness) for _ in range(vocabulary)])
        return torch.log_softmax(logits, dim=0).tolist()

    return table


def coarse_table(seed: int, vocabulary: int) -> Table:
    """Multiples of -1/4, whose sums are exact in float32 and often equal: a trial for the order among equals."""

    def table(written: tuple[int, ...]) -> list[float]:
        source = random.Random(f"{seed} {written}")
        return [-0.25 * source.randrange(8) for _ in range(vocabulary)]

    return table


def total_of(table: Table, tokens: tuple[int, ...]) -> float:
    """The sum of log-probabilities in float32, piece by piece."""
    total = torch.zeros(())
    for place, token in enumerate(tokens):
        total = total + torch.tensor(table(tokens[:place])[token])
    return float(total)


def brute_force(table: Table, vocabulary: int, max_length: int, alpha: float) -> list[tuple[float, tuple[int, ...]]]:
    """Every translation that ends with <EOS> within ``max_length`` pieces as (score, tokens), best first."""
    words = range(EOS_ID + 1, vocabulary)
    found = []
    for length in range(max_length):
        for body in itertools.product(words, repeat=length):
            tokens = (*body, EOS_ID)
            found.append((total_of(table, tokens) / length_penalty(length + 1, alpha), tokens))
    return sorted(found, key=lambda pair: -pair[0])


def plain_beam(table: Table, max_length: int, options: SearchOptions) -> list[tuple[int, ...]]:
    """Beam search of one sentence by the definition, without the early stop: finished by score, then cut off."""
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished: list[tuple[float, tuple[int, ...]]] = []
    for length in range(1, max_length + 1):
        candidates = []
        for tokens, total in live:
            log_probs = table(tokens)
            for piece in range(EOS_ID, len(log_probs)):
                grown = float(torch.tensor(total) + torch.tensor(log_probs[piece]))
                candidates.append(((*tokens, piece), grown))
        candidates.sort(key=lambda candidate: -candidate[1])
        candidates = candidates[: 2 * options.beam_size if options.beam_size > 1 else 1]
        for tokens, total in candidates:
            if tokens[-1] == EOS_ID:
                finished.append((total / length_penalty(length, options.length_penalty), tokens))
        live = [candidate for candidate in candidates if candidate[0][-1] != EOS_ID][: options.beam_size]
    finished.sort(key=lambda pair: -pair[0])
    return [tokens for _, tokens in finished] + [tokens for tokens, _ in live]


def greedy(table: Table, max_length: int) -> tuple[int, ...]:
    """The most probable allowed piece, again and again, up to <EOS> or ``max_length`` pieces."""
    tokens: tuple[int, ...] = ()
    while len(tokens) < max_length and EOS_ID not in tokens:
        log_probs = table(tokens)
        tokens = (*tokens, max(range(EOS_ID, len(log_probs)), key=lambda piece: log_probs[piece]))
    return tokens


def follow(log_probs: dict[tuple[int, ...], dict[int, float]], vocabulary: int) -> Table:
    """A table written by hand; what it does not name is impossible."""

    def table(written: tuple[int, ...]) -> list[float]:
        row = log_probs.get(written, {})
        return [row.get(piece, float("-inf")) for piece in range(vocabulary)]

    return table
