"""Curves of a history: what a file says, whole or damaged, and the shipped ones against their recipes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from transformer.lessons.history import Course, Sample, course, spread, unreadable
from transformer.lessons.schedule import own_settings
from transformer.training.schedule import learning_rate

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted(path.parent for path in (ROOT / "checkpoints").glob("*/history.jsonl"))
LINES = [
    {"kind": "train", "step": 10, "epoch": 1, "loss": 5.0, "nll": 4.5, "lr": 0.1, "gradient_norm": 2.0},
    {"kind": "train", "step": 20, "epoch": 1, "loss": 4.0, "nll": 3.5, "lr": 0.2, "gradient_norm": 1.0},
    {
        "kind": "dev",
        "step": 20,
        "dev_loss": 3.0,
        "dev_bleu": 7.5,
        "dev_exact": 1.0,
        "signature": "s1",
        "best": True,
        "samples": [{"source": "a", "reference": "b", "output": "c"}, {"source": "d", "reference": "e", "output": "f"}],
    },
    {"kind": "train", "step": 30, "epoch": 2, "loss": 3.0, "nll": 2.5, "lr": 0.1},
    {
        "kind": "dev",
        "step": 30,
        "dev_loss": 2.0,
        "dev_bleu": 6.5,
        "dev_exact": 2.0,
        "signature": "s2",
        "best": False,
        "samples": [{"source": "a", "reference": "b", "output": "b"}],
    },
]


def written(folder: Path, *lines: object) -> Course | None:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    (folder / "history.jsonl").write_text(text, encoding="utf-8")
    return course(folder)


def test_every_curve_holds_its_own_figure(tmp_path: Path) -> None:
    found = written(tmp_path, *LINES)
    assert found is not None
    assert found.train_loss.steps.tolist() == [10, 20, 30]
    assert found.train_loss.values.tolist() == [5.0, 4.0, 3.0]
    assert found.train_likelihood.values.tolist() == [4.5, 3.5, 2.5]
    assert found.rate.values.tolist() == [0.1, 0.2, 0.1]
    assert (found.gradient_norm.steps.tolist(), found.gradient_norm.values.tolist()) == ([10, 20], [2.0, 1.0])
    assert (found.dev_loss.steps.tolist(), found.dev_loss.last) == ([20, 30], 2.0)
    assert found.dev_bleu.values.tolist() == [7.5, 6.5]
    assert found.dev_exact.values.tolist() == [1.0, 2.0]
    assert (found.signature, found.best_step) == ("s2", 20)
    assert found.samples == (
        (Sample(20, "a", "b", "c"), Sample(30, "a", "b", "b")),
        (Sample(20, "d", "e", "f"),),
    )


def test_no_history(tmp_path: Path) -> None:
    assert course(tmp_path) is None
    assert written(tmp_path) is None
    assert written(tmp_path, "nonsense", "[1]", '{"kind": "train"}', '{"kind": "other", "step": 3}') is None
    assert course(tmp_path / "history.jsonl") is None


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        *LINES[:2],
        '{"kind": "train", "step": 25, "loss": NaN, "lr": "fast", "nll": true}',
        '{"kind": "train", "step": "x", "loss": 1.0}',
        '{"kind": "dev", "step": 25, "dev_loss": 1.5, "samples": [{"source": 3}, 7], "signature": null}',
        '{"kind": "dev", "step": 26, "samples": "none"}',
        '{"kind": "train", "st',
    )
    assert found is not None
    assert found.train_loss.steps.tolist() == found.rate.steps.tolist() == [10, 20]
    assert found.dev_loss.values.tolist() == [1.5]
    assert (found.samples, found.signature, found.best_step) == ((), "", None)
    assert np.isnan(found.dev_bleu.last)


def test_a_spread_of_samples() -> None:
    samples = [Sample(step, "a", "b", "c") for step in range(100)]
    chosen = [sample.step for sample in spread(samples, 6)]
    assert (chosen[0], chosen[-1]) == (0, 99)
    assert len(chosen) <= 6
    assert chosen == sorted(set(chosen))
    assert spread(samples[:3], 6) == tuple(samples[:3])


@pytest.mark.parametrize("folder", [pytest.param(path, id=path.name) for path in SHIPPED])
def test_a_shipped_history_has_the_rates_of_its_recipe(folder: Path) -> None:
    found = course(folder)
    settings = own_settings(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    assert found is not None
    assert settings is not None
    expected = [learning_rate(int(s), settings.warmup_steps, settings.learning_rate) for s in found.rate.steps]
    np.testing.assert_allclose(found.rate.values, expected, rtol=1e-5)
    assert len(found.dev_loss) > 3
    assert found.dev_loss.last < found.dev_loss.values[0]
    if settings.label_smoothing:
        assert (found.train_loss.values[-5:] > found.train_likelihood.values[-5:]).all()


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    whole = written(tmp_path, *LINES, "", "  ")
    assert whole is not None
    assert whole.unread == 0
    odd = written(
        tmp_path, *LINES, '{"kind": "train", "step": 4', {"kind": "train", "step": "x"}, {"kind": "y", "step": 1}
    )
    assert odd is not None
    assert odd.unread == 3
    assert odd.train_loss.steps.tolist() == [10, 20, 30]
    cut = "\n".join(json.dumps(line) for line in LINES)[:-40]
    half = written(tmp_path, cut)
    assert half is not None
    assert half.unread == 1
    assert unreadable(tmp_path) == ""


def test_a_damaged_history_is_not_an_absent_one(tmp_path: Path) -> None:
    assert unreadable(tmp_path) == ""
    path = tmp_path / "history.jsonl"
    path.write_bytes(bytes(range(256)) * 4)
    assert course(tmp_path) is None
    lines = sum(bool(line.strip()) for line in path.read_bytes().split(b"\n"))
    assert unreadable(tmp_path) == f"none of its {lines} lines is one that a training writes"
    path.write_text('{"step": "odd"}')
    assert unreadable(tmp_path) == "its only line is not one that a training writes"
    path.write_text("\n")
    assert unreadable(tmp_path) == "it is empty"
    path.unlink()
    path.mkdir()
    assert unreadable(tmp_path) == "it is no file"
