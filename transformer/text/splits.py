"""Random splits of words into pieces: BPE-dropout (Provilkov et al. 2020) and unigram sampling (Kudo 2018).

sentencepiece can draw both, but version 0.2.3 cannot be seeded: it draws otherwise in every process. Here numpy's
generator decides, and every occurrence of a word is drawn on its own, many thousand words in one go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from transformer.config import UNK_ID

Array = NDArray[Any]

_NONE = np.iinfo(np.int32).max
"""Two symbols that are no piece together; greater than every rank."""


class Splits(Protocol):
    """Draws splits of words that were named when it was made. It never changes, so threads may share it."""

    def draw(self, words: Array, generator: np.random.Generator) -> tuple[Array, Array]:
        """The ids of all pieces of all words, one after the other, and how many of them each word has.

        Args:
            words: [W] numbers of words, from 0.
            generator: is moved on; what it yields decides, and nothing else.
        """
        ...


class BpeDropout:
    """Algorithm 1 of Provilkov et al. 2020.

    A word begins as its characters. In each step every pair of neighbours that make up a piece is left out with
    probability ``rate``; of the others the one with the best score is merged, the leftmost of several that make up the
    same piece. The word is done when none is left. With rate 0 that is plain BPE.
    """

    def __init__(self, scores: Mapping[int, tuple[str, float]], words: Sequence[str], rate: float) -> None:
        """``scores`` has the spelling and the score, unlike all others, of each piece that may be used, by its id."""
        self._rate = rate
        # Symbols are numbered by rank, the best piece 0, so the smallest number wins. Characters that are no piece
        # have numbers after those of the pieces.
        ranked = sorted(scores, key=lambda number: -scores[number][1])
        symbols = {scores[number][0]: rank for rank, number in enumerate(ranked)}
        spelled = list(symbols)
        for character in sorted(set().union(*spelled, *words)):
            symbols.setdefault(character, len(symbols))
        self._ids = np.full(len(symbols), UNK_ID, dtype=np.int32)
        self._ids[: len(ranked)] = ranked
        merges = {}
        for piece in spelled:
            for cut in range(1, len(piece)):
                left, right = symbols.get(piece[:cut]), symbols.get(piece[cut:])
                if left is not None and right is not None:
                    merges[left * len(symbols) + right] = symbols[piece]
        keys = sorted(merges)
        self._keys = np.array([*keys, np.iinfo(np.int64).max], dtype=np.int64)
        self._merged = np.array([*map(merges.__getitem__, keys), _NONE], dtype=np.int32)
        self._lengths = np.array([len(word) for word in words], dtype=np.int64)
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._symbols = np.array([symbols[character] for word in words for character in word], dtype=np.int32)
        self._pairs = self._merge(self._symbols[:-1], self._symbols[1:])

    def draw(self, words: Array, generator: np.random.Generator) -> tuple[Array, Array]:
        """See ``Splits``.

        A merge makes a word shorter by one, so all words that have n symbols now can be treated at once: those that
        began with n, and those that have been merged down to it. n falls from the longest word's length to 1.
        """
        lengths = self._lengths[words]
        order = np.argsort(lengths, kind="stable")
        longest = int(lengths.max(initial=0))
        bounds = np.searchsorted(lengths[order], np.arange(longest + 2))
        which = np.zeros(0, dtype=np.int64)  # [R] places in ``words``
        symbols = np.zeros((0, longest + 1), dtype=np.int32)  # [R, n]
        pairs = np.zeros((0, longest), dtype=np.int32)  # [R, n - 1]: what the neighbours make up
        ended = []
        for n in range(longest, 0, -1):
            begun = order[bounds[n] : bounds[n + 1]]
            places = self._starts[words[begun], None] + np.arange(n)
            which = np.concatenate([which, begun])
            symbols = np.concatenate([symbols[:, :n], self._symbols[places]])
            if n == 1:
                break
            pairs = np.concatenate([pairs[:, : n - 1], self._pairs[places[:, :-1]]])
            allowed = np.where(generator.random(pairs.shape) < self._rate, _NONE, pairs)
            at = allowed.argmin(axis=1)
            merged = np.take_along_axis(allowed, at[:, None], axis=1)[:, 0]
            done = merged == _NONE
            ended.append((which[done], symbols[done]))
            left = np.flatnonzero(~done)
            which, symbols, pairs = which[left], symbols[left], pairs[left]
            symbols, pairs = self._apply(symbols, pairs, at[left], merged[left])
        ended.append((which, symbols))
        return self._joined(ended, len(words))

    def _apply(self, symbols: Array, pairs: Array, at: Array, merged: Array) -> tuple[Array, Array]:
        """``symbols`` [R, n] and ``pairs`` [R, n - 1] after a merge at one place of each row, one narrower."""
        width = symbols.shape[1] - 1
        rows, column = np.arange(len(symbols)), at[:, None]
        symbols = np.where(np.arange(width) > column, symbols[:, 1:], symbols[:, :-1])
        symbols[rows, at] = merged
        pairs = np.where(np.arange(width - 1) > column, pairs[:, 1:], pairs[:, :-1])
        before, after = np.flatnonzero(at > 0), np.flatnonzero(at < width - 1)
        pairs[before, at[before] - 1] = self._merge(symbols[before, at[before] - 1], merged[before])
        pairs[after, at[after]] = self._merge(merged[after], symbols[after, at[after] + 1])
        return symbols, pairs

    def _merge(self, left: Array, right: Array) -> Array:
        """The symbols that these make up, or ``_NONE``."""
        keys = left.astype(np.int64) * len(self._ids) + right
        at = np.searchsorted(self._keys, keys)
        return np.where(self._keys[at] == keys, self._merged[at], np.int32(_NONE))

    def _joined(self, ended: Sequence[tuple[Array, Array]], count: int) -> tuple[Array, Array]:
        sizes = np.zeros(count, dtype=np.int64)
        for which, symbols in ended:
            sizes[which] = symbols.shape[1]
        starts = np.cumsum(sizes) - sizes
        ids = np.zeros(int(sizes.sum()), dtype=np.int32)
        for which, symbols in ended:
            ids[starts[which, None] + np.arange(symbols.shape[1])] = self._ids[symbols]
        return ids, sizes


class UnigramSampling:
    """Splits with probabilities in proportion to exp(``alpha`` x sum of their pieces' scores) (Kudo 2018, Section 3.2).

    Forward filtering, backward sampling: the sums over all splits of every beginning of a word are added up once; then
    the last piece is drawn, the last but one, and so on.
    """

    def __init__(self, scores: Mapping[int, tuple[str, float]], words: Sequence[str], alpha: float) -> None:
        """``scores`` has the spelling and the score of each piece that may be used, by its id."""
        pieces = {spelling: (number, alpha * score) for number, (spelling, score) in scores.items()}
        longest = max(map(len, pieces))
        # As in sentencepiece: a character that is no piece is <UNK>, 10 below the worst piece.
        unknown = (UNK_ID, alpha * (min(score for _, score in scores.values()) - 10.0))
        # One state for each beginning of a word, and in each an edge for each piece that it can end with.
        keys, ids, before = [], [], []
        self._last = np.zeros(len(words), dtype=np.int64)
        states = 0
        for place, word in enumerate(words):
            total = [0.0]  # of each beginning, log of the sum over its splits
            for end in range(1, len(word) + 1):
                edges = []
                for start in range(max(0, end - longest), end):
                    found = pieces.get(word[start:end], unknown if end - start == 1 else None)
                    if found:
                        edges.append((total[start] + found[1], found[0], states + start - 1 if start else -1))
                best = max(edges)[0]
                # math.exp, for numpy's is not the same on every processor.
                shares = [math.exp(edge[0] - best) for edge in edges]
                whole = sum(shares)
                total.append(best + math.log(whole))
                state, reached = states + end - 1, 0.0
                for share, edge in zip(shares, edges, strict=True):
                    reached += share
                    keys.append((state << 32) + round(reached / whole * 2**32))
                    ids.append(edge[1])
                    before.append(edge[2])
            states += len(word)
            self._last[place] = states - 1
        self._keys = np.array(keys, dtype=np.int64)
        """Rising: the state, and in the lower 32 bits the probability that it is this edge or one before it."""
        self._ids = np.array(ids, dtype=np.int32)
        self._before = np.array(before, dtype=np.int64)

    def draw(self, words: Array, generator: np.random.Generator) -> tuple[Array, Array]:
        """See ``Splits``."""
        sizes = np.zeros(len(words), dtype=np.int64)
        drawn = []
        which, state = np.arange(len(words)), self._last[words]
        while len(which):
            chance = generator.integers(2**32, size=len(which))
            edge = np.searchsorted(self._keys, (state << 32) + chance, side="right")
            drawn.append((which, self._ids[edge]))
            sizes[which] += 1
            state = self._before[edge]
            left = np.flatnonzero(state >= 0)
            which, state = which[left], state[left]
        ends = np.cumsum(sizes)
        ids = np.zeros(int(sizes.sum()), dtype=np.int32)
        for number, (which, last) in enumerate(drawn, 1):
            ids[ends[which] - number] = last
        return ids, sizes
