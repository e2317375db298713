"""``python -m benchmarks.greedy MODEL``: sentences on which greedy search is beaten by beam search.

The sentences are our own: every one that the small grammar below makes (or a sample of them), or the lines of a file.
Those are printed for which the beam finds a translation that the model itself finds more probable than the one that
greedy search ends with, the widest gap first. ``transformer/webapp/search/examples.py`` holds some that were found so.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common import count, emit, leave, tell
from transformer.analysis.beam import parting
from transformer.errors import InputError, problem

if TYPE_CHECKING:
    from transformer.engine import Translation, Translator

WHO = (
    "A man",
    "Two women",
    "A little girl in a yellow dress",
    "Several people",
    "An old man with a white beard",
    "A group of children",
    "The woman in the black coat",
    "Three boys",
)
DOING = (
    ("is waiting", "are waiting"),
    ("is looking", "are looking"),
    ("is carrying a large box", "are carrying a large box"),
    ("is playing the guitar", "are playing the guitar"),
    ("is taking a picture", "are taking a picture"),
    ("is riding a bicycle", "are riding bicycles"),
    ("is talking on the phone", "are talking to each other"),
    ("is climbing a rock", "are climbing a rock"),
    ("is selling fruit", "are selling fruit"),
)
WHERE = (
    "at the bus stop",
    "in front of a large building",
    "on a crowded street",
    "by the sea",
    "while a dog is watching",
    "next to a red car",
    "under a bridge at night",
    "with the mountains in the background",
    "in the middle of a field",
)
PLURAL = ("Two", "Several", "A group", "Three")


def sentences() -> Iterator[str]:
    """Every sentence of the grammar."""
    for who, doing, where in itertools.product(WHO, DOING, WHERE):
        yield f"{who} {doing[who.startswith(PLURAL)]} {where}."


def beaten(translator: Translator, texts: Sequence[str], beam: int) -> list[tuple[float, Translation, Translation]]:
    """The sentences for which a beam finds a more probable translation than greedy search.

    Args:
        translator: the model.
        texts: the sentences.
        beam: beam size.

    Returns:
        (difference of the total log-probabilities, greedy translation, beam translation), widest difference first.
    """
    plain = translator.translate_many(texts, beam_size=1)
    wide = translator.translate_many(texts, beam_size=beam)
    found = [
        (two.total_log_prob - one.total_log_prob, one, two)
        for one, two in zip(plain, wide, strict=True)
        if one.best.finished and two.best.finished and one.text != two.text
    ]
    return sorted((case for case in found if case[0] > 0.0), key=lambda case: -case[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, and print one JSON object for each sentence found."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="a folder, or a name under checkpoints/")
    options.add_argument("--from", dest="file", type=Path, help="a file with a sentence a line instead of the grammar")
    options.add_argument("--sentences", type=count, default=200, help="how many to try, drawn at random")
    options.add_argument("--beam", type=count, default=5, help="beam size")
    options.add_argument("--show", type=count, default=20, help="how many to print")
    given = options.parse_args(arguments)
    from transformer.engine import load

    if given.file is None:
        texts = list(sentences())
    else:
        try:
            texts = [line.strip() for line in given.file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                problem("--from", "must be a text file that can be read", str(error), "correct it")
            ) from None
    texts = random.Random(1).sample(texts, min(given.sentences, len(texts)))
    found = beaten(load(given.model), texts, given.beam)
    tell(f"{len(found)} of {len(texts)} sentences.")
    for gain, one, two in found[: given.show]:
        emit(
            sentence=one.source_text,
            gain=round(gain, 3),
            parting=parting(one.ids, two.ids),
            greedy=one.text,
            beam=two.text,
            greedy_log_prob=round(one.total_log_prob, 3),
            beam_log_prob=round(two.total_log_prob, 3),
        )
    return 0


if __name__ == "__main__":
    leave(main)
