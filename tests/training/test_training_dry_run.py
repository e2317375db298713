"""What a dry run says, against the corpus and the model themselves; and that it leaves nothing behind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from transformer.nn.model import Transformer
from transformer.text.batching import Batch, Example, make_batches, padding_share
from transformer.text.tokenizer import Tokenizer, train_tokenizer
from transformer.training import dry_run
from transformer.training.cost import training_flops
from transformer.training.dry_run import SIZES, describe, forecast
from transformer.training.material import load_material, to_examples
from transformer.training.recipe import Recipe, recipe_from
from transformer.training.run import train_command
from transformer.training.step import Stepper

VALUES = {
    "data": {"dataset": "reverse", "generated_pairs": 400, "generated_length": 8},
    "tokenizer": {"vocab_size": 45},
    "model": {"d_model": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 2, "feed_forward": 32},
    "training": {"epochs": 7, "batch_tokens": 300, "precision": "float32", "device": "cpu"},
}


def recipe(**training: object) -> Recipe:
    return recipe_from({**VALUES, "training": {**VALUES["training"], **training}})


@pytest.fixture(scope="module")
def corpus() -> tuple[Tokenizer, list[Example]]:
    chosen = recipe()
    pairs = load_material(chosen.data, Path("nowhere")).train
    tokenizer = train_tokenizer([side for pair in pairs for side in (pair.source, pair.target)], 45)
    return tokenizer, to_examples(pairs, tokenizer, 250)[1]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "ENOUGH", 0.05)


def said(corpus: tuple[Tokenizer, list[Example]], chosen: Recipe, stepper: object = None) -> dict[str, str]:
    """The lines by their labels."""
    tokenizer, examples = corpus
    torch.manual_seed(1)
    model = Transformer(chosen.model_config(tokenizer.vocab_size))
    stepper = stepper or Stepper(model, chosen.training, torch.device("cpu"))
    lines = describe(chosen, model, tokenizer, examples, stepper)  # type: ignore[arg-type]
    return {line[:20].strip(): line[20:].strip() for line in lines}


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"\d+\.?\d*", text.replace(",", ""))]


def test_it_says_what_the_run_is(corpus: tuple[Tokenizer, list[Example]]) -> None:
    chosen, (_, examples) = recipe(), corpus
    lines = said(corpus, chosen)
    model = Transformer(chosen.model_config(45))
    assert numbers(lines["model"]) == [sum(p.numel() for p in model.parameters()), 1, 2, 16, 2, 32]
    assert lines["vocabulary"] == "45 pieces (bpe)"
    pairs, source, target = numbers(lines["training pairs"])
    assert pairs == len(examples) == 400
    assert source == pytest.approx(sum(len(s) for s, _ in examples) / 400, abs=0.05)
    assert target == pytest.approx(sum(len(t) + 1 for _, t in examples) / 400, abs=0.05)
    batches = make_batches(examples, 300, chosen.training.seed, 0)
    count, tokens, padding = numbers(lines["batches"])
    assert (count, tokens) == (len(batches), 300)
    assert padding == pytest.approx(100 * padding_share(examples, batches), abs=0.05)
    assert numbers(lines["updates"]) == [len(batches), 7 * len(batches), 7]


def test_operations_are_those_of_every_pair(corpus: tuple[Tokenizer, list[Example]]) -> None:
    _, examples = corpus
    config = recipe().model_config(45)
    exact = sum(training_flops(config, len(source), len(target) + 1) for source, target in examples)
    pieces = sum(len(target) + 1 for _, target in examples)
    per_piece, epoch = numbers(said(corpus, recipe())["operations"])
    assert per_piece == pytest.approx(exact / pieces / 1e3, rel=0.01)
    assert epoch == pytest.approx(exact / 1e6, rel=0.01)


def test_batches_of_an_update_and_double_passes(corpus: tuple[Tokenizer, list[Example]]) -> None:
    once, thrice, drop = said(corpus, recipe()), said(corpus, recipe(accumulate=3)), said(corpus, recipe(r_drop=5.0))
    batches = int(numbers(once["batches"])[0])
    assert numbers(thrice["updates"])[:3] == [-(-batches // 3), 3, 7 * -(-batches // 3)]
    assert thrice["operations"] == once["operations"]
    assert numbers(drop["operations"])[0] == pytest.approx(2 * numbers(once["operations"])[0], rel=0.01)
    assert numbers(drop["memory"])[0] > 1.5 * numbers(once["memory"])[0]


class Clock:
    """A stepper that needs a set time for every position of a batch, and the clock that tells it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.device, self.bfloat16 = torch.device("cpu"), False
        self.positions = 0

    def update(self, batches: Sequence[Batch]) -> None:
        self.positions += sum(batch.source.numel() + batch.target_input.numel() for batch in batches)
        self.now = self.positions * 1e-4

    def __call__(self) -> float:
        return self.now


