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
    """Three parts of distinct sequences, none of which lies in two parts.

    Raises:
        ConfigError: more pairs wanted than half of the sequences that exist (there would be none to tell apart).
    """
    wanted = train + dev + test
    exist = sum(len(set(alphabet)) ** length for length in range(min_length, max_length + 1))
    if min(train, dev, test) < 0 or wanted > exist // 2:
        raise ConfigError(
            problem(
                "train + dev + test", f"must be at most {exist // 2}", wanted, "use longer sequences or more letters"
            )
        )
    distinct: dict[Pair, None] = {}
    stream = _stream(seed, min_length, max_length, alphabet)
    while len(distinct) < wanted:
        distinct[next(stream)] = None
    pairs = list(distinct)
    # Short sequences run out early, so the order found is no fair one; every part shall have its share of each length.
    random.Random(seed).shuffle(pairs)
    return Split(pairs[:train], pairs[train : train + dev], pairs[train + dev :])


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
