"""Reading must never pair the wrong lines; cleaning must account for every pair; splitting must not leak."""

import gzip
import hashlib
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.errors import ConfigError, DataError
from transformer.text.corpus import (
    Pair,
    clean,
    read_lines,
    read_manythings,
    read_parallel,
    read_tsv,
    references_by_source,
    split_by_source,
)

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the corpora in ../shared/data")

BREAKS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\r"
SENTENCE = st.text(st.sampled_from("ab é漢😀'\"" + BREAKS), max_size=12).map(lambda text: text.rstrip("\r"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_lines_end_at_line_feeds_only(tmp_path_factory, pairs, ending, last_ending, mark, packed):
    folder = tmp_path_factory.mktemp("corpus")
    if not last_ending and not (pairs[-1][0] and pairs[-1][1]):
        last_ending = True  # an empty last line without a line end is no line
    paths = []
    for side in (0, 1):
        text = ending.join(pair[side] for pair in pairs) + (ending if last_ending else "")
        data = (b"\xef\xbb\xbf" if mark else b"") + text.encode("utf-8")
        paths.append(folder / f"side{side}{'.gz' if packed else ''}")
        paths[-1].write_bytes(gzip.compress(data, 1) if packed else data)
    assert read_parallel(*paths) == [Pair(*pair) for pair in pairs]


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    assert read_lines(tmp_path / "empty") == []


def test_unequal_files_are_refused_with_both_counts(tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    with pytest.raises(DataError, match=r"a\.en.*a\.de.*3 and 2"):
        read_parallel(tmp_path / "a.en", tmp_path / "a.de")


def test_bad_bytes_name_file_and_line(tmp_path):
    (tmp_path / "latin1.de").write_bytes("gut\nschön\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin1\.de, line 2, must be UTF-8") as refused:
        read_lines(tmp_path / "latin1.de")
    assert "\n" not in str(refused.value)


def test_missing_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.en must be a readable file"):
        read_lines(tmp_path / "nothing.en")
    packed = gzip.compress(b"some text\n" * 1000)
    for number, data in enumerate((packed[:-20], b"plain text\n", packed[:30] + b"\x00\xff" + packed[32:])):
        path = tmp_path / f"{number}.gz"
        path.write_bytes(data)
        with pytest.raises(DataError, match="gzip"):
            read_lines(path)


def test_tsv_columns(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text('1\tHi.\tSalut !\t"x\n\n2\t"Run\tCours !\n', encoding="utf-8")
    assert read_tsv(path, 1, 2) == [Pair("Hi.", "Salut !"), Pair('"Run', "Cours !")]
    assert read_tsv(path, 2, 0) == [Pair("Salut !", "1"), Pair("Cours !", "2")]
    with pytest.raises(DataError, match="line 3, must have at least 4 columns"):
        read_tsv(path, 0, 3)
    with pytest.raises(ConfigError, match="columns"):
        read_tsv(path, 1, 1)


@pytest.mark.parametrize("attribution", ["", "\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (A) & #2 (B)"])
def test_manythings_zip(tmp_path, attribution):
    path = tmp_path / "fra-eng.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("fra-eng/_about.txt", "about these files")
        archive.writestr("__MACOSX/fra-eng/._fra.txt", b"\x00\xff")
        archive.writestr("fra-eng/fra.txt", f"Go.\tVa !{attribution}\nGo.\tMarche.{attribution}\n")
    assert read_manythings(path) == [Pair("Go.", "Va !"), Pair("Go.", "Marche.")]
    assert read_manythings(path, swap=True) == [Pair("Va !", "Go."), Pair("Marche.", "Go.")]


def test_manythings_refuses_other_files(tmp_path):
    path = tmp_path / "x.zip"
    path.write_bytes(b"<html>Not Acceptable</html>")
    with pytest.raises(DataError, match=r"x\.zip must be a whole zip"):
        read_manythings(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_about.txt", "nothing else")
    with pytest.raises(DataError, match="exactly one"):
        read_manythings(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("fra.txt", "Go.\tVa !\nno tab here\n")
    with pytest.raises(DataError, match=r"fra\.txt, line 2"):
        read_manythings(path)


PAIRS = st.lists(st.builds(Pair, st.text("ab ", max_size=5), st.text("ab ", max_size=70)), max_size=30)


@settings(max_examples=80, deadline=None)
@given(PAIRS)
def test_cleaning_accounts_for_every_pair(pairs):
    kept, report = clean(pairs, max_ratio=2, max_characters=60, ratio_from=4)
    assert report.total == len(pairs)
    assert report.kept == len(kept) == len(set(kept))
    assert report.total == report.kept + report.empty + report.too_long + report.bad_ratio + report.duplicates
    stripped = [Pair(pair.source.strip(), pair.target.strip()) for pair in pairs]
    assert [pair for pair in dict.fromkeys(stripped) if pair in set(kept)] == kept
    for pair in dict.fromkeys(stripped):
        shorter, longer = sorted(map(len, (pair.source, pair.target)))
        assert (pair in kept) == (shorter > 0 and longer <= 60 and (longer < 4 or longer <= 2 * shorter))
    assert clean(kept, max_ratio=2, max_characters=60, ratio_from=4)[0] == kept


def test_cleaning_report_names_each_reason():
    pairs = [
        Pair("Hello.", "Bonjour."),
        Pair("Hello. ", "Bonjour."),
        Pair("Hello.", "Salut."),
        Pair("", "Rien."),
        Pair("x" * 1001, "x" * 1001),
        Pair("Hi.", "y" * 50),
        Pair("Hi.", "Bonjour, mon cher monsieur !"),
    ]
    kept, report = clean(pairs)
    assert kept == [Pair("Hello.", "Bonjour."), Pair("Hello.", "Salut."), Pair("Hi.", "Bonjour, mon cher monsieur !")]
    assert str(report) == ("kept 3 of 7 pairs (dropped: 1 empty, 1 too long, 1 of unlikely length ratio, 1 duplicates)")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.builds(Pair, st.integers(0, 300).map("sentence {}".format), st.text("xyz", max_size=3)), max_size=60)
)
def test_no_sentence_lies_in_two_parts(pairs):
    split = split_by_source(pairs)
    assert Counter(split.train + split.dev + split.test) == Counter(pairs)
    sides = [{pair.source for pair in part} for part in split]
    assert not sides[0] & sides[1]
    assert not sides[0] & sides[2]
    assert not sides[1] & sides[2]
    swapped = split_by_source([Pair(pair.target, pair.source) for pair in pairs], side="target")
    assert [[Pair(pair.target, pair.source) for pair in part] for part in swapped] == list(split)


def test_split_follows_the_published_rule():
    # Remainders computed with the sha256sum and bc programs: 1, 86, 0 and 2.
    sentences = ["Hi. ", "I love you.", '"Objection!" "Sustained!"', '"I am a teacher." "So am I."']
    split = split_by_source(Pair(sentence, "-") for sentence in sentences)
    assert [[pair.source for pair in part] for part in split] == [
        ["I love you.", '"I am a teacher." "So am I."'],
        ["Hi. "],
        ['"Objection!" "Sustained!"'],
    ]
    with pytest.raises(ConfigError, match="side"):
        split_by_source([], side="english")


def test_references_keep_the_order_of_the_corpus():
    pairs = [Pair("Go.", "Va !"), Pair("Hi.", "Salut !"), Pair("Go. ", "Marche."), Pair("Go.", "Va !")]
    assert references_by_source(pairs) == {"Go.": ["Va !", "Marche."], "Hi.": ["Salut !"]}
    assert list(references_by_source(pairs)) == ["Go.", "Hi."]


@needs_shared
@pytest.mark.parametrize(("name", "count"), [("train", 29_000), ("val", 1_014), ("test_2017_mscoco", 461)])
def test_multi30k_is_paired_line_by_line(name, count):
    pairs = read_parallel(SHARED / "multi30k" / f"{name}.en.gz", SHARED / "multi30k" / f"{name}.de.gz")
    assert len(pairs) == count
    if name == "train":
        assert pairs[0].source.startswith("Two young, White males")
        assert pairs[0].target.startswith("Zwei junge weiße Männer")


@needs_shared
@pytest.mark.parametrize(("code", "count"), [("fra", 167_130), ("deu", 169_813)])
def test_tatoeba_counts(code, count):
    pairs = read_manythings(SHARED / "tatoeba" / f"{code}-eng.zip")
    assert len(pairs) == count
    split = split_by_source(pairs[:20_000])
    assert {len(part) > 100 for part in split} == {True}
    tested = next(pair.source for pair in split.test)
    assert int(hashlib.sha256(tested.encode()).hexdigest(), 16) % 100 == 0
