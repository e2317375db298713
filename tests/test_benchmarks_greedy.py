"""The search for sentences on which greedy search goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import greedy

if TYPE_CHECKING:
    from transformer.engine import Translator


def test_the_grammar_makes_different_sentences() -> None:
    made = list(greedy.sentences())
    assert len(made) == len(set(made)) == len(greedy.WHO) * len(greedy.DOING) * len(greedy.WHERE)
    assert "Three boys are riding bicycles by the sea." in made
    assert "A man is riding a bicycle by the sea." in made


def test_only_what_the_beam_finds_more_probable_counts(translator: Translator) -> None:
    texts = ["Two dogs run.", "A man.", "The cat sleeps.", "A child builds a castle."]
    found = greedy.beaten(translator, texts, 4)
    gains = {one.source_text: gain for gain, one, _ in found}
    for text in texts:
        one, two = translator.translate(text, beam_size=1).best, translator.translate(text, beam_size=4).best
        gain = two.total_log_prob - one.total_log_prob
        better = one.finished and two.finished and one.text != two.text and gain > 0
        assert (text in gains) == better
    assert [gain for gain, _, _ in found] == sorted(gains.values(), reverse=True)


def test_the_command_prints_a_line_for_each(
    tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sentences.txt"
    file.write_text("Two dogs run.\n\nA man.\n", encoding="utf-8")
    assert greedy.main([str(tiny_checkpoint), "--from", str(file), "--beam", "3"]) == 0
    out, told = capsys.readouterr()
    assert told.endswith("of 2 sentences.\n")
    for line in out.splitlines():
        found = json.loads(line)
        assert found["gain"] > 0
        assert found["greedy"] != found["beam"]


def test_a_file_that_is_not_there_is_one_sentence(tiny_checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(greedy.InputError, match="--from must be a text file"):
        greedy.main([str(tiny_checkpoint), "--from", str(tmp_path / "nothing")])
