"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from transformer.files import remedy, remove_leftovers, write_atomically


def test_a_write_that_fails_names_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        write_atomically(path, b"data")
    assert caught.value.filename == str(path)
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_only_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    mine = [".gitignore", "notes.tmp", ".notes.tmp", ".state.pt.12-xyz.tmp", "state.pt"]
    for name in [*mine, ".state.pt.4321-0a1b2c3d.tmp"]:
        (tmp_path / name).write_bytes(b"data")
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(mine)
    remove_leftovers(tmp_path / "missing")


@pytest.mark.parametrize(
    ("number", "cure"),
    [(errno.ENOSPC, "free space"), (errno.EDQUOT, "free space"), (errno.EFBIG, "free space"), (errno.EACCES, "else")],
)
def test_what_to_do_depends_on_the_reason(number: int, cure: str) -> None:
    assert remedy(OSError(number, "why"), "else") == cure
