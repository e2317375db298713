"""From a recipe's [data] to sentence pairs, and from those to piece ids."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transformer.errors import DataError, problem
from transformer.text.batching import Example
from transformer.text.corpus import (
    Pair,
    clean,
    read_manythings,
    read_parallel,
    read_tsv,
    references_by_source,
    split_by_source,
)
from transformer.text.datasets import find, locate
from transformer.text.synthetic import reverse_split
from transformer.text.tokenizer import Tokenizer
from transformer.training.sections import GENERATED, DataSection


@dataclass(frozen=True)
class Material:
    """The pairs of a run. Dev decides which model is best; test is for the scores of the model card."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    report: str = ""
    """What cleaning dropped, for people."""
    references: list[list[str]] = field(default_factory=list)
    """All translations of each test sentence, that of ``test`` first; empty where each has one only."""


def load_material(data: DataSection, data_dir: Path) -> Material:
    """Read, split and clean the corpus that a recipe names. Only training pairs are cleaned.

    Args:
        data: the recipe's [data].
        data_dir: where named corpora lie.
    """
    if data.dataset == GENERATED:
        split = reverse_split(data.generated_pairs, 1000, 1000, seed=0, max_length=data.generated_length)
        return Material(split.train, split.dev, split.test, f"{len(split.train):,} generated pairs")
    found = _named(data, data_dir) if data.dataset else _own(data)
    train, dev, test = found.train, found.dev, found.test
    kept, report = clean(train, max_ratio=data.max_ratio)
    if not kept:
        raise DataError(
            f"No pairs are left to train on ({report}; {len(dev) + len(test):,} held out): look at the files."
        )
    if not dev:
        named = f"{data.dev_source} is empty" if data.dev_source else f"0 of {len(train)} held out"
        remedy = "name dev_source and dev_target that hold sentences"
        raise DataError(problem("dev set", "must hold sentence pairs", named, remedy))
    return dataclasses.replace(found, train=kept, report=str(report))


def _named(data: DataSection, data_dir: Path) -> Material:
    corpus = find(data.dataset, "data.dataset", also=[GENERATED])
    folder = locate(data.dataset, data_dir)
    codes = (data.source_code, data.target_code)
    if data.dataset == "multi30k":
        if data.source_code == data.target_code or not set(codes) <= {"en", "de", "fr"}:
            raise DataError(
                problem("data.source_code and target_code", "must be two of en, de, fr", codes, "correct them")
            )

        def read(part: str) -> list[Pair]:
            return read_parallel(folder / f"{part}.{codes[0]}.gz", folder / f"{part}.{codes[1]}.gz")

        return Material(read("train"), read("val"), read("test_2016_flickr"))
    swap = data.target_code == "en"
    if not swap and data.source_code != "en":
        raise DataError(problem("data.source_code or target_code", "must be en for this corpus", codes, "correct them"))
    pairs = read_manythings(data_dir / corpus.files[0].path, swap=swap)
    return _held_out(*split_by_source(pairs, side="target" if swap else "source"))


def _own(data: DataSection) -> Material:
    pairs = read_tsv(data.tsv) if data.tsv else read_parallel(data.source, data.target)
    if data.dev_source:
        return Material(pairs, read_parallel(data.dev_source, data.dev_target), [])
    pairs = [pair for pair in pairs if pair.source.strip() and pair.target.strip()]
    train, dev, test = split_by_source(pairs)
    if not dev:  # of a small corpus, 1 % chosen by hash may be nothing
        train, dev = _hold_out(train)
    # The test part of the common split stays unseen too, so that a later evaluation is honest.
    return _held_out(train, dev, test)


def _hold_out(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """All pairs of one source sentence in twenty, at least of one, apart from the rest; the hash decides which."""
    ranked = sorted({pair.source.strip() for pair in pairs}, key=lambda text: hashlib.sha256(text.encode()).digest())
    chosen = set(ranked[: max(1, len(ranked) // 20)])
    dev = [pair for pair in pairs if pair.source.strip() in chosen]
    return [pair for pair in pairs if pair.source.strip() not in chosen], dev


def _held_out(train: list[Pair], dev: list[Pair], test: list[Pair]) -> Material:
    """With one pair for each sentence of dev and test, the first, and all translations of those of test."""
    translations = references_by_source(test)
    several = any(len(targets) > 1 for targets in translations.values())
    return Material(
        train,
        [Pair(source, targets[0]) for source, targets in references_by_source(dev).items()],
        [Pair(source, targets[0]) for source, targets in translations.items()],
        references=list(translations.values()) if several else [],
    )


def to_examples(pairs: Sequence[Pair], tokenizer: Tokenizer, max_pieces: int) -> tuple[list[Pair], list[Example]]:
    """The pairs of which no side has more than ``max_pieces``, and their piece ids."""
    kept: list[Pair] = []
    examples: list[Example] = []
    for pair in pairs:
        source, target = tuple(tokenizer.encode(pair.source)), tuple(tokenizer.encode_target(pair.target))
        if len(source) <= max_pieces and len(target) + 1 <= max_pieces:
            kept.append(pair)
            examples.append((source, target))
    return kept, examples
