"""Sentence pairs: reading, cleaning and splitting them.

A line ends at a line feed and nowhere else. ``str.splitlines`` also cuts at form feeds, U+0085 or U+2028, which real
corpora hold inside sentences, and from there on every pair of the corpus would be wrong.
"""

from __future__ import annotations

import gzip
import hashlib
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from transformer.errors import ConfigError, DataError, problem


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    target: str


class Split(NamedTuple):
    """A corpus in three parts; no sentence of the side that was split by lies in two of them."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


@dataclass(frozen=True)
class CleaningReport:
    """How many pairs came in, were dropped for which reason (the first that applies), and are left."""

    total: int
    empty: int
    too_long: int
    bad_ratio: int
    duplicates: int
    kept: int

    def __str__(self) -> str:
        return (
            f"kept {self.kept:,} of {self.total:,} pairs (dropped: {self.empty:,} empty, {self.too_long:,} too long, "
            f"{self.bad_ratio:,} of unlikely length ratio, {self.duplicates:,} duplicates)"
        )


def read_lines(path: Path | str) -> list[str]:
    """The lines of a UTF-8 text file, plain or ``.gz``, without their line ends (LF or CRLF) and byte order mark.

    Raises:
        DataError: missing or damaged file, or bytes that are not UTF-8 (the message names the line).
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(problem(str(path), "must be a whole gzip file", str(error), "fetch it again")) from error
    except OSError as error:
        raise DataError(problem(str(path), "must be a readable file", error.strerror, "check the path")) from error
    return _decoded(data, str(path))


def read_parallel(source_path: Path | str, target_path: Path | str) -> list[Pair]:
    """Two files, line by line translations of each other; empty lines are kept, ``clean`` counts and drops them.

    Raises:
        DataError: as ``read_lines``, or the files differ in their number of lines.
    """
    sources, targets = read_lines(source_path), read_lines(target_path)
    if len(sources) != len(targets):
        raise DataError(
            f"{source_path} and {target_path} must have the same number of lines, but they have {len(sources)} and "
            f"{len(targets)}: pair the files that belong together."
        )
    return [Pair(source, target) for source, target in zip(sources, targets, strict=True)]


def read_tsv(path: Path | str, source_column: int = 0, target_column: int = 1) -> list[Pair]:
    """Pairs from two columns, counted from 0, of a tab-separated file, plain or ``.gz``; quotes are ordinary letters.

    Raises:
        DataError: as ``read_lines``, or a line with too few columns. Lines without any text are skipped.
    """
    return _columns(read_lines(path), str(path), source_column, target_column)


def read_manythings(zip_path: Path | str, swap: bool = False) -> list[Pair]:
    """Pairs of a zip from manythings.org/anki, whose one text has the columns English, other language, attribution.

    Args:
        zip_path: a file as published there, such as ``fra-eng.zip``.
        swap: False makes English the source, True the target.

    Raises:
        DataError: no readable zip, not exactly one sentence file in it, not UTF-8, or a line with one column only.
    """
    try:
        with zipfile.ZipFile(zip_path) as archive:
            names = [name for name in archive.namelist() if _is_sentence_file(name)]
            if len(names) != 1:
                raise DataError(
                    problem(
                        str(zip_path), "must hold exactly one .txt of sentences", names, "use a zip from manythings.org"
                    )
                )
            data = archive.read(names[0])
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(problem(str(zip_path), "must be a whole zip file", str(error), "fetch it again")) from error
    except OSError as error:
        raise DataError(problem(str(zip_path), "must be a readable file", error.strerror, "check the path")) from error
    where = f"{zip_path}/{names[0]}"
    return _columns(_decoded(data, where), where, *((1, 0) if swap else (0, 1)))


def clean(
    pairs: Iterable[Pair], max_ratio: float = 4.0, max_characters: int = 1000, ratio_from: int = 50
) -> tuple[list[Pair], CleaningReport]:
    """Drop pairs that would only teach mistakes; the rest keep their order, with spaces at both ends removed.

    Args:
        pairs: the pairs.
        max_ratio: longest allowed ratio of the two lengths in characters.
        max_characters: longest allowed side.
        ratio_from: the ratio is looked at when the longer side has this many characters at least; short pairs
            ("Hi." and "Bonjour, monsieur !") differ legitimately.
    """
    if max_ratio < 1:
        raise ConfigError(problem("max_ratio", "must be at least 1", max_ratio, "4 is usual"))
    total = empty = too_long = bad_ratio = duplicates = 0
    seen: set[Pair] = set()
    kept: list[Pair] = []
    for pair in pairs:
        total += 1
        stripped = Pair(pair.source.strip(), pair.target.strip())
        shorter, longer = sorted((len(stripped.source), len(stripped.target)))
        if shorter == 0:
            empty += 1
        elif longer > max_characters:
            too_long += 1
        elif longer >= ratio_from and longer > max_ratio * shorter:
            bad_ratio += 1
        elif stripped in seen:
            duplicates += 1
        else:
            seen.add(stripped)
            kept.append(stripped)
    return kept, CleaningReport(total, empty, too_long, bad_ratio, duplicates, len(kept))


def split_by_source(pairs: Iterable[Pair], side: str = "source") -> Split:
    """Split by sentence, never by line: all translations of a sentence fall into one part.

    ``int(sha256(sentence), 16) % 100`` of the stripped sentence decides: 0 is test, 1 is dev, the rest is train.

    Args:
        pairs: the pairs; each part keeps their order.
        side: "source" or "target". Split both directions of a corpus by the same language, and they agree.
    """
    if side not in ("source", "target"):
        raise ConfigError(problem("side", "must be source or target", side, "choose one of them"))
    parts = Split([], [], [])
    for pair in pairs:
        sentence = pair.source if side == "source" else pair.target
        remainder = int(hashlib.sha256(sentence.strip().encode("utf-8")).hexdigest(), 16) % 100
        (parts.test if remainder == 0 else parts.dev if remainder == 1 else parts.train).append(pair)
    return parts


def references_by_source(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """The distinct translations of each distinct source sentence, both in the order of the corpus.

    The first of each list makes the single-reference test set, the whole lists the multi-reference one.
    """
    found: dict[str, dict[str, None]] = {}
    for pair in pairs:
        found.setdefault(pair.source.strip(), {})[pair.target.strip()] = None
    return {source: list(targets) for source, targets in found.items()}


def _decoded(data: bytes, where: str) -> list[str]:
    rows = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not rows[-1]:
        rows.pop()  # the line end of the last line opens no new one
    lines = []
    for number, row in enumerate(rows, start=1):
        try:
            lines.append(row.removesuffix(b"\r").decode("utf-8"))
        except UnicodeDecodeError as error:
            bad = row[error.start : error.start + 8]
            raise DataError(
                problem(f"{where}, line {number},", "must be UTF-8 text", bad, "convert the file to UTF-8")
            ) from error
    return lines


def _columns(lines: Sequence[str], where: str, source: int, target: int) -> list[Pair]:
    if source < 0 or target < 0 or source == target:
        raise ConfigError(problem("columns", "must be two different numbers from 0", (source, target), "correct them"))
    pairs = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) <= max(source, target):
            rule = f"must have at least {max(source, target) + 1} columns separated by tabs"
            raise DataError(problem(f"{where}, line {number},", rule, line, "correct the line or the column numbers"))
        pairs.append(Pair(columns[source], columns[target]))
    return pairs


def _is_sentence_file(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".txt" and path.parts[0] != "__MACOSX" and not path.name.startswith(("_", "."))
