"""The beginning that a user has forced on the translation, piece by piece, with who chose each piece.

It travels in the URL as ids with a mark: ``45-981!-7~`` is a piece of the model's own, one that was picked, one that
was typed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

OWN, PICKED, TYPED = "own", "picked", "typed"
_MARKS = {OWN: "", PICKED: "!", TYPED: "~"}
_HOW = {mark: how for how, mark in _MARKS.items()}
_CHOICE = re.compile(r"(\d{1,7})([!~]?)", re.ASCII)


@dataclass(frozen=True)
class Choice:
    """One piece of the forced beginning."""

    id: int
    how: str
    """``own``: the model had written it before a later piece was picked; ``picked`` or ``typed`` by the user."""


Path = tuple[Choice, ...]


def parse(text: str) -> Path:
    """Read what ``written`` wrote; nothing at all if any of it is damaged."""
    found = [_CHOICE.fullmatch(part) for part in text.split("-")] if text else []
    choices = [Choice(int(match[1]), _HOW[match[2]]) for match in found if match]
    return tuple(choices) if len(choices) == len(found) else ()


def written(path: Sequence[Choice]) -> str:
    """The path as text for the URL."""
    return "-".join(f"{choice.id}{_MARKS[choice.how]}" for choice in path)


def ids(path: Sequence[Choice]) -> tuple[int, ...]:
    """The pieces alone."""
    return tuple(choice.id for choice in path)


def typed(numbers: Sequence[int]) -> Path:
    """A beginning that was typed."""
    return tuple(Choice(number, TYPED) for number in numbers)


def picked(path: Path, before: Sequence[int], number: int) -> Path:
    """The path when, after the pieces ``before``, the piece ``number`` is picked.

    Args:
        path: as it is; where ``before`` follows it, who chose is kept.
        before: everything that has been written up to this step.
        number: the piece to write next.
    """
    kept = [
        path[place] if place < len(path) and path[place].id == own else Choice(own, OWN)
        for place, own in enumerate(before)
    ]
    return (*kept, Choice(number, PICKED))


def undone(path: Path) -> Path:
    """The path without the last thing that the user did, and without what the model wrote on its own before that: it
    writes the same again."""
    left = list(path)
    if left and left[-1].how == TYPED:
        while left and left[-1].how == TYPED:
            left.pop()
    elif left:
        left.pop()
    while left and left[-1].how == OWN:
        left.pop()
    return tuple(left)
