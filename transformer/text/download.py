"""One file from the network or from a folder: resumable, checked, and put in place whole or not at all.

Bytes go to ``NAME.part``. Only when they are all there, on the disk and of the right sha256 does the file get its name.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

from tqdm import tqdm

from transformer.errors import DownloadError, problem

_CHUNK = 1 << 18
_USER_AGENT = "Mozilla/5.0 (compatible; transformer-data/1)"  # some servers refuse whatever names urllib
_LOST = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)
_OFFLINE = "connect to the internet, or give a folder that holds the files with --from DIR"


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(url: str, path: Path, sha256: str | None = None, *, progress: bool = True, timeout: float = 30.0) -> None:
    """Fetch ``url`` to ``path``, going on where an earlier try was cut off.

    Args:
        url: http or https.
        path: where the file shall lie; folders are made, an old file is replaced.
        sha256: what the file must hash to. None takes what the server has, and then a part left by an earlier run is
            not used, for nothing could tell whether it is still a part of the same file.
        progress: show a bar on standard error.
        timeout: seconds without any byte before the connection counts as lost.

    Raises:
        DownloadError: no connection, an answer other than the file, or the wrong hash. What arrived of a file that was
            cut off stays for the next try; a part of the wrong hash is removed.
    """
    part = _part(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if sha256 is None:
            part.unlink(missing_ok=True)
        resumed = _size(part) > 0
        _transfer_all(url, part, sha256 is not None, progress, timeout)
        if resumed and sha256_of(part) != sha256:
            part.unlink()  # the old part may have been the fault: once more, from the start
            _transfer_all(url, part, sha256 is not None, progress, timeout)
        _put_in_place(part, path, sha256, url)
    except OSError as error:
        raise _write_problem(path, error) from error


def copy(source: Path, path: Path, sha256: str | None = None) -> None:
    """Copy a local file to ``path`` with the same checks as a download.

    Raises:
        DownloadError: unreadable, or of the wrong hash.
    """
    part = _part(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as incoming, part.open("wb") as outgoing:
            while chunk := incoming.read(_CHUNK):
                outgoing.write(chunk)
        _put_in_place(part, path, sha256, str(source))
    except OSError as error:
        raise _write_problem(path, error) from error


def _transfer_all(url: str, part: Path, pinned: bool, progress: bool, timeout: float) -> None:
    """Transfer until whole; a lost connection is taken up again as long as every try gets further than all before."""
    best = _size(part)
    mark: str | None = None
    while True:
        try:
            lost, mark = _transfer(url, part, mark, progress, timeout)
        except urllib.error.HTTPError as error:
            answer = f"{error.code} {error.reason}"
            raise DownloadError(problem(url, "must answer with the file", answer, _OFFLINE)) from error
        except _LOST as error:
            lost = _reason(error)
        if lost is None:
            return
        arrived = _size(part)
        if arrived <= best:
            raise DownloadError(problem(url, "must be reachable", lost, _OFFLINE))
        best = arrived
        if not pinned and mark is None:
            part.unlink()  # nothing could tell whether the rest comes from the same edition


def _transfer(url: str, part: Path, mark: str | None, progress: bool, timeout: float) -> tuple[str | None, str | None]:
    """One request. Returns why the file is not whole yet (None: it is), and the server's mark of this edition."""
    have = _size(part)
    headers = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if mark:
            headers["If-Range"] = mark  # a file that changed meanwhile comes whole, from its start
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise
        error.close()
        size = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
        if size and int(size[1]) == have:
            return None, mark
        part.unlink()  # longer than the file: it cannot be a part of it
        return _transfer(url, part, None, progress, timeout)
    with response:
        start, total = _range(response)
        if start not in (0, have):
            part.unlink(missing_ok=True)
            if not have:
                raise DownloadError(problem(url, "must answer with the whole file", "a part of it", _OFFLINE))
            return _transfer(url, part, None, progress, timeout)
        with part.open("ab" if start else "wb") as file:
            lost = _pour(response, file, url, start, total, progress)
        if lost is None and total is not None and _size(part) != total:
            lost = "the connection was cut off"
        mark = response.headers.get("ETag")
    # A weak mark does not promise equal bytes, and is not allowed in If-Range.
    return lost, mark if mark and not mark.startswith("W/") else None


def _range(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Where the bytes of an answer start in the file, and how long the file is (None: the server does not say)."""
    if response.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if not found:
            return -1, None
        return int(found[1]), None if found[2] == "*" else int(found[2])
    length = response.headers.get("Content-Length")
    return 0, int(length) if length and length.isdigit() else None


def _pour(
    response: http.client.HTTPResponse, file: IO[bytes], url: str, start: int, total: int | None, progress: bool
) -> str | None:
    """Write all that comes; returns why it stopped early, None if it ended in order."""
    name = url.rsplit("/", 1)[-1]
    bar = tqdm(desc=name, initial=start, total=total, unit="B", unit_scale=True, file=sys.stderr, disable=not progress)
    left = None if total is None else total - start
    with bar:
        while left is None or left > 0:
            try:
                chunk = response.read1(_CHUNK)
            except _LOST as error:
                return _reason(error)
            if not chunk:
                return None
            file.write(chunk)
            bar.update(len(chunk))
            left = None if left is None else left - len(chunk)
        return None


def _reason(error: BaseException) -> str:
    return str(getattr(error, "reason", "") or error or type(error).__name__)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _put_in_place(part: Path, path: Path, sha256: str | None, origin: str) -> None:
    if sha256 is not None and (found := sha256_of(part)) != sha256:
        part.unlink()
        raise DownloadError(
            problem(origin, f"must have the sha256 {sha256}", found, "the file was changed or damaged; get a good copy")
        )
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(part, path)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _write_problem(path: Path, error: OSError) -> DownloadError:
    name = error.filename if isinstance(error.filename, str) else str(path)
    return DownloadError(
        problem(
            name, "must be accessible", error.strerror or str(error), "check the path, its rights, and the free space"
        )
    )