def test_the_time_is_that_of_the_updates(corpus: tuple[Tokenizer, list[Example]]) -> None:
    tokenizer, examples = corpus
    chosen, clock = recipe(), Clock()
    model = Transformer(chosen.model_config(45))
    lines = describe(chosen, model, tokenizer, examples, clock, clock)  # type: ignore[arg-type]
    (time,) = [line for line in lines if line.startswith("time")]
    batches = make_batches(examples, 300, chosen.training.seed, 0)
    positions = sum(
        len(batch) * (max(len(examples[i][0]) for i in batch) + max(len(examples[i][1]) + 1 for i in batch))
        for batch in batches
    )
    epoch, all_epochs = numbers(time)[:2]
    assert epoch == pytest.approx(positions * 1e-4, rel=0.1)
    assert all_epochs == pytest.approx(7 * epoch, rel=0.05)


def test_a_forecast_stands_for_updates_of_every_size() -> None:
    costs = [float(1 + number * 37 % 100) for number in range(100)]
    seconds, timed = forecast(lambda update: costs[update] / 1000, costs)
    assert seconds == pytest.approx(sum(costs) / 1000, rel=0.02)
    assert timed >= SIZES
    assert forecast(lambda _: 20.0, costs) == (2000.0, SIZES)  # slow: every size once, but no more
    assert forecast(lambda _: 0.5, [1.0, 2.0]) == (1.0, 2)  # fewer updates than sizes


def test_the_largest_update_comes_first_and_is_not_timed() -> None:
    seen: list[int] = []

    def train(update: int) -> float:
        seen.append(update)
        return 100.0 if len(seen) == 1 else 0.001

    seconds, timed = forecast(train, [1.0, 9.0, 2.0])
    assert seen[0] == 1
    assert seconds == pytest.approx(0.003)
    assert timed == len(seen) - 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.123, "0.12 s"), (45.2, "45 s"), (130, "2 min"), (3600, "1 h 0 min"), (12_000, "3 h 20 min"), (2e5, "2 d 7 h")],
)
def test_durations_read_easily(seconds: float, text: str) -> None:
    assert dry_run._duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(12, "12.0 B"), (999.4, "999 B"), (999.6, "1.00 kB"), (1234567, "1.23 MB"), (5e20, "500 EB")]
)
def test_large_numbers_get_a_prefix(value: float, text: str) -> None:
    assert dry_run._scaled(value, "B") == text


def test_the_command_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    overrides = ["data.generated_pairs=200", "training.batch_tokens=200", "tokenizer.vocab_size=0"]
    assert train_command("reverse", tmp_path / "run", overrides, resume=False, data_dir=None, dry_run=True) == 0
    assert list(tmp_path.iterdir()) == []
    out = capsys.readouterr().out
    for label in ("model", "vocabulary", "batches", "updates", "operations", "memory", "speed", "time"):
        assert re.search(rf"^{label} +\S", out, re.MULTILINE)
