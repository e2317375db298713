"""The corpora that the project knows by name, where their authors publish them, and what they must hash to."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer.errors import DataError, DownloadError, problem
from transformer.text.download import copy, download, sha256_of


@dataclass(frozen=True)
class DataFile:
    """One published file."""

    path: str
    """Where it lies below the data folder: "multi30k/train.en.gz"."""
    url: str
    sha256: str
    """Of the copy that the project's scores were computed with; empty if it computed none."""
    pinned: bool = True
    """False for a file that its authors update: another hash than a known one is then reported, not refused."""


@dataclass(frozen=True)
class Dataset:
    """A named corpus."""

    name: str
    title: str
    terms: str
    """What its authors allow, in one sentence."""
    files: tuple[DataFile, ...]

    @property
    def folder(self) -> str:
        """The folder of its files below the data folder."""
        return self.files[0].path.split("/", maxsplit=1)[0]


_MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"
_MULTI30K_RAW = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    "test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "test_2017_flickr.fr.gz": "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496",
    "test_2017_mscoco.de.gz": "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338",
    "test_2017_mscoco.en.gz": "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58",
    "test_2017_mscoco.fr.gz": "754f3072ba9f124569ba5258b32730fc1d214bbf8e0c6dfb2b74401676220db0",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
}
_MULTI30K_TOKENISED = {
    "test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    "test_2016_flickr.lc.norm.tok.fr": "1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836",
    "test_2017_flickr.lc.norm.tok.de": "02067e4a9402786a4fcb8c1b6f4307e4a5073ced64800abead5273b54f5f31f6",
    "test_2017_flickr.lc.norm.tok.fr": "c0583117a47b31e8a6c6a97cfe8de153e462074668f4e994764fcc80b21d33b4",
    "test_2017_mscoco.lc.norm.tok.de": "e2825990b8a4e5289d2cdba801d57c187810bab9b4f5d87a30c35800a0d871b6",
    "test_2017_mscoco.lc.norm.tok.fr": "0b6a4620f02b6b9acf7811fda23f90fed9c6baa0b96aa224db50a273078c84d1",
}


def _multi30k() -> Dataset:
    raw = (DataFile(f"multi30k/{name}", f"{_MULTI30K_URL}/raw/{name}", sha) for name, sha in _MULTI30K_RAW.items())
    tok = (
        DataFile(f"multi30k/{name}", f"{_MULTI30K_URL}/tok/{name}", sha) for name, sha in _MULTI30K_TOKENISED.items()
    )
    return Dataset(
        "multi30k",
        "Multi30k: image captions in English, German and French (Elliott et al. 2016)",
        "For research and education only, not for commercial use (github.com/multi30k/dataset).",
        (*raw, *tok),
    )


_TATOEBA = "tatoeba-eng-"
_LANGUAGES = {
    "deu": "German",
    "fra": "French",
    "ita": "Italian",
    "jpn": "Japanese",
    "nld": "Dutch",
    "pol": "Polish",
    "por": "Portuguese",
    "rus": "Russian",
    "spa": "Spanish",
    "swe": "Swedish",
    "tur": "Turkish",
    "ukr": "Ukrainian",
}


def _tatoeba(code: str, sha256: str = "") -> Dataset:
    """The pairs of English and the language of a code of three letters, as manythings.org names it."""
    file = f"{code}-eng.zip"
    language = _LANGUAGES.get(code, f"the language {code!r}")
    return Dataset(
        f"{_TATOEBA}{code}",
        f"Everyday sentences in English and {language} from tatoeba.org, as paired by manythings.org",
        "Creative Commons Attribution 2.0 (CC BY 2.0 FR); name tatoeba.org and manythings.org/anki as the source.",
        (DataFile(f"tatoeba/{file}", f"https://www.manythings.org/anki/{file}", sha256, pinned=False),),
    )


DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        _multi30k(),
        _tatoeba("fra", "161c93f18da3a7e6df611ed961426613260de8af06ccf8c79c977afe5135ac44"),
        _tatoeba("deu", "b7688f84f99fa33c17397c14d8bd9cef1fdeb2ee0bf50074767023aee8926e28"),
    )
}
"""The corpora that the project trains and scores with; ``find`` knows more."""


