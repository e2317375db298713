"""What a toy in training makes of one sequence of letters, by the snapshots of its run.

A run in progress is no checkpoint yet, so the model is put together from what the run has written: the recipe, the
tokenizer, and the weights of a snapshot. Only numpy arrays are kept of it.

Letters: L decoder layers, H heads, n letters of the sequence.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer.capture.record import AttentionRecord
from transformer.catalogue import TOKENIZER, snapshot_of
from transformer.checkpoint import Checkpoint
from transformer.config import EOS_ID
from transformer.engine import Translator
from transformer.errors import CheckpointError, ConfigError, InputError, problem
from transformer.lessons.snapshots import look
from transformer.nn.model import Transformer
from transformer.text.synthetic import ALPHABET
from transformer.text.tokenizer import Tokenizer
from transformer.training.averaging import load_weights, mean_of
from transformer.training.recipe import Recipe, recipe_from

LANGUAGES = {"source": "letters", "target": "reversed letters", "source_code": "abc", "target_code": "cba"}
MOST = 16
"""Letters of a sequence that may be asked about: twice as many as the training shows."""


@dataclass(frozen=True, eq=False)
class Glimpse:
    """What the model, as it was after some updates, makes of a sequence."""

    step: int
    letters: tuple[str, ...]
    written: tuple[str, ...]
    """Its own answer by greedy search, split at spaces; cut off when it is some 20 pieces longer than the input."""
    finished: bool
    """False if the answer was cut off."""
    loss: float
    """Of the right answer, nats per piece, ``<EOS>`` included."""
    record: AttentionRecord
    """The attention while it is made to write the right answer."""
    parameters: int
    """Of the model."""

    @property
    def right(self) -> bool:
        """Whether its own answer is the right one."""
        return self.finished and self.written == self.letters[::-1]

    @property
    def probability(self) -> float:
        """Geometric mean of the probabilities of the right answer's pieces."""
        return math.exp(-self.loss)

    @property
    def mirrored(self) -> NDArray[np.float64]:
        """[L, H] the share of the cross-attention that lies on the letter to be copied, mean of the n rows that write
        a letter: 1 if the map is the other diagonal and nothing else, 1 / (n + 2) if it is even."""
        return mirrored(self.record.cross)


def read_letters(text: str) -> tuple[str, ...]:
    """The letters of a sequence as typed, with spaces and commas between them or without, in small letters.

    Raises:
        InputError: nothing, too many, or what is no letter of the toy.
    """
    letters = tuple("".join(text.lower().replace(",", " ").split()))
    if not 1 <= len(letters) <= MOST:
        raise InputError(problem("sequence", f"must have 1 to {MOST} letters", text, "make it longer or shorter"))
    wrong = next((letter for letter in letters if letter not in ALPHABET), None)
    if wrong is not None:
        raise InputError(
            problem("sequence", f"must hold the letters {ALPHABET[0]} to {ALPHABET[-1]}", wrong, "take it out")
        )
    return letters


def mirrored(cross: NDArray[np.float32]) -> NDArray[np.float64]:
    """The share of cross-attention [L, H, n + 1, n + 2] on the mirrored place; see ``Glimpse.mirrored``.

    Rows write the n letters and ``<EOS>``, columns are ``<SOS>``, the n letters and ``<EOS>``: row t should copy from
    column n - t.
    """
    count = cross.shape[-1] - 2
    rows = np.arange(count)
    shares: NDArray[np.float64] = cross[:, :, rows, count - rows].astype(np.float64).mean(axis=-1)
    return shares


def glimpses(folder: Path, letters: tuple[str, ...], steps: Sequence[int]) -> list[Glimpse]:
    """Ask the snapshots of a run about a sequence.

    Args:
        folder: of the run, as ``--out`` names it.
        letters: as ``read_letters`` gives them.
        steps: after which updates; snapshots of these must have been kept.

    Raises:
        CheckpointError: a file is missing or damaged.
        TrainingError: a snapshot is.
    """
    if not steps:
        return []
    recipe, tokenizer = _recipe(folder / "training" / "recipe.json"), Tokenizer.load(folder / TOKENIZER)
    model = Transformer(recipe.model_config(tokenizer.vocab_size)).eval().requires_grad_(False)
    text, answer = " ".join(letters), " ".join(reversed(letters))
    found = []
    for step in steps:
        path = snapshot_of(folder, step)
        load_weights(model, mean_of([path]))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        translator = Translator(
            Checkpoint(
                f"{folder.name}@{step}",
                folder,
                model,
                tokenizer,
                model.config,
                LANGUAGES,
                {},
                digest,
                digest,
                "float16",
            )
        )
        ids = (*translator.ids_of(answer), EOS_ID)
        seen = look(translator, text, ids)
        found.append(
            Glimpse(
                step=step,
                letters=letters,
                written=tuple(seen.text.split()),
                finished=seen.finished,
                loss=seen.loss,
                record=translator.inspect(text, target_ids=ids),
                parameters=translator.parameter_count,
            )
        )
    return found


def _recipe(path: Path) -> Recipe:
    try:
        return recipe_from(json.loads(path.read_bytes()))
    except (OSError, ValueError, AttributeError, ConfigError) as error:
        raise CheckpointError(f"{path} must be the recipe of a run, but it could not be read ({error}).") from error
