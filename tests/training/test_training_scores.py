"""The scores of a model card, and the same ones from the command line."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from transformer.decoding.options import SearchOptions
from transformer.errors import DataError
from transformer.text.corpus import Pair, read_manythings, split_by_source
from transformer.training.scores import ScoredSet, best_options, choose, evaluate_dataset, score_all
from transformer.training.sections import DataSection

if TYPE_CHECKING:
    from transformer.engine import Translator


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus in the form of manythings.org: 400 English sentences, every third with two translations."""
    lines = []
    for number in range(400):
        lines.append(f"He has {number} dogs.\tEr hat {number} Hunde.\tattribution")
        if number % 3 == 0:
            lines.append(f"He has {number} dogs.\tEr besitzt {number} Hunde.\tattribution")
    folder = tmp_path / "tatoeba"
    folder.mkdir()
    with zipfile.ZipFile(folder / "deu-eng.zip", "w") as archive:
        archive.writestr("deu.txt", "\n".join(lines) + "\n")
    return tmp_path


def test_a_corpus_is_scored_with_one_and_with_all_references(translator: Translator, corpus: Path) -> None:
    done: list[int] = []
    result = evaluate_dataset(translator, "tatoeba-eng-deu", corpus, beam_size=1, progress=done.append)
    test = split_by_source(read_manythings(corpus / "tatoeba" / "deu-eng.zip")).test
    distinct = len({pair.source for pair in test})
    assert sum(done) == distinct < len(test)
    names = ["BLEU", "chrF2", "BLEU, all references", "chrF2, all references"]
    assert [score["name"] for score in result["scores"]] == names
    one, _, several, _ = result["scores"]
    assert "nrefs:1|" in one["signature"]
    assert "nrefs:var|" in several["signature"]
    assert one["signature"].endswith("|beam:1|alpha:0.6")
    assert {score["part"] for score in result["scores"]} == {"test"}
    assert {score["sentences"] for score in result["scores"]} == {distinct}
    dev = evaluate_dataset(translator, "tatoeba-eng-deu", corpus, ["dev"], beam_size=1)
    assert {score["part"] for score in dev["scores"]} == {"dev"}


def test_any_of_all_references_may_be_met(corpus: Path) -> None:
    pairs = [Pair("one", "a b c d e"), Pair("two", "v w x y z")]
    test = ScoredSet("test", pairs, [["a b c d e", "e d c b a"], ["v w x y z"]])

    def translate(pairs: list[Pair]) -> list[str]:
        return [{"one": "e d c b a", "two": "v w x y z"}[pair.source] for pair in pairs]

    scores = score_all([test], translate, DataSection(dataset="tatoeba-eng-deu"), SearchOptions(beam_size=3))
    values = {score["name"]: score["value"] for score in scores}
    assert values["BLEU, all references"] == values["chrF2, all references"] == 100.0
    assert values["BLEU"] < 100


@pytest.mark.parametrize(
    ("select", "best"),
    [("bleu", 1.2), ("exact", 0.6), ("loss", 1.2)],
)
def test_the_length_penalty_is_what_does_best_on_dev(select: str, best: float) -> None:
    long = "there was once a man who had seven sons and no daughter"
    dev = [Pair("one", "a b c d"), Pair("two", long)]
    outputs = {
        0.6: ["a b c d", "there was once"],
        1.2: ["a b c", long + " at all"],
        1.8: ["a b c", long + " at all"],
        2.4: ["", ""],
    }
    options, tried = best_options(
        tuple(outputs), dev, lambda pairs, options: outputs[options.length_penalty][: len(pairs)], select
    )
    assert (options.beam_size, options.length_penalty) == (5, best)
    assert [alpha for alpha, _ in tried] == list(outputs)
    assert max(tried, key=lambda one: one[1])[0] == best


def test_a_single_length_penalty_is_not_tried() -> None:
    def translate(pairs: list[Pair], options: SearchOptions) -> list[str]:
        raise AssertionError("dev was translated")

    options, tried = best_options([0.8], [Pair("one", "a")], translate, "bleu")
    assert (options.length_penalty, tried) == (0.8, [])
    options, tried = best_options([0.8, 1.0], [], translate, "bleu")
    assert (options.length_penalty, tried) == (0.8, [])


def test_what_cannot_be_scored_is_refused(translator: Translator, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must be fetched first"):
        evaluate_dataset(translator, "multi30k", tmp_path / "nowhere")
    with pytest.raises(DataError, match="must be one of dev, test, but it was 'train'"):
        evaluate_dataset(translator, "tatoeba-eng-deu", corpus, ["train"])
    with pytest.raises(DataError, match="tatoeba-eng-XXX"):
        evaluate_dataset(translator, "wmt14", corpus)


def test_all_test_sets_are_chosen_unless_some_are_named() -> None:
    sets = [ScoredSet(name, []) for name in ("dev", "test2016", "test2017")]
    assert [one.name for one in choose(sets, [])] == ["test2016", "test2017"]
    assert [one.name for one in choose(sets, ["test2017", "dev"])] == ["dev", "test2017"]
