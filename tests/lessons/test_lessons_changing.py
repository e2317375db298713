"""Greedy translations that are written only to be compared: those of the engine, cut off, and seen by a sink."""

from __future__ import annotations

import pytest
import torch

from transformer.engine import Translator
from transformer.lessons import changing
from transformer.lessons.changing import Changing, Written, compare, greedy
from transformer.nn.probe import watching

TEXT = "two dogs run"


def test_it_is_the_engines_greedy_search(translator: Translator) -> None:
    whole = translator.translate(TEXT, beam_size=1)
    found = greedy(translator, TEXT, most=10_000)
    assert found.text.startswith(whole.text)
    if found.finished:
        assert found.text == whole.text


@pytest.mark.parametrize("most", [1, 5, 40])
def test_it_is_cut_off(translator: Translator, most: int) -> None:
    pieces = translator.translate(TEXT, beam_size=1).ids
    found = greedy(translator, TEXT, most)
    assert found.text == translator.tokenizer.decode(pieces[:most])
    assert found.finished == (len(pieces) <= most and pieces[-1] == 3)


def test_a_known_translation_is_not_written_again(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Changing("cross_attn.pattern", torch.zeros_like)
    known = greedy(translator, TEXT)
    whole = compare(translator, TEXT, (5, 6, 3), sink)
    written: list[bool] = []
    usual = changing.greedy

    def counted(*given: object) -> Written:
        written.append(True)
        return usual(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(changing, "greedy", counted)
    again = compare(translator, TEXT, (5, 6, 3), sink, known)
    assert len(written) == 1
    assert (again.text, again.finished) == (whole.text, whole.finished) == (known.text, known.finished)
    assert (again.changed_text, again.changed_finished) == (whole.changed_text, whole.changed_finished)
    with watching(sink):
        assert greedy(translator, TEXT).text == whole.changed_text
