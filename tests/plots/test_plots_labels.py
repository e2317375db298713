from __future__ import annotations

import pytest

from transformer.analysis.maps import Axis
from transformer.plots import labels


@pytest.mark.parametrize(
    ("probability", "shown"),
    [
        (1.0, "100 %"),
        (0.9996, "100 %"),
        (0.9994, "99.9 %"),
        (0.6213, "62.1 %"),
        (0.25, "25 %"),
        (0.01234, "1.23 %"),
        (0.000123, "0.0123 %"),
        (1e-9, "< 0.001 %"),
        (0.0, "0 %"),
    ],
)
def test_percent(probability: float, shown: str) -> None:
    assert labels.percent(probability) == shown


def test_tick_text_is_escaped_and_unknown_underlined() -> None:
    axis = Axis("", ("</s>", "a&b", "'q'", "你"), (False, False, False, True))
    assert labels.tick_text(axis) == ["&lt;/s&gt;", "a&amp;b", "'q'", "<u>你</u>"]


@pytest.mark.parametrize(("label", "shown"), [("", "␀"), (" ", "␣"), ("\t", "␉"), ("a", "a"), ("a b", "a b")])
def test_every_label_can_be_seen(label: str, shown: str) -> None:
    assert labels.visible(label) == shown


def test_file_stem_is_safe() -> None:
    assert labels.file_stem("../en de", "cross", 3, 2) == "..-en-de-cross-layer3-head2"
    assert labels.file_stem("///", "cross", 1, 1) == "model-cross-layer1-head1"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.624, ".62"), (0.994, ".99"), (0.996, "1.0"), (1.0, "1.0"), (0.05, ".05")]
)
def test_cell_weight(value: float, shown: str) -> None:
    assert labels.cell_weight(value) == shown
