from __future__ import annotations

import math
import subprocess
import sys

import pytest

from transformer.decoding.options import SamplingOptions, SearchOptions, length_penalty
from transformer.errors import InputError


@pytest.mark.parametrize(
    ("length", "alpha", "expected"),
    [
        (1, 0.0, 1.0),
        (1, 0.6, 1.0),
        (7, 1.0, 2.0),  # (5 + 7) / 6
        (19, 0.5, 2.0),  # sqrt(24 / 6)
        (13, 2.0, 9.0),
        (40, 0.0, 1.0),
    ],
)
def test_length_penalty_by_hand(length: int, alpha: float, expected: float) -> None:
    assert length_penalty(length, alpha) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("beam_size", 0),
        ("beam_size", 2.0),
        ("beam_size", True),
        ("beam_size", 101),
        ("nbest", 0),
        ("nbest", 6),
        ("max_extra", -1),
        ("length_penalty", -0.1),
        ("length_penalty", math.nan),
        ("length_penalty", math.inf),
        ("length_penalty", "0.6"),
        ("coverage_penalty", -0.1),
        ("coverage_penalty", math.nan),
        ("coverage_penalty", None),
        ("no_repeat_ngram", -1),
        ("no_repeat_ngram", 2.0),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        SearchOptions(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 0.0),
        ("temperature", -1.0),
        ("temperature", math.inf),
        ("temperature", math.nan),
        ("temperature", True),
        ("top_k", -1),
        ("top_k", 2.5),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("seed", -1),
        ("seed", "7"),
        ("max_extra", -1),
    ],
)
def test_filters_that_cannot_work_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        SamplingOptions(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "extra", "positions", "expected"), [(7, 50, 512, 57), (7, 0, 512, 7), (500, 50, 512, 512)]
)
def test_longest_translation(source: int, extra: int, positions: int, expected: int) -> None:
    assert SearchOptions(max_extra=extra).max_length(source, positions) == expected
    assert SamplingOptions(max_extra=extra).max_length(source, positions) == expected


def test_options_and_trace_come_without_torch() -> None:
    code = (
        "import sys, transformer.decoding.options, transformer.decoding.trace\n"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
