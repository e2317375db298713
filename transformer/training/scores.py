"""The scores that go into a model card: of every named test set, with the weights as they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.decoding.options import SearchOptions
from transformer.nn.model import Transformer
from transformer.text.corpus import Pair, read_lines, read_parallel
from transformer.text.tokenizer import Tokenizer
from transformer.training.evaluate import Score, bleu, chrf, exact_match, moses_tokenised, translate_pairs
from transformer.training.material import Material
from transformer.training.sections import GENERATED, DataSection

MULTI30K_TESTS = {"test2016": "test_2016_flickr", "test2017": "test_2017_flickr", "mscoco2017": "test_2017_mscoco"}


@dataclass(frozen=True)
class ScoredSet:
    """Pairs to be scored on."""

    name: str
    pairs: list[Pair]
    tokenised: list[str] | None = None
    """The references lower-cased, normalised and tokenised, where they are published in that form."""


def scored_sets(data: DataSection, material: Material, data_dir: Path) -> list[ScoredSet]:
    """Dev and every test set of the corpus; Multi30k has three, with tokenised references for German and French."""
    found = [ScoredSet("dev", material.dev)]
    if data.dataset != "multi30k":
        return found + ([ScoredSet("test", material.test)] if material.test else [])
    folder = data_dir / "multi30k"
    for name, stem in MULTI30K_TESTS.items():
        pairs = read_parallel(folder / f"{stem}.{data.source_code}.gz", folder / f"{stem}.{data.target_code}.gz")
        tokenised = folder / f"{stem}.lc.norm.tok.{data.target_code}"
        found.append(ScoredSet(name, pairs, read_lines(tokenised) if tokenised.is_file() else None))
    return found


def score_all(
    model: Transformer, tokenizer: Tokenizer, sets: Iterable[ScoredSet], data: DataSection, options: SearchOptions
) -> list[dict[str, Any]]:
    """Scores of every set as plain values: part, name, value, signature (with beam and length penalty), sentences."""
    scores: list[dict[str, Any]] = []
    search = f"beam:{options.beam_size}|alpha:{options.length_penalty}"
    for test in sets:
        outputs = translate_pairs(model, tokenizer, test.pairs, options)
        for score in _scores(test, outputs, data):
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


def _scores(test: ScoredSet, outputs: Sequence[str], data: DataSection) -> list[Score]:
    references = [pair.target for pair in test.pairs]
    if data.dataset == GENERATED:
        return [exact_match(outputs, references)]
    found = [bleu(outputs, [references]), chrf(outputs, [references])]
    if test.tokenised is not None:
        score = bleu(moses_tokenised(outputs, data.target_code), [test.tokenised], tokenize="none")
        found.append(Score("BLEU, tokenised form", score.value, f"{score.signature}|lc|norm|moses:{data.target_code}"))
    return found
