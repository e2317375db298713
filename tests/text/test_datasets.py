"""Named corpora: the table is consistent, and fetching is idempotent, verified and honest about other editions."""

import dataclasses
import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from transformer.errors import DataError, DownloadError
from transformer.text import datasets
from transformer.text.datasets import DATASETS, DataFile, Dataset, fetch, find, locate

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the corpora in ../shared/data")


def sha(data):
    return hashlib.sha256(data).hexdigest()


def zipped(text):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("fra.txt", text)
    return buffer.getvalue()


FILES = {"toy/a.gz": b"first", "toy/b.gz": b"second"}
KNOWN = zipped("Go.\tVa !\n")


@pytest.fixture
def toys(monkeypatch):
    files = tuple(DataFile(name, f"http://127.0.0.1:9/{name}", sha(data)) for name, data in FILES.items())
    loose = DataFile("loose/fra.zip", "http://127.0.0.1:9/fra.zip", sha(KNOWN), pinned=False)
    known = {"toy": Dataset("toy", "A toy", "Do as you like.", files), "loose": Dataset("loose", "L", "T.", (loose,))}
    monkeypatch.setattr(datasets, "DATASETS", known)


@pytest.fixture
def offline(monkeypatch):
    def refuse(url, *arguments, **options):
        raise AssertionError(f"tried to download {url}")

    monkeypatch.setattr(datasets, "download", refuse)


def lay_out(folder, flat):
    for name, data in FILES.items():
        path = folder / (Path(name).name if flat else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@pytest.mark.usefixtures("toys", "offline")
@pytest.mark.parametrize("flat", [True, False])
def test_from_a_folder(tmp_path, flat):
    lay_out(tmp_path / "from", flat)
    told = []
    folder = fetch("toy", tmp_path / "data", tmp_path / "from", report=told.append)
    assert folder == tmp_path / "data" / "toy"
    assert {path.relative_to(tmp_path / "data").as_posix(): path.read_bytes() for path in folder.iterdir()} == FILES
    assert told == ["A toy. Do as you like."]
    fetch("toy", tmp_path / "data")  # all there: needs neither folder nor network


@pytest.mark.usefixtures("toys", "offline")
def test_only_what_is_missing_or_damaged_is_fetched(tmp_path):
    lay_out(tmp_path / "data", False)
    (tmp_path / "data" / "toy" / "b.gz").write_bytes(b"damaged")
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "b.gz").write_bytes(b"second")
    fetch("toy", tmp_path / "data", tmp_path / "from")
    assert (tmp_path / "data" / "toy" / "b.gz").read_bytes() == b"second"


@pytest.mark.usefixtures("toys")
def test_refusals(tmp_path):
    with pytest.raises(DataError, match="one of toy, loose"):
        fetch("wmt14", tmp_path)
    with pytest.raises(DownloadError, match=r"--from must hold toy/a\.gz or a\.gz"):
        fetch("toy", tmp_path / "data", tmp_path)
    lay_out(tmp_path / "from", True)
    (tmp_path / "from" / "a.gz").write_bytes(b"changed")
    with pytest.raises(DownloadError, match="sha256"):
        fetch("toy", tmp_path / "data", tmp_path / "from")
    assert not list((tmp_path / "data" / "toy").glob("*"))
    with pytest.raises(DownloadError, match="--from DIR"):
        fetch("toy", tmp_path / "data", progress=False)


@pytest.mark.usefixtures("toys", "offline")
def test_another_edition_is_taken_and_reported(tmp_path):
    newer = zipped("Go.\tVa !\nHi.\tSalut !\n")
    (tmp_path / "fra.zip").write_bytes(newer)
    for _ in range(2):  # the second time it is already there, and still reported
        told = []
        folder = fetch("loose", tmp_path / "data", tmp_path, report=told.append)
        assert (folder / "fra.zip").read_bytes() == newer
        assert len(told) == 2
        assert sha(newer) in told[1]
        assert "another edition" in told[1]
    (folder / "fra.zip").unlink()
    (tmp_path / "fra.zip").write_bytes(KNOWN)
    told = []
    fetch("loose", tmp_path / "data", tmp_path, report=told.append)
    assert told == ["L. T."]


