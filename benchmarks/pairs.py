"""Sentence pairs to measure on: made up with the lengths of a real corpus, or the real Multi30k."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transformer.config import EOS_ID, SOS_ID, SPECIAL_PIECES
from transformer.errors import DataError, problem
from transformer.text.batching import Batch, Example
from transformer.text.corpus import Pair, read_parallel
from transformer.text.tokenizer import Tokenizer, train_tokenizer

SHIPPED = Path(__file__).resolve().parents[1] / "checkpoints" / "en-de-multi30k" / "tokenizer.model"


@dataclass(frozen=True)
class Lengths:
    """Log-normal lengths in pieces, special pieces not counted, correlated between the two sides of a pair."""

    source_mean: float
    """Of the logarithm, as all of these."""
    source_spread: float
    target_mean: float
    target_spread: float
    correlation: float = 0.86
    longest: int = 200


CAPTIONS = Lengths(2.59, 0.31, 2.60, 0.35)
"""Multi30k, English to German, in 10,000 joint pieces: means of 14.0 and 14.4 pieces, spreads of 4.5 and 5.2."""
NEWS = Lengths(3.20, 0.55, 3.24, 0.55)
"""About what news text has in 37,000 pieces: means of 29 and 30, spreads of 17. An assumption, not a measurement."""


def synthetic(number: int, vocab_size: int, lengths: Lengths, seed: int = 1) -> list[Example]:
    """Pairs of uniformly drawn pieces; the same arguments give the same pairs on every machine."""
    generator = np.random.default_rng(seed)
    first, second = generator.standard_normal((2, number))
    second = lengths.correlation * first + math.sqrt(1.0 - lengths.correlation**2) * second
    sides = []
    for draw, mean, spread in (
        (first, lengths.source_mean, lengths.source_spread),
        (second, lengths.target_mean, lengths.target_spread),
    ):
        sizes = np.exp(mean + spread * draw).round().clip(1, lengths.longest).astype(int)
        ids = generator.integers(len(SPECIAL_PIECES), vocab_size, size=int(sizes.sum()))
        sides.append(np.split(ids, sizes.cumsum()[:-1]))
    return [([SOS_ID, *s.tolist(), EOS_ID], t.tolist()) for s, t in zip(*sides, strict=True)]


def multi30k(folder: Path, vocab_size: int) -> list[Example]:
    """The training pairs of Multi30k, English to German, in pieces of a vocabulary learned from them.

    Args:
        folder: holds ``train.en.gz`` and ``train.de.gz``, or ``multi30k/`` with them.
        vocab_size: of the vocabulary.

    Raises:
        DataError: there are no such files.
    """
    pairs = _pairs(folder, "train")
    tokenizer = train_tokenizer((text for pair in pairs for text in (pair.source, pair.target)), vocab_size)
    return _in_pieces(pairs, tokenizer)


def multi30k_test(folder: Path) -> list[Example]:
    """The pairs of Multi30k's test2016, English to German, in the pieces of the shipped model.

    Args:
        folder: holds ``test_2016_flickr.en.gz`` and ``test_2016_flickr.de.gz``, or ``multi30k/`` with them.

    Raises:
        DataError: there are no such files.
    """
    return _in_pieces(_pairs(folder, "test_2016_flickr"), Tokenizer.load(SHIPPED))


def _pairs(folder: Path, part: str) -> list[Pair]:
    inner = folder / "multi30k"
    folder = inner if inner.is_dir() else folder
    sides = [folder / f"{part}.{language}.gz" for language in ("en", "de")]
    if not all(side.is_file() for side in sides):
        rule = f"must be a folder with Multi30k's {sides[0].name} and {sides[1].name}"
        raise DataError(problem("--data", rule, str(folder), "run: python -m transformer data multi30k"))
    return list(read_parallel(*sides))


def _in_pieces(pairs: list[Pair], tokenizer: Tokenizer) -> list[Example]:
    return [(tokenizer.encode(pair.source), tokenizer.encode_target(pair.target)) for pair in pairs]


def padding(batches: list[Batch]) -> float:
    """The share of all positions, of both sides together, that hold padding."""
    real = sum(batch.source_tokens + batch.target_tokens for batch in batches)
    return 1.0 - real / sum(batch.source.numel() + batch.target_output.numel() for batch in batches)
