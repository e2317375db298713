"""A task without data: write a sequence of letters backwards.

It trains in minutes, its right answer is known, and its attention maps must show the one alignment that solves it.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator

from transformer.errors import ConfigError, problem
from transformer.text.corpus import Pair, Split

ALPHABET = string.ascii_lowercase[:20]
HELD_OUT_FROM = 4
"""Shorter sequences are for training only."""


def reverse_pairs(
    count: int, seed: int = 0, min_length: int = 1, max_length: int = 16, alphabet: str = ALPHABET
) -> list[Pair]:
    """Random letters with a space between them, and the same letters backwards.

    Args:
        count: number of pairs; lengths are uniform, and short sequences repeat.
        seed: the same seed gives the same pairs.
        min_length: fewest letters of a sequence.
        max_length: most letters.
        alphabet: the letters to draw from, each equally likely.
    """
    if count < 0:
        raise ConfigError(problem("count", "must be at least 0", count, "choose how many pairs to make"))
    stream = _stream(seed, min_length, max_length, alphabet)
    return [next(stream) for _ in range(count)]


def reverse_split(
    train: int,
    dev: int,
    test: int,
    seed: int = 0,
    min_length: int = 1,
    max_length: int = 16,
    alphabet: str = ALPHABET,
) -> Split:
    """Three parts, of which dev and test share no sequence with each other or with training.

    Dev and test hold distinct sequences of at least ``HELD_OUT_FROM`` letters: there are too few shorter ones to hold
    any back, and a person who tries the toy begins with them. Training draws with repetition, so every length is as
    frequent as any other.

    Raises:
        ConfigError: more to hold out than half of the sequences that exist (there would be none to tell apart).
    """
    shortest = min(max(min_length, HELD_OUT_FROM), max_length)
    exist = sum(len(set(alphabet)) ** length for length in range(shortest, max_length + 1))
    if min(train, dev, test) < 0 or dev + test > exist // 2:
        raise ConfigError(
            problem("dev + test", f"must be at most {exist // 2}", dev + test, "use longer sequences or more letters")
        )
    held_out: dict[Pair, None] = {}
    stream = _stream(seed, shortest, max_length, alphabet)
    while len(held_out) < dev + test:
        held_out[next(stream)] = None
    pairs = list(held_out)
    # Short sequences run out early, so the order found is no fair one: each part shall have its share of each length.
    random.Random(seed).shuffle(pairs)
    unseen = (pair for pair in _stream(seed + 1, min_length, max_length, alphabet) if pair not in held_out)
    return Split([next(unseen) for _ in range(train)], pairs[:dev], pairs[dev:])


def _stream(seed: int, min_length: int, max_length: int, alphabet: str) -> Iterator[Pair]:
    if not 1 <= min_length <= max_length:
        rule = "must be at least 1 and not above max_length"
        raise ConfigError(problem("min_length", rule, (min_length, max_length), "correct them"))
    if not alphabet or len(set(alphabet)) != len(alphabet) or any(letter.isspace() for letter in alphabet):
        raise ConfigError(problem("alphabet", "must hold distinct letters and no space", alphabet, "correct it"))
    generator = random.Random(seed)
    while True:
        letters = generator.choices(alphabet, k=generator.randint(min_length, max_length))
        yield Pair(" ".join(letters), " ".join(reversed(letters)))
