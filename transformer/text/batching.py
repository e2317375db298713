"""Batches of about equally long sentences, each within a budget of tokens (paper, Section 5.1).

The rule: rows x longest sequence <= budget, where the longest sequence is the longer of padded source and padded
target. So neither side of a batch ever holds more than the budget, padding included: that is what memory depends on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer.config import EOS_ID, PAD_ID, SOS_ID
from transformer.errors import ConfigError, problem

Example = tuple[Sequence[int], Sequence[int]]
"""Source ids with ``<SOS>`` and ``<EOS>``, target ids without; the target gains one special piece in ``collate``. Best
two tuples: lists by the hundred thousand hold up the thread that trains, when Python's collector walks through them."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Padded ids of some examples, and how many of them are real."""

    source: Tensor
    """[B, S] int64, ``<SOS>`` … ``<EOS>``, then ``<PAD>``."""
    target_input: Tensor
    """[B, T] int64, ``<SOS>`` and the target."""
    target_output: Tensor
    """[B, T] int64, the target and ``<EOS>``: at each position what the decoder should write next."""
    source_tokens: int
    """Pieces of ``source`` that are not padding."""
    target_tokens: int
    """Pieces of ``target_output`` that are not padding; the loss is a mean over these."""

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(
            self.source.to(device, non_blocking=True),
            self.target_input.to(device, non_blocking=True),
            self.target_output.to(device, non_blocking=True),
            self.source_tokens,
            self.target_tokens,
        )


def make_batches(
    examples: Sequence[Example], token_budget: int, seed: int = 0, epoch: int = 0, shuffle: bool = True
) -> list[list[int]]:
    """Indices of the examples of each batch. Every example is in exactly one batch.

    Args:
        examples: source and target ids.
        token_budget: most tokens on either side of a batch, padding included. A longer example gets a batch of its own.
        seed: with ``epoch``, decides the order; the same two numbers give the same batches on every machine.
        epoch: which pass over the data.
        shuffle: False gives batches from short to long, the same ones every time.
    """
    if token_budget < 1:
        raise ConfigError(problem("token_budget", "must be at least 1", token_budget, "4096 is usual"))
    lengths = _lengths(examples)
    longest = lengths.max(axis=1) if len(examples) else np.zeros(0, dtype=np.int64)
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(examples)) if shuffle else np.arange(len(examples))
    # Sorted by the longer side, then the source; the permutation decides among equals, lexsort being stable.
    order = order[np.lexsort((lengths[order, 0], longest[order]))]
    batches: list[list[int]] = []
    current: list[int] = []
    for index in order.tolist():
        # In ascending order the newest example is the longest.
        if current and (len(current) + 1) * int(longest[index]) > token_budget:
            batches.append(current)
            current = []
        current.append(index)
    if current:
        batches.append(current)
    if shuffle:
        return [batches[position] for position in generator.permutation(len(batches)).tolist()]
    return batches


def padding_share(examples: Sequence[Example], batches: Sequence[Sequence[int]]) -> float:
    """The share of all positions, of both sides together, that hold padding: 0 is none."""
    lengths = _lengths(examples)
    real = padded = 0
    for batch in batches:
        chosen = lengths[list(batch)]
        real += int(chosen.sum())
        padded += int(chosen.max(axis=0).sum()) * len(batch)
    return 1.0 - real / padded if padded else 0.0


def collate(examples: Sequence[Example], indices: Sequence[int], multiple: int = 1, pinned: bool = False) -> Batch:
    """The examples at ``indices`` as tensors, padded to the longest of each side.

    Args:
        examples: all of them.
        indices: which ones.
        multiple: the padded lengths are rounded up to multiples of it.
        pinned: put the tensors into page-locked memory, from which a GPU can copy while it computes.
    """
    sources = [examples[index][0] for index in indices]
    targets = [examples[index][1] for index in indices]
    tensors = [
        _padded(sources, multiple),
        _padded([[SOS_ID, *target] for target in targets], multiple),
        _padded([[*target, EOS_ID] for target in targets], multiple),
    ]
    source, target_input, target_output = (tensor.pin_memory() if pinned else tensor for tensor in tensors)
    return Batch(
        source=source,
        target_input=target_input,
        target_output=target_output,
        source_tokens=sum(len(source) for source in sources),
        target_tokens=sum(len(target) + 1 for target in targets),
    )


def fingerprint(examples: Sequence[Example]) -> str:
    """sha256, in hexadecimal, of all ids in their order: the same for the same corpus and tokenizer."""
    digest = hashlib.sha256()
    for source, target in examples:
        digest.update(np.array([len(source), *source, len(target), *target], dtype="<i4").tobytes())
    return digest.hexdigest()


def _lengths(examples: Sequence[Example]) -> np.ndarray:
    """[N, 2] lengths as ``collate`` pads them."""
    sizes = [(len(source), len(target) + 1) for source, target in examples]
    return np.array(sizes, dtype=np.int64).reshape(-1, 2)


def _padded(rows: Sequence[Sequence[int]], multiple: int) -> Tensor:
    width = -(-max((len(row) for row in rows), default=0) // multiple) * multiple
    ids = np.full((len(rows), width), PAD_ID, dtype=np.int64)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    return torch.from_numpy(ids)
