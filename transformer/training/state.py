"""The saved state of a run: everything that its next step depends on, kept so that no crash can take the run along.

Two states lie in ``training/``: the last one and the one before. A state is written beside its place, brought to the
disk and renamed, so it is whole or not there; should the last one be damaged all the same, the one before serves.
A third one is there for a moment, before the other two make room for it, or if a crash came in that moment.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from transformer.errors import TrainingError, problem
from transformer.files import sync_folder, write_atomically
from transformer.training.recipe import Recipe
from transformer.training.writing import writing

STATE, PREVIOUS, NEW = "state.pt", "state.previous.pt", "state.new.pt"

VERSION = 2
"""Of the form of a state and of how random draws are seeded; what another one wrote cannot go on exactly."""

FREE = {
    "accumulate",  # its product with the number of processes is compared instead, in Trainer.resume
    "average",
    "average_of",
    "device",
    "epochs",
    "log_every",
    "patience",
    "save_minutes",
    "stop_at",
    "tensorboard",
    "threads",
}
"""Values of [training] that a resumed run may change."""


def exists(folder: Path) -> bool:
    """Whether a run was saved in ``folder``, its ``training/`` folder."""
    return any((folder / name).is_file() for name in (NEW, STATE, PREVIOUS))


def write_state(folder: Path, content: dict[str, Any]) -> None:
    """Write the state into a ``training/`` folder and keep the one before.

    Raises:
        TrainingError: it cannot be written; the states that are there stay as they are.
    """
    buffer = io.BytesIO()
    torch.save(content, buffer)
    with writing("state of the run", folder):
        write_atomically(folder / NEW, buffer.getvalue())
        _make_room(folder)


def read_state(folder: Path, recipe: Recipe, tell: Callable[[str], None]) -> dict[str, Any]:
    """The last good state in a ``training/`` folder, for ``Trainer.resume``.

    Args:
        folder: where ``write_state`` wrote.
        recipe: the recipe that is to go on.
        tell: told if the last state is damaged and the one before is used. The damaged one is put aside, lest the next
            save keep it as the one before.

    Raises:
        TrainingError: no state, only damaged ones, or one of another recipe; the message names what differs.
    """
    damaged = []
    for name in (NEW, STATE, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        content = _load(path)
        if content is None:
            damaged.append(path)
            continue
        if content.get("version") != VERSION:
            raise TrainingError(
                problem(
                    f"{path}",
                    f"must be of version {VERSION}",
                    content.get("version", 1),
                    "finish that run with the release that began it, or start anew in another --out",
                )
            )
        if differences := _differences(content["recipe"], recipe.to_dict()):
            raise TrainingError(
                f"--resume must continue the recipe of the run, but these values differ: {', '.join(differences)}: "
                "take them back, or name another --out."
            )
        if damaged or name == PREVIOUS:
            lost = f"{damaged[0]} is damaged" if damaged else f"there is no {folder / STATE}"
            tell(f"The last saved state is lost ({lost}); going on from the one before, {path}.")
        with writing("state of the run", folder):
            for lost_one in damaged:
                lost_one.replace(lost_one.with_suffix(".damaged"))
            if name == NEW:
                _make_room(folder)
        return content
    if damaged:
        raise TrainingError(
            problem(
                "saved state",
                "must be whole",
                " and ".join(path.name for path in damaged),
                f"restore one in {folder}, or delete what is there of them and start without --resume",
            )
        )
    raise TrainingError(problem("--resume", "needs a saved state", str(folder / STATE), "start without --resume"))


def _make_room(folder: Path) -> None:
    """Put the new state into the place of the last one, and that into the place of the one before."""
    if (folder / STATE).is_file():
        (folder / STATE).replace(folder / PREVIOUS)
    (folder / NEW).replace(folder / STATE)
    sync_folder(folder)


def _load(path: Path) -> dict[str, Any] | None:
    """The content of a state file; None if it is damaged (its checksums are looked at, not only its form)."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:
                return None
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return content if {"recipe", "progress", "model", "optimizer"} <= content.keys() else None
    except Exception:  # zipfile and torch.load raise many kinds for a damaged file
        return None


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Values that a resumed run may not change, as "section.key was old, is new".

    A key that an older version did not know had what is now its default.
    """
    defaults = Recipe().to_dict()
    found = []
    for section in ("data", "tokenizer", "model", "training"):
        for key in sorted({*old[section], *new[section]}):
            if section == "training" and key in FREE:
                continue
            default = defaults[section].get(key)
            was, now = old[section].get(key, default), new[section].get(key, default)
            if was != now:
                found.append(f"{section}.{key} was {was!r}, is {now!r}")
    return found
