"""From a recipe's [data] to pairs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from transformer.errors import DataError
from transformer.text import datasets
from transformer.text.corpus import Pair
from transformer.text.tokenizer import Tokenizer
from transformer.training import material
from transformer.training.material import Material, load_material, to_examples
from transformer.training.sections import DataSection

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def pairs(count: int) -> list[Pair]:
    """Distinct short sentences, each source with two translations."""
    texts = [f"{WORDS[n // 100 % 10]} {WORDS[n // 10 % 10]} {WORDS[n % 10]}" for n in range(count)]
    return [Pair(text, text.upper() + mark) for text in texts for mark in ("", "!")]


def write(folder: Path, name: str, lines: list[str]) -> str:
    path = folder / name
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def own(folder: Path, content: list[Pair], suffix: str = "") -> DataSection:
    source = write(folder, f"a.en{suffix}", [pair.source for pair in content])
    return DataSection(source=source, target=write(folder, f"a.de{suffix}", [pair.target for pair in content]))


def load(data: DataSection, folder: Path) -> Material:
    return load_material(data, folder)


def assert_apart(found: Material) -> None:
    train, dev, test = ({pair.source for pair in part} for part in (found.train, found.dev, found.test))
    assert not train & dev
    assert not train & test
    assert not dev & test


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_own_files_are_split_by_source_sentence(tmp_path: Path, suffix: str) -> None:
    content = pairs(400)
    found = load(own(tmp_path, content, suffix), tmp_path)
    assert found.dev
    assert found.test
    assert_apart(found)
    assert len({pair.source for pair in found.dev}) == len(found.dev)
    sources = {pair.source for part in (found.train, found.dev, found.test) for pair in part}
    assert sources == {pair.source for pair in content}
    assert "kept" in found.report
    assert [pair.target for pair in found.test] == [own[0] for own in found.references]
    assert {tuple(own) for own in found.references} == {(p.target, p.target + "!") for p in found.test}


@pytest.mark.parametrize("count", [2, 5, 30])
def test_a_small_corpus_still_gets_a_dev_set(tmp_path: Path, count: int) -> None:
    found = load(own(tmp_path, pairs(count)), tmp_path)
    assert found.dev
    assert found.train
    assert_apart(found)
    assert load(own(tmp_path, pairs(count)), tmp_path) == found  # the same every time, or a run could not be resumed


def test_a_single_sentence_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No pairs are left to train on .* 1 held out"):
        load(own(tmp_path, pairs(1)), tmp_path)


def test_a_tsv_is_a_corpus_too(tmp_path: Path) -> None:
    content = pairs(60)
    path = write(tmp_path, "a.tsv", [f"{pair.source}\t{pair.target}\tby somebody" for pair in content])
    assert load(DataSection(tsv=path), tmp_path) == load(own(tmp_path, content), tmp_path)


def test_a_dev_set_of_ones_own_is_taken_whole(tmp_path: Path) -> None:
    content, dev = pairs(30), [Pair("a b", "A B"), Pair("c", "C")]
    data = own(tmp_path, content)
    data = DataSection(
        source=data.source,
        target=data.target,
        dev_source=write(tmp_path, "b.en", [pair.source for pair in dev]),
        dev_target=write(tmp_path, "b.de", [pair.target for pair in dev]),
    )
    found = load(data, tmp_path)
    assert (found.dev, found.test) == (dev, [])
    assert found.train == content


def test_empty_lines_are_dropped_from_every_part(tmp_path: Path) -> None:
    content = [pair for pair in pairs(200) for pair in (pair, Pair(pair.source + " x", " "))]
    found = load(own(tmp_path, content), tmp_path)
    assert all(pair.source.strip() and pair.target.strip() for pair in (*found.train, *found.dev, *found.test))


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    data = own(tmp_path, pairs(5))
    with pytest.raises(DataError, match=r"gone\.de must be a readable file") as caught:
        load(DataSection(source=data.source, target=str(tmp_path / "gone.de")), tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"gone\.tsv must be a readable file"):
        load(DataSection(tsv=str(tmp_path / "gone.tsv")), tmp_path)


def test_unequal_files_name_both_counts(tmp_path: Path) -> None:
    data = own(tmp_path, pairs(5))
    short = write(tmp_path, "short.de", ["A", "B"])
    with pytest.raises(DataError, match="10 and 2"):
        load(DataSection(source=data.source, target=short), tmp_path)


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="reverse, multi30k"):
        load(DataSection(dataset="multi40k"), tmp_path)


@pytest.mark.parametrize("codes", [("en", "de"), ("fr", "en")])
def test_multi30k_has_its_own_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: tuple[str, str]) -> None:
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for part, count in (("train", 6), ("val", 3), ("test_2016_flickr", 2)):
        for code in ("en", "de", "fr"):
            write(folder, f"{part}.{code}.gz", [f"{code} {part} {n}" for n in range(count)])
    monkeypatch.setattr(material, "locate", lambda name, data_dir: data_dir / datasets.DATASETS[name].folder)
    found = load(DataSection(dataset="multi30k", source_code=codes[0], target_code=codes[1]), tmp_path)
    assert [len(part) for part in (found.train, found.dev, found.test)] == [6, 3, 2]
    assert found.dev[1] == Pair(f"{codes[0]} val 1", f"{codes[1]} val 1")


def test_multi30k_has_three_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(material, "locate", lambda name, data_dir: data_dir)
    with pytest.raises(DataError, match="two of en, de, fr"):
        load(DataSection(dataset="multi30k", target_code="cs"), tmp_path)


def test_generated_pairs_need_no_files(tmp_path: Path) -> None:
    found = load(DataSection(dataset="reverse", generated_pairs=300, generated_length=6), tmp_path)
    assert len(found.train) == 300
    assert all(pair.target == pair.source[::-1] for pair in found.train)
    assert_apart(found)


def test_long_pairs_are_left_out_and_counted(tiny_tokenizer: Tokenizer, sentences: list[tuple[str, str]]) -> None:
    every = [Pair(*pair) for pair in sentences]
    lengths = [(len(tiny_tokenizer.encode(s)), len(tiny_tokenizer.encode_target(t)) + 1) for s, t in sentences]
    limit = sorted(max(pair) for pair in lengths)[len(lengths) // 2]
    pairs, kept = to_examples(every, tiny_tokenizer, limit)
    assert len(kept) == sum(max(pair) <= limit for pair in lengths)
    expected = [(tiny_tokenizer.encode(pair.source), tiny_tokenizer.encode_target(pair.target)) for pair in pairs]
    assert [(list(source), list(target)) for source, target in kept] == expected
    assert all(len(source) <= limit and len(target) + 1 <= limit for source, target in kept)