def find(name: str, argument: str = "data set", also: Sequence[str] = ()) -> Dataset:
    """A corpus by its name: one of ``DATASETS``, or ``tatoeba-eng-XXX`` for any language XXX of manythings.org/anki.

    Args:
        name: the name.
        argument: what it was given for, and
        also: what else could be given there, for the message of an error.

    Raises:
        DataError: a name that is not known.
    """
    if name in DATASETS:
        return DATASETS[name]
    code = name.removeprefix(_TATOEBA)
    if len(code) == 3 and name != code and code.isascii() and code.isalpha() and code.islower():
        return _tatoeba(code)
    known = f"one of {', '.join([*also, *DATASETS])}, or {_TATOEBA}XXX with a code of manythings.org/anki such as ita"
    raise DataError(problem(argument, f"must be {known}", name, "choose one of them"))


def fetch(
    name: str,
    data_dir: Path | str,
    from_dir: Path | str | None = None,
    progress: bool = True,
    report: Callable[[str], None] | None = None,
) -> Path:
    """Have all files of a named corpus below ``data_dir``, verified; a file that is there is not fetched again.

    Args:
        name: as ``find`` knows it.
        data_dir: files go to ``data_dir/FOLDER/FILE``.
        from_dir: take files from ``from_dir/FOLDER/FILE`` or ``from_dir/FILE``, not from the network.
        progress: show bars on standard error.
        report: called with sentences for people: the terms of use, and which files differ from the known copy. By
            default they go to standard error.

    Returns:
        The folder that holds the files.

    Raises:
        DataError: a name that is not known.
        DownloadError: a file that could not be had.
    """
    dataset = find(name)
    tell = report or _to_standard_error
    tell(f"{dataset.title}. {dataset.terms}")
    for file in dataset.files:
        _fetch_file(file, Path(data_dir), Path(from_dir) if from_dir is not None else None, progress, tell)
    return Path(data_dir) / dataset.folder


def locate(name: str, data_dir: Path | str) -> Path:
    """The folder of a named corpus that was fetched before; nothing is downloaded.

    Raises:
        DataError: a name that is not known, or a file that is missing or damaged.
    """
    dataset = find(name)
    for file in dataset.files:
        path = Path(data_dir) / file.path
        command = f"python -m transformer data {name} --data {data_dir}"
        if not path.is_file():
            raise DataError(problem(f"corpus {name}", "must be fetched first", f"no {path}", f"run {command}"))
        if file.pinned and sha256_of(path) != file.sha256:
            raise DataError(problem(str(path), "must be the published file", "another content", f"run {command}"))
    return Path(data_dir) / dataset.folder


def _fetch_file(
    file: DataFile, data_dir: Path, from_dir: Path | None, progress: bool, tell: Callable[[str], None]
) -> None:
    path = data_dir / file.path
    expected = file.sha256 if file.pinned else None
    there = path.is_file() and (sha256_of(path) == file.sha256 or (not file.pinned and zipfile.is_zipfile(path)))
    if not there:
        if from_dir is None:
            download(file.url, path, expected, progress=progress)
        else:
            copy(_local(file, from_dir), path, expected)
    if file.pinned:
        return
    if not zipfile.is_zipfile(path):
        path.unlink()
        raise DownloadError(
            problem(file.url, "must give a zip file", "something else", "fetch it by hand, use --from DIR")
        )
    if file.sha256 and (found := sha256_of(path)) != file.sha256:
        tell(
            f"{file.path} is another edition than the one that the project's scores were computed with "
            f"(sha256 {found}, not {file.sha256}): scores will differ a little."
        )


def _local(file: DataFile, from_dir: Path) -> Path:
    candidates = (from_dir / file.path, from_dir / Path(file.path).name)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise DownloadError(
        problem("--from", f"must hold {file.path} or {Path(file.path).name}", str(from_dir), "check the folder")
    )


def _to_standard_error(sentence: str) -> None:
    print(sentence, file=sys.stderr)
