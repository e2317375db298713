"""The scores that go into a model card: of every named test set, with the weights as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.decoding.options import SearchOptions
from transformer.errors import DataError, problem
from transformer.text.corpus import Pair, read_lines, read_parallel
from transformer.training.evaluate import Score, bleu, chrf, exact_match, moses_tokenised, streams
from transformer.training.material import Material, load_material
from transformer.training.sections import GENERATED, DataSection

if TYPE_CHECKING:
    from transformer.engine import Translator

MULTI30K_TESTS = {"test2016": "test_2016_flickr", "test2017": "test_2017_flickr", "mscoco2017": "test_2017_mscoco"}


@dataclass(frozen=True)
class ScoredSet:
    """Pairs to be scored on."""

    name: str
    pairs: list[Pair]
    references: list[list[str]] = field(default_factory=list)
    """All known translations of each source, where some have several."""
    tokenised: list[str] | None = None
    """The references lower-cased, normalised and tokenised, where they are published in that form."""


def scored_sets(data: DataSection, material: Material, data_dir: Path) -> list[ScoredSet]:
    """Dev and every test set of the corpus; Multi30k has three, with tokenised references for German and French."""
    found = [ScoredSet("dev", material.dev)]
    if data.dataset != "multi30k":
        return found + ([ScoredSet("test", material.test, material.references)] if material.test else [])
    folder = data_dir / "multi30k"
    for name, stem in MULTI30K_TESTS.items():
        pairs = read_parallel(folder / f"{stem}.{data.source_code}.gz", folder / f"{stem}.{data.target_code}.gz")
        tokenised = folder / f"{stem}.lc.norm.tok.{data.target_code}"
        found.append(ScoredSet(name, pairs, tokenised=read_lines(tokenised) if tokenised.is_file() else None))
    return found


def choose(sets: Sequence[ScoredSet], parts: Sequence[str]) -> list[ScoredSet]:
    """Those of some names; all test sets if there are no names.

    Raises:
        DataError: a name that none has.
    """
    known = [one.name for one in sets]
    for part in parts:
        if part not in known:
            raise DataError(problem("--part", f"must be one of {', '.join(known)}", part, "choose one of them"))
    return [one for one in sets if (one.name in parts if parts else one.name != "dev")]


def score_all(
    sets: Iterable[ScoredSet],
    translate: Callable[[list[Pair]], list[str]],
    data: DataSection,
    options: SearchOptions,
) -> list[dict[str, Any]]:
    """Scores of every set as plain values: part, name, value, signature (with beam and length penalty), sentences.

    ``translate`` gives the output for each pair's source, by a search with ``options``.
    """
    scores: list[dict[str, Any]] = []
    search = f"beam:{options.beam_size}|alpha:{options.length_penalty}"
    for test in sets:
        for score in _scores(test, translate(test.pairs), data):
            scores.append(
                {
                    "part": test.name,
                    "name": score.name,
                    "value": round(score.value, 2),
                    "signature": f"{score.signature}|{search}",
                    "sentences": len(test.pairs),
                }
            )
    return scores


def best_options(
    alphas: Sequence[float],
    dev: list[Pair],
    translate: Callable[[list[Pair], SearchOptions], list[str]],
    select: str,
) -> tuple[SearchOptions, list[tuple[float, float]]]:
    """A beam of 5 with the length penalty that does best on dev; of equals the one that is named first.

    Args:
        alphas: length penalties; of a single one there is nothing to try.
        dev: the pairs that decide.
        translate: the output for each pair's source, by a search with some options.
        select: "exact" for exact match; BLEU otherwise.

    Returns:
        The options, and for each length penalty that was tried it and its figure.
    """
    searches = [SearchOptions(beam_size=5, length_penalty=alpha) for alpha in alphas]
    if len(searches) == 1 or not dev:
        return searches[0], []
    references = [pair.target for pair in dev]

    def figure(options: SearchOptions) -> float:
        outputs = translate(dev, options)
        return (exact_match(outputs, references) if select == "exact" else bleu(outputs, [references])).value

    figures = [figure(options) for options in searches]
    best = figures.index(max(figures))
    return searches[best], list(zip(alphas, figures, strict=True))


def evaluate_dataset(
    translator: Translator,
    dataset: str,
    data_dir: Path,
    parts: Sequence[str] = (),
    beam_size: int = 5,
    length_penalty: float | None = None,
    progress: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Scores on the test sets of a named corpus, as they stand in a model card.

    Args:
        translator: a loaded checkpoint; its languages decide which sides of the corpus are read.
        dataset: a name that ``python -m transformer data`` knows, or "reverse".
        data_dir: where corpora lie.
        parts: names of sets, "dev" among them; all test sets if there are none.
        beam_size: M.
        length_penalty: alpha; the checkpoint's own if None.
        progress: called with the number of sentences that were finished.

    Returns:
        Plain values: checkpoint, dataset, scores as from ``score_all``.

    Raises:
        DataError: a corpus that is not known or not there, that lacks the languages, or has no such part.
    """
    codes = translator.languages
    data = DataSection(dataset=dataset, source_code=codes["source_code"], target_code=codes["target_code"])
    sets = choose(scored_sets(data, load_material(data, data_dir), data_dir), parts)
    alpha = translator.length_penalty if length_penalty is None else length_penalty
    options = SearchOptions(beam_size=beam_size, length_penalty=alpha)

    def translate(pairs: list[Pair]) -> list[str]:
        sources = [pair.source for pair in pairs]
        found = translator.translate_many(sources, beam_size=beam_size, length_penalty=alpha, progress=progress)
        return [one.text for one in found]

    return {
        "checkpoint": translator.name,
        "dataset": dataset,
        "scores": score_all(sets, translate, data, options),
    }


def _scores(test: ScoredSet, outputs: Sequence[str], data: DataSection) -> list[Score]:
    references = [pair.target for pair in test.pairs]
    if data.dataset == GENERATED:
        return [exact_match(outputs, references)]
    found = [bleu(outputs, [references]), chrf(outputs, [references])]
    if test.references:
        several = streams(test.references)
        for score in (bleu(outputs, several), chrf(outputs, several)):
            found.append(Score(f"{score.name}, all references", score.value, score.signature))
    if test.tokenised is not None:
        score = bleu(moses_tokenised(outputs, data.target_code), [test.tokenised], tokenize="none")
        found.append(Score("BLEU, tokenised form", score.value, f"{score.signature}|lc|norm|moses:{data.target_code}"))
    return found
