"""Training pairs split into pieces anew for every epoch (subword regularisation)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from transformer.config import EOS_ID, SOS_ID
from transformer.text.batching import Example
from transformer.text.corpus import Pair
from transformer.text.tokenizer import Tokenizer

_PAIRS = 128
"""Pairs sampled in one go. The splits depend on it, so another number is another random sequence."""


def sample_examples(tokenizer: Tokenizer, pairs: Iterable[Pair], rate: float, seed: int) -> list[Example]:
    """The pairs as ids, as ``Tokenizer.encode`` and ``encode_target`` give them, but split at random.

    Meant for a background thread: sentencepiece works on 128 pairs at a time without Python's interpreter lock, so the
    thread that trains is hardly held up.

    Args:
        tokenizer: BPE or unigram.
        pairs: sentences and their translations.
        rate: ``alpha`` of ``Tokenizer.sample_many``: for BPE the probability of leaving out a merge. 0 is off.
        seed: not negative; the same pairs, rate and seed give the same examples, in any thread and at any time. Give
            every epoch its own.

    Raises:
        ConfigError: ``rate`` out of range.
    """
    generator = np.random.default_rng(seed)
    remaining = iter(pairs)
    examples: list[Example] = []
    while some := list(islice(remaining, _PAIRS)):
        texts = [pair.source for pair in some] + [pair.target for pair in some]
        ids = tokenizer.sample_many(texts, rate, int(generator.integers(2**32)))
        for source, target in zip(ids[: len(some)], ids[len(some) :], strict=True):
            examples.append(((SOS_ID, *source, EOS_ID), tuple(target)))
    return examples
