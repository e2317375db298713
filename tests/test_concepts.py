"""docs/concepts.md names sixteen ideas; every section and every test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from transformer.webapp.frame import PAGES

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| \d", line)
]
ADDRESSES = [address for row in ROWS for address in re.findall(r"`/([^`]*)`", row[2])]
TESTS = [name for row in ROWS for name in re.findall(r"`([^`]*)`", row[3])]


def anchors(page: str) -> set[str]:
    """The first argument of every call of ``section`` in the modules of a lesson."""
    found = set()
    for path in (ROOT / "transformer" / "webapp" / "lessons").glob(f"{page}_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "section":
                found.add(ast.literal_eval(node.args[0]))
    return found


def test_all_sixteen_have_a_section_and_a_test() -> None:
    assert [row[0] for row in ROWS] == [str(number) for number in range(1, 17)]
    assert all(row[2] and row[3] for row in ROWS)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_section_exists(address: str) -> None:
    page, _, anchor = address.partition("#")
    assert page in [spec.file for spec in PAGES]
    assert not anchor or anchor in anchors(page)


def test_no_section_is_left_out() -> None:
    lessons = [spec.file for spec in PAGES if spec.group == "Understand"]
    assert {f"{page}#{anchor}" for page in lessons for anchor in anchors(page)} <= set(ADDRESSES)


@pytest.mark.parametrize("name", TESTS)
def test_a_test_exists(name: str) -> None:
    path, _, function = name.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert not function or f"def {function}(" in text
