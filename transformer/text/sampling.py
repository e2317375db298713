"""Training pairs split into pieces anew for every epoch (subword regularisation)."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable

import numpy as np

from transformer.config import EOS_ID, SOS_ID, SPECIAL_PIECES, UNK_ID
from transformer.errors import ConfigError, problem
from transformer.text.batching import Example
from transformer.text.corpus import Pair
from transformer.text.splits import Array, BpeDropout, Splits, UnigramSampling
from transformer.text.tokenizer import Tokenizer

_PAIRS = 512
"""Pairs drawn in one go: few enough that no step of numpy's takes long. The splits depend on it, so another number is
another random sequence."""
_WORD = re.compile("▁[^▁]*|[^▁]+")


class Sampler:
    """Pairs of sentences whose words are split at random, every occurrence on its own.

    What needs no chance is done once, when it is made: the texts are normalised and cut into words (no piece reaches
    from one word into the next), and each distinct word is prepared. It never changes, so threads may share it. It is
    meant for a background thread: numpy and Python work on 512 pairs at a time and let the thread that trains go on
    every few milliseconds.
    """

    def __init__(self, tokenizer: Tokenizer, pairs: Iterable[Pair], rate: float) -> None:
        """Prepare the words of the pairs.

        Args:
            tokenizer: BPE or unigram, as ``train_tokenizer`` makes it.
            pairs: sentences and their translations.
            rate: from 0 to 1. For BPE the probability of leaving out a merge (BPE-dropout, Provilkov et al. 2020; 0.1
                there). For unigram the exponent alpha on the probability of a split: the smaller, the more varied (0.1
                to 0.5 in Kudo 2018). 0 is off for both: always the usual split.

        Raises:
            ConfigError: ``rate`` out of range, or a tokenizer of another kind.
            InputError: something that is not text.
        """
        if not 0.0 <= rate <= 1.0:
            raise ConfigError(problem("rate", "must be from 0 to 1", rate, "0.1 is usual"))
        vocabulary = dict(enumerate(tokenizer.vocabulary()))
        scores = {number: vocabulary[number] for number in range(len(SPECIAL_PIECES), len(vocabulary))}
        if crossing := [piece for piece, _ in scores.values() if "▁" in piece[1:] or piece == "<0x00>"]:
            raise ConfigError(
                problem("tokenizer", "must have pieces of words", crossing[0], "make it with train_tokenizer")
            )
        words: dict[str, int] = {}
        numbers, ends = array("i"), array("q", [0])
        usual: list[Example] = []
        # sentencepiece does not say which kind a model is; only those of BPE have these scores.
        bpe = [score for _, score in scores.values()] == [-float(rank) for rank in range(len(scores))]
        for pair in pairs:
            for text in (pair.source, pair.target):
                numbers.extend([words.setdefault(w, len(words)) for w in _WORD.findall(tokenizer.normalise(text))])
                ends.append(len(numbers))
            if not bpe and not rate:
                usual.append((tuple(tokenizer.encode(pair.source)), tuple(tokenizer.encode_target(pair.target))))
        self._words: Array = np.array(numbers, dtype=np.int64)
        """Of all texts, one after the other."""
        self._ends: Array = np.array(ends, dtype=np.int64)
        """Where each text ends in it; one more at the front."""
        self._usual = usual
        self._splits: Splits = (BpeDropout if bpe else UnigramSampling)(scores, list(words), rate)

    def examples(self, seed: int) -> list[Example]:
        """The pairs as ids, in order, as ``Tokenizer.encode`` and ``encode_target`` give them, but split at random.

        Args:
            seed: not negative. The same tokenizer, pairs, rate and seed give the same examples, in any thread and any
                process. Give every epoch its own.
        """
        if self._usual:
            return list(self._usual)
        generator = np.random.default_rng(seed)
        examples: list[Example] = []
        for first in range(0, len(self._ends) - 1, 2 * _PAIRS):
            ends = self._ends[first : first + 2 * _PAIRS + 1]
            ids, sizes = self._splits.draw(self._words[ends[0] : ends[-1]], generator)
            ids, bounds = _one_unknown(ids, np.append(0, np.cumsum(sizes))[ends - ends[0]])
            numbers, cuts = ids.tolist(), bounds.tolist()
            for a, b, c in zip(cuts[:-1:2], cuts[1::2], cuts[2::2], strict=True):
                examples.append(((SOS_ID, *numbers[a:b], EOS_ID), tuple(numbers[b:c])))
        return examples


def _one_unknown(ids: Array, bounds: Array) -> tuple[Array, Array]:
    """One ``<UNK>`` for each run of unknown characters, as sentencepiece writes it; and where the texts then end."""
    unknown = ids == UNK_ID
    if not unknown.any():
        return ids, bounds
    kept = np.ones(len(ids) + 1, dtype=bool)
    kept[1:-1] = ~(unknown[1:] & unknown[:-1])
    kept[bounds] = True  # a run ends where its text does
    return ids[kept[:-1]], np.append(0, np.cumsum(kept[:-1]))[bounds]