@pytest.mark.usefixtures("toys", "offline")
def test_a_web_page_instead_of_a_zip_is_refused(tmp_path):
    (tmp_path / "fra.zip").write_bytes(b"<html>Not Acceptable</html>")
    with pytest.raises(DownloadError, match="zip"):
        fetch("loose", tmp_path / "data", tmp_path)
    assert not list((tmp_path / "data" / "loose").glob("*"))


def test_the_table_is_consistent():
    assert {"multi30k", "tatoeba-eng-fra", "tatoeba-eng-deu"} <= set(DATASETS)
    files = [file for dataset in DATASETS.values() for file in dataset.files]
    assert len({file.path for file in files}) == len({file.url for file in files}) == len(files)
    for name, dataset in DATASETS.items():
        assert dataset.name == name
        assert dataset.terms.endswith(".")
        for file in dataset.files:
            assert file.path.startswith(dataset.folder + "/")
            assert file.url.startswith("https://")
            assert file.url.endswith("/" + Path(file.path).name)
            assert len(bytes.fromhex(file.sha256)) == 32
    with pytest.raises(dataclasses.FrozenInstanceError):
        files[0].sha256 = ""


def test_any_language_of_manythings_can_be_fetched(tmp_path, monkeypatch):
    italian = find("tatoeba-eng-ita")
    assert italian.files[0].url == "https://www.manythings.org/anki/ita-eng.zip"
    assert "Italian" in italian.title
    assert "'xyz'" in find("tatoeba-eng-xyz").title  # its authors may have languages that have no name here
    asked = []

    def serve(url, path, sha256, *, progress):
        asked.append((url, sha256))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zipped("Hi.\tCiao!\n"))

    monkeypatch.setattr(datasets, "download", serve)
    told = []
    for _ in range(2):  # the second time it is there
        assert fetch("tatoeba-eng-ita", tmp_path, report=told.append) == tmp_path / "tatoeba"
    assert asked == [(italian.files[0].url, None)]
    assert told == [f"{italian.title}. {italian.terms}"] * 2  # no edition is known, so none is another one
    assert locate("tatoeba-eng-ita", tmp_path) == tmp_path / "tatoeba"


@pytest.mark.parametrize("name", ["tatoeba-eng-", "tatoeba-eng-it", "tatoeba-eng-ITA", "tatoeba-eng-../", "ita"])
def test_a_code_that_is_none_is_refused(name):
    with pytest.raises(DataError, match="tatoeba-eng-XXX"):
        find(name)


@needs_shared
def test_known_hashes_are_the_published_ones():
    sums = dict(reversed(line.split()) for line in (SHARED / "SHA256SUMS").read_text().splitlines())
    known = {file.path: file.sha256 for dataset in DATASETS.values() for file in dataset.files}
    assert known == {path: value for path, value in sums.items() if path.split("/")[0] in ("multi30k", "tatoeba")}


@needs_shared
@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", ["multi30k", "tatoeba-eng-fra", "tatoeba-eng-deu"])
def test_real_corpora_from_a_folder(tmp_path, name):
    folder = fetch(name, tmp_path, SHARED)
    assert len(list(folder.iterdir())) == len(DATASETS[name].files)


def test_locate_finds_what_was_fetched_and_never_downloads(toys, tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("nothing may be downloaded")

    monkeypatch.setattr(datasets, "download", refuse)
    with pytest.raises(DataError, match=r"corpus toy must be fetched first.*python -m transformer data toy --data"):
        locate("toy", tmp_path)
    (tmp_path / "toy").mkdir()
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    assert locate("toy", tmp_path) == tmp_path / "toy"
    (tmp_path / "toy/b.gz").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"b\.gz must be the published file"):
        locate("toy", tmp_path)
    with pytest.raises(DataError, match="must be one of"):
        locate("nowhere", tmp_path)
