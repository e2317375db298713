"""The saved state of a run: everything that its next step depends on, kept so that no crash can take the run along.

Two states lie in ``training/``: the last one and the one before. A state is written beside its place, brought to the
disk and renamed, so it is whole or not there; should the last one be damaged all the same, the one before serves.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from transformer.errors import TrainingError, problem
from transformer.files import write_atomically
from transformer.training.recipe import Recipe

STATE, PREVIOUS = "state.pt", "state.previous.pt"

FREE = {"epochs", "stop_at", "patience", "average", "save_minutes", "log_every", "threads", "device"}
"""Values of [training] that a resumed run may change."""


def exists(folder: Path) -> bool:
    """Whether a run was saved in ``folder``, its ``training/`` folder."""
    return (folder / STATE).is_file() or (folder / PREVIOUS).is_file()


def write_state(folder: Path, content: dict[str, Any]) -> None:
    """Write the state into a ``training/`` folder and keep the one before.

    Raises:
        TrainingError: it cannot be written; the states that are there stay as they are.
    """
    buffer = io.BytesIO()
    torch.save(content, buffer)
    fresh = folder / "state.new.pt"
    try:
        write_atomically(fresh, buffer.getvalue())
        if (folder / STATE).is_file():
            (folder / STATE).replace(folder / PREVIOUS)
        fresh.replace(folder / STATE)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise TrainingError(
            problem("state of the run", "must be writable", str(folder), f"free space, then resume ({error.strerror})")
        ) from error


def read_state(folder: Path, recipe: Recipe, tell: Callable[[str], None]) -> dict[str, Any]:
    """The last good state in a ``training/`` folder, for ``Trainer.resume``.

    Args:
        folder: where ``write_state`` wrote.
        recipe: the recipe that is to go on.
        tell: told if the last state is damaged and the one before is used.

    Raises:
        TrainingError: no state, only damaged ones, or one of another recipe; the message names what differs.
    """
    damaged = []
    for name in (STATE, PREVIOUS):
        path = folder / name
        if not path.is_file():
            continue
        content = _load(path)
        if content is None:
            damaged.append(path)
            continue
        if differences := _differences(content["recipe"], recipe.to_dict()):
            raise TrainingError(
                f"--resume must continue the recipe of the run, but these values differ: {', '.join(differences)}: "
                "take them back, or name another --out."
            )
        if name == PREVIOUS:
            lost = f"{damaged[0]} is damaged" if damaged else f"there is no {folder / STATE}"
            tell(f"The last saved state is lost ({lost}); going on from the one before, {path}.")
        return content
    if damaged:
        raise TrainingError(
            problem("saved state", "must be whole", str(damaged[0]), "delete it and start without --resume")
        )
    raise TrainingError(problem("--resume", "needs a saved state", str(folder / STATE), "start without --resume"))


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
