from __future__ import annotations

import pytest

from transformer.capture.record import Check
from transformer.text.tokenizer import Piece
from transformer.webapp import markup

EVIL = "\"><img src=x onerror=alert(1)>' & </div>"


def piece(label: str, **flags: bool) -> Piece:
    return Piece(7, "▁" + label, label, 0, 1, **flags)


def assert_harmless(made: str) -> None:
    assert "<img" not in made
    assert made.count("<div") == made.count("</div>")


def test_nothing_from_outside_becomes_markup() -> None:
    assert_harmless(markup.notice("info", EVIL))
    assert_harmless(markup.chip(piece(EVIL, unknown=True), probability=0.5, number=True))
    assert_harmless(markup.ribbon([piece(EVIL)], [piece(EVIL)], [0.5], [[0]], (EVIL, EVIL)))
    assert_harmless(markup.table(EVIL, [EVIL], [[EVIL]], numeric=(0,)))
    assert_harmless(markup.checks_line([Check(EVIL, False, 1.0, 0.5, EVIL)]))


def test_chip_shows_piece_probability_and_unknown() -> None:
    made = markup.chip(piece("dog", unknown=True), probability=0.6213, number=True)
    assert "<u>dog</u>" in made
    assert "62.1 %</small>" in made
    assert "--share:62.1%" in made
    assert "id 7" in made


def test_special_pieces_do_not_decide_the_direction_of_a_row() -> None:
    assert 'dir="ltr"' in markup.chip(piece("<SOS>", special=True))
    assert "dir=" not in markup.chip(piece("שלום"))


def test_ribbon_links_partners_both_ways() -> None:
    made = markup.ribbon([piece("a"), piece("b")], [piece("x")], [0.5], [[1]], ("English", "German"))
    assert ".ribbon:has(.t0:hover) .s1" in made
    assert ".ribbon:has(.s1:focus) .t0" in made
    assert ".s0:hover" not in made


@pytest.mark.parametrize("label", ["", " ", "\t"])
def test_empty_pieces_have_a_sign(label: str) -> None:
    assert "></span>" not in markup.chip(piece(label))


def test_failed_checks_are_said_first() -> None:
    good, bad = Check("rows sum to one", True, 1e-7, 1e-5, ""), Check("nothing on padding", False, 0.5, 0.0, "")
    assert "The check of these numbers holds" in markup.checks_line([good])
    assert "1 of 2 checks failed: do not trust this picture" in markup.checks_line([good, bad])
