"""Which checkpoints there are and where, found without loading PyTorch, so that lists and pickers are quick."""

from __future__ import annotations

import json
import os
from pathlib import Path

from transformer.errors import CheckpointError, problem

WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.model"
"""The files of a checkpoint that are read."""

SNAPSHOTS = "snapshots"
"""The folder in a checkpoint of its weights as they were on the way."""
_SNAPSHOT = "step-{:06d}.safetensors"


def resolve(name_or_path: Path | str) -> Path:
    """The folder of a checkpoint, given a path or the name of one under ``checkpoints/``.

    Names are looked up under the working directory first, then beside the package.

    Raises:
        CheckpointError: there is none; the message lists the names there are.
    """
    text = str(name_or_path)
    path = Path(os.path.expanduser(text))  # where Path.expanduser raises, on an unknown user, this leaves the text
    if _is_checkpoint(path):
        return path
    there_are = found()
    if text in there_are:
        return there_are[text]
    names = list(there_are)
    there = f"the names there are: {', '.join(names)}" if names else "train one, or give its path"
    if os.path.isdir(path / "training"):
        rule = "must be a finished run"
        there = "go on with it by train … --resume; it becomes a checkpoint when it ends"
    elif os.path.isdir(path):
        rule = f"must be a folder with a {CONFIG}"
    elif os.path.exists(path):
        rule = "must be a folder"
    else:
        rule = "must be a folder, or the name of one under checkpoints/"
    raise CheckpointError(problem("checkpoint", rule, text, there))


def snapshot_of(folder: Path, step: int) -> Path:
    """Where the weights after an update of a training are, if they were kept."""
    return folder / SNAPSHOTS / _SNAPSHOT.format(step)


def snapshots(folder: Path) -> dict[int, Path]:
    """The weights that a checkpoint keeps of the way there, by the number of updates, in their order."""
    kept = {}
    for path in (folder / SNAPSHOTS).glob("step-*.safetensors"):
        number = path.stem.removeprefix("step-")
        if number.isdecimal() and snapshot_of(folder, int(number)) == path:
            kept[int(number)] = path
    return dict(sorted(kept.items()))


def available() -> list[str]:
    """Names of the checkpoints under ``checkpoints/``: those marked as default first, then by alphabet."""
    return list(found())


def found() -> dict[str, Path]:
    """The checkpoints under ``checkpoints/`` by name, in the order of ``available``.

    A folder whose name cannot be written as text is left out: neither a link nor a page could name it.
    """
    folders: dict[str, Path] = {}
    for root in _roots():
        try:
            inside = sorted(root.iterdir())
        except OSError:
            continue
        for folder in inside:
            if _is_checkpoint(folder) and _is_text(folder.name):
                folders.setdefault(folder.name, folder)
    first = {name: _is_default(folder / CONFIG) for name, folder in folders.items()}
    return {name: folders[name] for name in sorted(folders, key=lambda name: (not first[name], name))}


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _roots() -> list[Path]:
    roots = [Path.cwd() / "checkpoints", Path(__file__).resolve().parent.parent / "checkpoints"]
    return list(dict.fromkeys(roots))


def _is_checkpoint(folder: Path) -> bool:
    return os.path.isfile(folder / CONFIG)  # where a Path's own methods raise, on a name too long, this says no


def _is_default(config: Path) -> bool:
    try:
        values = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(values, dict) and values.get("default") is True
