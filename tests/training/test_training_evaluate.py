"""Scores: sacreBLEU's own, and the published form of Multi30k's references."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sacrebleu
import torch
import torch.nn.functional as F

from transformer.decoding.options import SearchOptions
from transformer.errors import DataError
from transformer.nn.model import Transformer
from transformer.text.corpus import Pair, read_lines
from transformer.text.tokenizer import Tokenizer
from transformer.training.evaluate import (
    bleu,
    chrf,
    dev_loss,
    evaluate_files,
    exact_match,
    moses_tokenised,
    streams,
    translate_pairs,
)

if TYPE_CHECKING:
    from transformer.engine import Translator

MULTI30K = Path(__file__).parents[3] / "shared" / "data" / "multi30k"
HYPOTHESES = ["A man stands on a ladder.", "Two dogs run.", "The red house"]
REFERENCES = ["A man is standing on a ladder.", "Two dogs run.", "The house is red."]


def test_bleu_is_that_of_sacrebleu() -> None:
    score = bleu(HYPOTHESES, [REFERENCES])
    assert score.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert 0 < score.value < 100
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    tokens = [line.replace(".", " .") for line in HYPOTHESES]
    untouched = bleu(tokens, [tokens], tokenize="none")
    assert untouched.value == pytest.approx(100.0)
    assert "tok:none" in untouched.signature


def test_several_references_count() -> None:
    both = [REFERENCES, HYPOTHESES]
    assert bleu(HYPOTHESES, both).value == pytest.approx(100.0)
    assert "nrefs:2" in bleu(HYPOTHESES, both).signature


def test_sentences_may_differ_in_their_number_of_references() -> None:
    """A missing reference is none, not an empty one: it changes neither the matches nor the length to be reached."""
    several = streams([[REFERENCES[0], HYPOTHESES[0]], [REFERENCES[1]], [REFERENCES[2], "No", HYPOTHESES[2]]])
    assert [len(lines) for lines in several] == [3, 3, 3]
    assert several[1] == [HYPOTHESES[0], None, "No"]
    assert streams([]) == []
    score = bleu(HYPOTHESES, several)
    assert score.value == pytest.approx(100.0)
    assert "nrefs:var" in score.signature
    assert chrf(HYPOTHESES, several).value == pytest.approx(100.0)
    # One sentence of eight words with two references, one of four words with one: a brevity penalty from 12 to 9 words.
    found, wanted = ["a b c d e f", "u v w"], [["a b c d e f g h", "x " * 20], ["u v w x"]]
    assert bleu(found, streams(wanted)).value == pytest.approx(bleu(found, [["a b c d e f g h", "u v w x"]]).value)


def test_chrf_is_that_of_sacrebleu() -> None:
    score = chrf(HYPOTHESES, [REFERENCES])
    assert score.value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert "nc:6" in score.signature


def test_exact_match_counts_whole_sentences() -> None:
    assert exact_match(["a b", " c ", "d", "E"], ["a b", "c", "d e", "e"]).value == 50.0
    assert exact_match([], []).value == 0.0
    assert exact_match(["a", "b", "c"], ["x", "b", "x"], [" a", None, "y"]).value == pytest.approx(200 / 3)


@pytest.mark.parametrize(("language", "at_least"), [("de", 1.0), ("fr", 0.999)])
@pytest.mark.parametrize("part", ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"])
def test_moses_tokenisation_reproduces_the_published_files(part: str, language: str, at_least: float) -> None:
    raw, published = MULTI30K / f"{part}.{language}.gz", MULTI30K / f"{part}.lc.norm.tok.{language}"
    if not raw.is_file() or not published.is_file():
        pytest.skip("the files of Multi30k are not beside the repository")
    expected = read_lines(published)
    found = moses_tokenised(read_lines(raw), language)
    assert len(found) == len(expected)
    assert sum(a == b for a, b in zip(found, expected, strict=True)) / len(expected) >= at_least


def test_moses_tokenisation_by_example() -> None:
    assert moses_tokenised(["Ein Mann, der „Halt“ ruft."], "de") == ["ein mann , der &quot; halt &quot; ruft ."]
    assert moses_tokenised(["L’homme d'hiver"], "fr") == ["l&apos; homme d&apos; hiver"]
    assert moses_tokenised(["Grün-gelb", ""], "de") == ["grün-gelb", ""]


def test_a_language_that_moses_does_not_know_is_refused() -> None:
    with pytest.raises(DataError, match=r"--tokenized must be one of .*de.*'klingon'"):
        moses_tokenised([], "klingon")


@pytest.fixture
def pairs(sentences: list[tuple[str, str]]) -> list[Pair]:
    return [Pair(*pair) for pair in sentences]


@pytest.mark.parametrize("batch_tokens", [30, 4096])
def test_dev_loss_is_the_mean_over_pieces(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer, pairs: list[Pair], batch_tokens: int
) -> None:
    examples = [(tiny_tokenizer.encode(p.source), tiny_tokenizer.encode_target(p.target)) for p in pairs]
    total, count = 0.0, 0
    for source, target in examples:
        with torch.no_grad():
            logits = tiny_model(torch.tensor([source]), torch.tensor([[2, *target]]))[0]
        total += F.cross_entropy(logits, torch.tensor([*target, 3]), reduction="sum").item()
        count += len(target) + 1
    assert dev_loss(tiny_model, examples, batch_tokens) == pytest.approx(total / count, rel=1e-5)


def test_sentences_beyond_the_positions_do_no_harm(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> None:
    longest = tiny_model.config.max_length
    short = (tiny_tokenizer.encode("Two dogs run."), tiny_tokenizer.encode_target("Zwei Hunde rennen."))
    endless = Pair("dog " * longest, "Hund " * longest)
    long = (tiny_tokenizer.encode(endless.source), tiny_tokenizer.encode_target(endless.target))
    assert dev_loss(tiny_model, [short, long], 100) == dev_loss(tiny_model, [short], 100)
    with pytest.raises(DataError, match="dev set must hold pairs of at most 64 pieces"):
        dev_loss(tiny_model, [long], 100)
    outputs = translate_pairs(tiny_model, tiny_tokenizer, [endless], SearchOptions(beam_size=1, max_extra=0))
    assert len(outputs) == 1


def written(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_files_are_translated_and_scored(translator: Translator, tmp_path: Path) -> None:
    sources = ["Two dogs run.", "", "A man is standing on a ladder.", "   "]
    references = ["Zwei Hunde rennen.", "", "Ein Mann steht auf einer Leiter.", "Etwas."]
    done: list[int] = []
    result = evaluate_files(
        translator,
        written(tmp_path, "a.en", sources),
        written(tmp_path, "a.de", references),
        beam_size=2,
        length_penalty=1.0,
        progress=done.append,
    )
    outputs = [
        translator.translate(line, beam_size=2, length_penalty=1.0).text if line.strip() else "" for line in sources
    ]
    assert result["bleu"] == round(sacrebleu.corpus_bleu(outputs, [references], force=True).score, 2)
    assert result["chrf"] == round(sacrebleu.corpus_chrf(outputs, [references]).score, 2)
    assert result["exact_match"] == 25.0  # the empty line, whose translation is empty
    assert "tok:13a" in result["bleu_signature"]
    assert (result["sentences"], result["beam_size"], result["length_penalty"]) == (4, 2, 1.0)
    assert (result["checkpoint"], result["source"], result["reference"]) == ("tiny", "a.en", "a.de")
    assert result["seconds"] >= 0
    assert result["tokens_per_second"] > 0
    assert sum(done) == 2


def test_several_reference_files(translator: Translator, tmp_path: Path) -> None:
    sources = ["Two dogs run.", "A man is standing on a ladder."]
    outputs = [one.text for one in translator.translate_many(sources, beam_size=1)]
    first = written(tmp_path, "a.de", ["Etwas anderes steht hier.", outputs[1]])
    second = written(tmp_path, "b.de", [outputs[0], " "])
    result = evaluate_files(translator, written(tmp_path, "a.en", sources), [first, second], beam_size=1)
    assert result["exact_match"] == result["chrf"] == 100.0
    assert "nrefs:var" in result["bleu_signature"]
    assert result["reference"] == "a.de, b.de"
    short = written(tmp_path, "c.de", ["x"])
    with pytest.raises(DataError, match=r"--reference must have as many lines as --source \(2\), but it was '1 in "):
        evaluate_files(translator, tmp_path / "a.en", [first, short])


def test_both_forms_recognise_a_perfect_translation(translator: Translator, tmp_path: Path) -> None:
    """The model's own output is the reference: once as it is, once in Moses's form."""
    sources = ["Two dogs run.", "A man is standing on a ladder."]
    outputs = [translation.text for translation in translator.translate_many(sources, beam_size=1)]
    source = tmp_path / "a.en.gz"
    source.write_bytes(gzip.compress("\n".join(sources).encode()))
    plain = evaluate_files(translator, source, written(tmp_path, "a.de", outputs), beam_size=1)
    tokens = moses_tokenised(outputs, "de")
    tokenised = evaluate_files(translator, source, written(tmp_path, "t.de", tokens), beam_size=1, tokenized="de")
    for result in (plain, tokenised):
        assert result["exact_match"] == 100.0
        assert result["chrf"] == 100.0
    assert "tok:none" in tokenised["bleu_signature"]
    assert (plain["tokenized"], tokenised["tokenized"]) == (None, "de")


def test_a_file_of_empty_lines_is_scored_without_the_model(translator: Translator, tmp_path: Path) -> None:
    empty = written(tmp_path, "a.en", ["", " "])
    result = evaluate_files(translator, empty, written(tmp_path, "a.de", ["Ein Hund.", ""]))
    assert result["bleu"] == 0.0
    assert result["exact_match"] == 50.0


@pytest.mark.parametrize(
    ("sources", "references", "message"),
    [(["a", "b"], ["c"], r"as many lines as --source \(2\), but it was 1"), ([], [], "--source must hold sentences")],
)
def test_files_that_do_not_fit_are_refused(
    translator: Translator, tmp_path: Path, sources: list[str], references: list[str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        evaluate_files(translator, written(tmp_path, "a.en", sources), written(tmp_path, "a.de", references))
