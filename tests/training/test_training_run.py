"""Whole runs, as the command line starts them, on a corpus of thirty pairs and a model of a few thousand parameters."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import transformer
from transformer.checkpoint import load_checkpoint
from transformer.errors import ConfigError, DataError, TrainingError
from transformer.training import loop, step, validation
from transformer.training.feed import Portion
from transformer.training.history import History
from transformer.training.loop import Trainer
from transformer.training.progress import Progress
from transformer.training.run import train_command
from transformer.training.state import PREVIOUS, STATE
from transformer.training.step import Stepper, Update

SUBJECTS = {"the man": "der Mann", "the dog": "der Hund", "the child": "das Kind", "the bird": "der Vogel"}
VERBS = {"runs": "rennt", "sleeps": "schläft", "sings": "singt", "waits": "wartet"}
PLACES = {"here": "hier", "outside": "draußen"}
SENTENCES = [
    (f"{a.capitalize()} {b} {c}.", f"{SUBJECTS[a].capitalize()} {VERBS[b]} {PLACES[c]}.")
    for a, b, c in itertools.product(SUBJECTS, VERBS, PLACES)
][:30]
TINY = {
    "tokenizer.vocab_size": 80,
    "model.d_model": 16,
    "model.heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.feed_forward": 32,
    "model.dropout": 0.1,
    "training.epochs": 2,
    "training.batch_tokens": 60,
    "training.warmup_steps": 5,
    "training.learning_rate": 0.01,
    "training.log_every": 3,
    "training.precision": "float32",
    "training.device": "cpu",
}


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    """Two text files and a recipe that names them."""
    (tmp_path / "a.en").write_text("".join(source + "\n" for source, _ in SENTENCES), encoding="utf-8")
    (tmp_path / "a.de").write_text("".join(target + "\n" for _, target in SENTENCES), encoding="utf-8")
    lines = ["[data]", f"source = '{tmp_path / 'a.en'}'", f"target = '{tmp_path / 'a.de'}'"]
    (tmp_path / "own.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(tmp_path / "own.toml")


def train(recipe: str, out: Path, resume: bool = False, **changes: object) -> int:
    """Run it; changes are written ``training__epochs=3``."""
    values = {**TINY, **{key.replace("__", "."): value for key, value in changes.items()}}
    return train_command(recipe, out, [f"{key}={json.dumps(value)}" for key, value in values.items()], resume, None)


def dev_figures(monkeypatch: pytest.MonkeyPatch, bleu: Sequence[float], exact: Sequence[float] | None = None) -> None:
    """Let the dev evaluations report these figures, so that what follows from them can be said beforehand."""
    real_bleu, real_exact = validation.bleu, validation.exact_match
    bleus, exacts = iter(bleu), iter(exact or [0.0] * len(bleu))

    def with_value(real: Callable[..., Any], values: Iterator[float]) -> Callable[..., Any]:
        def measure(*arguments: Any) -> Any:
            score = real(*arguments)
            return type(score)(score.name, next(values), score.signature)

        return measure

    monkeypatch.setattr(validation, "bleu", with_value(real_bleu, bleus))
    monkeypatch.setattr(validation, "exact_match", with_value(real_exact, exacts))


def weights_of(out: Path, epoch: int) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = safetensors.torch.load_file(out / "training" / f"epoch-{epoch:03d}.safetensors")
    return found


def test_own_files_become_a_checkpoint(recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert train(recipe, out, checkpoint__length_penalties=[2, 0.6]) == 0

    translator = transformer.load(out)
    assert isinstance(translator.translate("The man runs here.").text, str)
    assert translator.inspect("The man runs here.").ok

    meta = json.loads((out / "config.json").read_text(encoding="utf-8"))
    training = meta["training"]
    assert training["recipe"]["training"]["epochs"] == 2
    assert (training["epochs"], training["precision"]) == (2, "float32")
    assert training["steps"] > 2
    assert meta["data"]["pairs"] + len(set(meta["examples"])) <= 30
    assert next(score["part"] for score in meta["scores"]) == "dev"
    tried = dict(training["length_penalties"])
    assert list(tried) == [2.0, 0.6]
    assert translator.length_penalty == meta["length_penalty"] == max(tried, key=lambda alpha: tried[alpha])
    assert meta["scores"][0]["value"] == tried[translator.length_penalty]
    assert all(f"beam:5|alpha:{translator.length_penalty}" in score["signature"] for score in meta["scores"])
    assert meta["languages"]["source_code"] == "en"

    card = (out / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# run\n")
    assert f"{meta['data']['pairs']:,} pairs" in card
    assert f"the length penalty that does best on dev; tried were 2 ({tried[2.0]:.2f}), 0.6 (" in card
    row = next(line for line in card.split("\n") if line.startswith("| dev | BLEU"))
    assert row.replace("\\|", "").count("|") == 6  # five cells: the bars of the signature are escaped

    lines = History(out / "history.jsonl").lines()
    assert {line["kind"] for line in lines} == {"train", "dev"}
    for line in lines:
        fields = {"kind", "step", "epoch", "seconds"}
        if line["kind"] == "train":
            fields |= {"loss", "nll", "lr", "gradient_norm", "tokens_per_second", "memory_mb"}
        else:
            fields |= {"dev_loss", "dev_bleu", "dev_chrf", "dev_exact", "signature", "best", "samples"}
        assert set(line) == fields
        assert all(math.isfinite(value) for value in line.values() if isinstance(value, float))
    assert [line["epoch"] for line in lines if line["kind"] == "dev"] == [1, 2]
    trained = [line["step"] for line in lines if line["kind"] == "train"]
    assert trained == sorted(trained)
    assert trained[-1] == training["steps"]  # no step is missing from the means
    assert {line["epoch"] for line in lines if line["kind"] == "train"} == {1, 2}

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Checkpoint written to" in printed.err
    assert printed.err.count("update/s") < 20  # a log is no terminal


def test_what_was_scored_is_what_was_stored(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored: list[dict[str, torch.Tensor]] = []
    real = transformer.training.run.translate_pairs  # type: ignore[attr-defined]

    def watched(model: torch.nn.Module, *rest: Any) -> list[str]:
        scored.append({name: value.detach().clone() for name, value in model.named_parameters()})
        outputs: list[str] = real(model, *rest)
        return outputs

    monkeypatch.setattr("transformer.training.run.translate_pairs", watched)
    for dtype in ("float16", "bfloat16"):
        scored.clear()
        train(recipe, tmp_path / dtype, checkpoint__dtype=dtype, training__epochs=1)
        checkpoint = load_checkpoint(tmp_path / dtype)
        assert checkpoint.precision == dtype
        assert scored
        for values in scored:
            for name, value in checkpoint.model.named_parameters():
                assert torch.equal(values[name], value), name


def test_a_run_learns(recipe: str, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run", training__epochs=12, training__evaluate_every=6)
    lines = History(tmp_path / "run" / "history.jsonl").lines()
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    assert losses[-1] < 0.7 * losses[0]
    assert [line["epoch"] for line in lines if line["kind"] == "dev"] == [6, 12]


def test_each_epoch_has_an_order_of_its_own(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, list[list[list[int]]]] = {}

    def count(trainer: Trainer, portion: Portion) -> None:
        seen.setdefault(trainer.progress.epoch, []).append(portion.batches[0].source.tolist())

    after_each_update(monkeypatch, count)
    train(recipe, tmp_path / "run", training__epochs=2)
    assert seen[0] != seen[1]
    first, second = (
        sorted([piece for piece in row if piece] for batch in seen[epoch] for row in batch) for epoch in (0, 1)
    )
    assert first == second  # the same sentences


def after_each_update(monkeypatch: pytest.MonkeyPatch, action: Callable[[Trainer, Portion], None]) -> None:
    """Let something happen after every update, when it is counted."""
    real = Trainer._count

    def count(self: Trainer, update: Update, portion: Portion, seconds: float) -> None:
        real(self, update, portion, seconds)
        action(self, portion)

    monkeypatch.setattr(Trainer, "_count", count)


class StoppedError(KeyboardInterrupt):
    """Ctrl-C at a chosen moment."""


@pytest.mark.parametrize("log_every", [1, 4])
@pytest.mark.parametrize("steps_in_epoch", [2, 0])
def test_a_resumed_run_equals_one_in_one_go(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_every: int, steps_in_epoch: int
) -> None:
    """Stopped in the middle of the third epoch, or right at its start, some steps after the last saved state."""
    changes: dict[str, object] = {"training__epochs": 4, "training__log_every": log_every, "training__average": 2}
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(recipe, whole, **changes)

    def stop(trainer: Trainer, portion: Portion) -> None:
        if (trainer.progress.epoch, trainer.progress.updates) == (2, steps_in_epoch + 1):
            trainer._saved_at = -math.inf  # the state is saved after this update
        if (trainer.progress.epoch, trainer.progress.updates) == (2, steps_in_epoch + 3):
            torch.rand(100)  # whatever happens after the save must not matter
            raise StoppedError

    with monkeypatch.context() as patch:
        after_each_update(patch, stop)
        with pytest.raises(StoppedError):
            train(recipe, parts, **changes)
    state = torch.load(parts / "training" / STATE, weights_only=True)
    assert (state["progress"]["epoch"], state["progress"]["updates"]) == (2, steps_in_epoch + 1)
    assert not (parts / "config.json").exists()

    torch.manual_seed(99)  # another process has another random state
    train(recipe, parts, resume=True, **changes)

    for epoch in (3, 4):
        one, other = weights_of(whole, epoch), weights_of(parts, epoch)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()
    assert untimed(whole) == untimed(parts)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_the_step_saves_and_leaves_with_one_line(
    recipe: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    number: int,
    status: int,
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(recipe, whole, training__epochs=2)
    real = Stepper.update

    def update(self: Stepper, *arguments: Any) -> Update:
        if self.steps == 2:
            os.kill(os.getpid(), number)
        return real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "update", update)
        assert train(recipe, parts, training__epochs=2) == status
    assert progress_of(parts).step in (3, 4)  # a signal may come between two looks
    assert (
        f"Stopped and saved at step {progress_of(parts).step}; the same command with --resume goes on from there."
        in capfd.readouterr().err
    )
    assert not (parts / "config.json").exists()
    assert train(recipe, parts, resume=True, training__epochs=2) == 0
    assert untimed(whole) == untimed(parts)
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()


def test_a_signal_in_the_last_evaluation_leaves_the_scoring_for_later(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real = loop.validate

    def validate(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "validate", validate)
        assert train(recipe, tmp_path / "run", training__epochs=1) == 143
    assert "Stopped after the last epoch" in capfd.readouterr().err
    assert not (tmp_path / "run" / "config.json").exists()
    assert train(recipe, tmp_path / "run", resume=True, training__epochs=1) == 0
    assert (tmp_path / "run" / "config.json").exists()


def untimed(out: Path) -> list[dict[str, Any]]:
    """The history without what the clock says."""
    timed: dict[str, Any] = {"seconds": None, "tokens_per_second": None, "memory_mb": None}
    return [{**line, **timed} for line in History(out / "history.jsonl").lines()]


@pytest.mark.parametrize("moment", ["save_weights", "Trainer.save"])
def test_stopped_around_an_evaluation_it_is_done_again(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The state of after an epoch's last step, and an evaluation that got into the history but not into a state."""
    dev_figures(monkeypatch, bleu=[1.0, 2.0, 3.0, *(1.0, 2.0, 2.0, 3.0)])  # in one go, and with the second one repeated
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(recipe, whole, training__epochs=3, training__save_minutes=0)
    calls = itertools.count(1)
    real: Callable[..., None] = Trainer.save if moment == "Trainer.save" else loop.save_weights

    def stop(*arguments: Any) -> None:
        ready = not isinstance(arguments[0], Trainer) or arguments[0].progress.updates == 0  # at an epoch's end
        if ready and next(calls) == 2:
            raise StoppedError
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(f"transformer.training.loop.{moment}", stop)
        with pytest.raises(StoppedError):
            train(recipe, parts, training__epochs=3, training__save_minutes=0)
    assert set(progress_of(parts).evaluated) <= set(kept(parts))  # no weights that the state counts on are gone
    train(recipe, parts, resume=True, training__epochs=3, training__save_minutes=0)
    assert untimed(whole) == untimed(parts)
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()
    assert kept(whole) == named_by_states(whole)
    assert kept(parts) == named_by_states(parts)


def test_more_epochs_go_on_from_a_finished_run(recipe: str, tmp_path: Path) -> None:
    train(recipe, tmp_path / "whole", training__epochs=3)
    train(recipe, tmp_path / "parts", training__epochs=2)
    train(recipe, tmp_path / "parts", resume=True, training__epochs=3)
    one, other = weights_of(tmp_path / "whole", 3), weights_of(tmp_path / "parts", 3)
    assert all(torch.equal(one[name], other[name]) for name in one)
    train(recipe, tmp_path / "parts", resume=True, training__epochs=3)  # nothing left to do but to write it again


def test_a_state_of_another_version_is_refused(recipe: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe, out)
    state = torch.load(out / "training" / STATE, weights_only=True)
    del state["version"]
    torch.save(state, out / "training" / STATE)
    with pytest.raises(TrainingError, match="must be of version 2, but it was 1: finish that run"):
        train(recipe, out, resume=True, training__epochs=3)


def test_a_value_that_a_state_does_not_know_had_its_default(recipe: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe, out)
    state = torch.load(out / "training" / STATE, weights_only=True)
    del state["recipe"]["training"]["save_minutes"], state["recipe"]["data"]["max_ratio"]
    torch.save(state, out / "training" / STATE)
    assert train(recipe, out, resume=True, training__epochs=3) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training__learning_rate": 0.02}, r"training\.learning_rate was 0\.01, is 0\.02"),
        ({"model__d_model": 32, "training__seed": 2}, r"model\.d_model was 16, is 32, training\.seed was 1, is 2"),
        ({"tokenizer__vocab_size": 90}, r"tokenizer\.vocab_size was 80, is 90"),
    ],
)
def test_resuming_with_another_recipe_names_the_difference(
    recipe: str, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    train(recipe, tmp_path / "run", training__epochs=1)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(TrainingError, match=message):
        train(recipe, tmp_path / "run", resume=True, training__epochs=1, **changes)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_resuming_needs_a_whole_state_and_its_tokenizer(recipe: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(TrainingError, match="--resume needs a saved state"):
        train(recipe, out, resume=True)
    assert not out.exists()
    train(recipe, out, training__epochs=1)
    tokenizer = (out / "tokenizer.model").read_bytes()
    train(recipe, tmp_path / "other", training__epochs=1, tokenizer__vocab_size=90)
    (out / "tokenizer.model").write_bytes((tmp_path / "other" / "tokenizer.model").read_bytes())
    with pytest.raises(TrainingError, match=r"tokenizer\.model is another one"):
        train(recipe, out, resume=True, training__epochs=2)
    (out / "tokenizer.model").write_bytes(tokenizer)
    state = out / "training" / STATE
    (out / "training" / PREVIOUS).unlink(missing_ok=True)
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(TrainingError, match="saved state must be whole"):
        train(recipe, out, resume=True, training__epochs=2)


def test_resuming_with_another_corpus_is_refused(recipe: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe, out, training__epochs=1)
    lines = (tmp_path / "a.de").read_text(encoding="utf-8").replace("mann", "hund")
    (tmp_path / "a.de").write_text(lines, encoding="utf-8")
    with pytest.raises(TrainingError, match="the training or dev pairs are others"):
        train(recipe, out, resume=True, training__epochs=2)


def test_resuming_needs_as_many_batches_an_update(recipe: str, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run", training__epochs=1, training__accumulate=2)
    message = r"training\.accumulate x processes was 2 and is 3: set training\.accumulate, .* so that it is 2"
    with pytest.raises(TrainingError, match=message):
        train(recipe, tmp_path / "run", resume=True, training__epochs=2, training__accumulate=3)
    assert train(recipe, tmp_path / "run", resume=True, training__epochs=2, training__accumulate=2) == 0


def test_resuming_with_another_dev_set_is_refused(recipe: str, tmp_path: Path) -> None:
    for name in ("d.en", "d.de"):
        (tmp_path / name).write_text("The man runs here.\n", encoding="utf-8")
    files = {"data__dev_source": str(tmp_path / "d.en"), "data__dev_target": str(tmp_path / "d.de")}
    train(recipe, tmp_path / "run", training__epochs=1, **files)
    (tmp_path / "d.de").write_text("Der Hund singt hier.\n", encoding="utf-8")
    with pytest.raises(TrainingError, match="the training or dev pairs are others"):
        train(recipe, tmp_path / "run", resume=True, training__epochs=2, **files)


def test_an_existing_run_or_checkpoint_is_not_overwritten(recipe: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe, out, training__epochs=1)
    with pytest.raises(TrainingError, match=r"--out must not hold another run.*add --resume"):
        train(recipe, out, training__epochs=1)
    (out / "training" / STATE).unlink()
    (out / "training" / PREVIOUS).unlink(missing_ok=True)
    with pytest.raises(TrainingError, match="--out must not hold a checkpoint"):
        train(recipe, out, training__epochs=1)


def test_a_run_that_never_saved_leaves_no_history(recipe: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    (out / "training").mkdir(parents=True)
    (out / "training" / "recipe.json").write_text("{}", encoding="utf-8")
    History(out / "history.jsonl").append(kind="train", step=1, loss=9.0)
    train(recipe, out, training__epochs=1)
    steps = [line["step"] for line in History(out / "history.jsonl").lines() if line["kind"] == "train"]
    assert steps == sorted(set(steps))
    assert all(line.get("loss") != 9.0 for line in History(out / "history.jsonl").lines())


@pytest.mark.parametrize("name", ["README.md", "history.jsonl", "tokenizer.model", "model.safetensors"])
def test_files_of_somebody_are_not_overwritten(recipe: str, tmp_path: Path, name: str) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / name).write_text("dear", encoding="utf-8")
    with pytest.raises(TrainingError, match=rf"--out must not hold files that a run writes.*{name}"):
        train(recipe, out, training__epochs=1)
    assert [path.name for path in out.iterdir()] == [name]
    assert (out / name).read_text(encoding="utf-8") == "dear"


def test_two_runs_cannot_share_a_folder(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    refused: list[str] = []

    def second(trainer: Trainer, portion: Portion) -> None:
        if trainer.progress.step == 1:
            with pytest.raises(TrainingError) as caught:
                train(recipe, out, training__seed=2)
            refused.append(str(caught.value))

    after_each_update(monkeypatch, second)
    assert train(recipe, out, training__epochs=1) == 0
    assert refused[0].startswith("--out must not be in use by another run")


def test_out_must_be_a_folder(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(TrainingError, match="--out must be a folder that can be written"):
        train(recipe, tmp_path / "file")


def test_nothing_is_left_of_a_corpus_of_long_sentences(recipe: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.max_pieces must let some pairs through"):
        train(recipe, tmp_path / "run", data__max_pieces=3)


def test_a_model_that_cannot_be_is_refused_before_any_work(recipe: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="heads must divide"):
        train(recipe, tmp_path / "run", model__heads=3)
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_no_number_stops_the_run(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    train(recipe, out, training__epochs=1)
    state = (out / "training" / STATE).read_bytes()
    before = torch.load(out / "training" / STATE, weights_only=True)["progress"]["step"]
    real = step.smoothed_cross_entropy
    calls = itertools.count(1)

    def broken(*arguments: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
        loss, likelihood = real(*arguments, **options)
        return (loss * math.nan if next(calls) == 2 else loss), likelihood

    monkeypatch.setattr(step, "smoothed_cross_entropy", broken)
    with pytest.raises(TrainingError, match=rf"loss at step {before + 2} \(epoch 2, batch 2\) must stay finite.*nan"):
        train(recipe, out, resume=True, training__epochs=2)
    assert (out / "training" / STATE).read_bytes() == state  # the last good one


def test_a_loss_that_explodes_stops_the_run(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    train(recipe, out, training__epochs=1)
    state = (out / "training" / STATE).read_bytes()
    monkeypatch.setattr(step, "EXPLODED", -1.0)
    with pytest.raises(
        TrainingError, match=r"negative log-likelihood at step \d+ \(epoch 2, batch 1\) must stay below"
    ):
        train(recipe, out, resume=True, training__epochs=2)
    assert (out / "training" / STATE).read_bytes() == state


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_too_little_memory_names_the_value_to_lower(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(step, "smoothed_cross_entropy", full)
    message = r"Memory of the cpu ran out at step 1 \(epoch 1, batch 1\).*: lower training\.batch_tokens \(now 60"
    with pytest.raises(TrainingError, match=message):
        train(recipe, tmp_path / "run")


def test_too_little_memory_for_the_moments_or_elsewhere_is_a_sentence_too(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", full)
        with pytest.raises(TrainingError, match="Memory of the cpu ran out at step 1 "):
            train(recipe, tmp_path / "one")
    monkeypatch.setattr(loop, "validate", full)
    with pytest.raises(TrainingError, match=r"Memory ran out outside a training step: choose a smaller model\.preset"):
        train(recipe, tmp_path / "two")


def test_compiling_on_a_cpu_is_refused(recipe: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training\.compile must be false on a CPU"):
        train(recipe, tmp_path / "run", training__compile=True)


def test_a_dev_set_that_is_too_long_is_refused_before_training(recipe: str, tmp_path: Path) -> None:
    for name in ("d.en", "d.de"):
        (tmp_path / name).write_text("the man runs here " * 40 + "\n", encoding="utf-8")
    files = {"data__dev_source": str(tmp_path / "d.en"), "data__dev_target": str(tmp_path / "d.de")}
    with pytest.raises(DataError, match=r"dev set must hold pairs of at most 40 pieces"):
        train(recipe, tmp_path / "run", model__max_length=40, data__max_pieces=40, **files)
    assert not (tmp_path / "run" / "history.jsonl").exists()


def test_missing_weights_are_noticed_when_a_run_resumes(recipe: str, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run", training__epochs=2, training__average=2)
    (tmp_path / "run" / "training" / "epoch-001.safetensors").unlink()
    state = (tmp_path / "run" / "training" / STATE).read_bytes()
    with pytest.raises(TrainingError, match=r"epoch-001\.safetensors must be a whole safetensors file"):
        train(recipe, tmp_path / "run", resume=True, training__epochs=3, training__average=2)
    assert (tmp_path / "run" / "training" / STATE).read_bytes() == state


def test_other_errors_are_not_taken_for_too_little_memory(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(step, "smoothed_cross_entropy", wrong)
    with pytest.raises(RuntimeError, match="shapes differ"):
        train(recipe, tmp_path / "run")


def test_snapshots_are_kept_on_the_way(recipe: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe, out, training__epochs=1, checkpoint__snapshots=[1, 3, 10**6], checkpoint__dtype="float32")
    files = sorted(path.name for path in (out / "snapshots").iterdir())
    assert files == ["step-000001.safetensors", "step-000003.safetensors"]
    first, third = (safetensors.torch.load_file(out / "snapshots" / name) for name in files)
    final = safetensors.torch.load_file(out / "model.safetensors")
    assert first.keys() == third.keys() == final.keys()
    assert all(value.dtype == torch.float16 for value in first.values())
    name = "projection.weight" if "projection.weight" in first else next(iter(first))
    assert not torch.equal(first[name], third[name])
    for updates, values in ((1, first), (3, third)):
        loaded = load_checkpoint(out, snapshot=updates)
        assert loaded.precision == "float16"
        assert all(torch.equal(value, values[key].float()) for key, value in loaded.model.named_parameters())


def test_tensorboard_is_written_or_asked_for(recipe: str, tmp_path: Path) -> None:
    changes: dict[str, object] = {"training__epochs": 1, "training__tensorboard": True}
    if importlib.util.find_spec("tensorboard") is None:
        with pytest.raises(
            ConfigError, match=r"must be false without the package tensorboard.*pip install tensorboard"
        ):
            train(recipe, tmp_path / "run", **changes)
    else:
        assert train(recipe, tmp_path / "run", **changes) == 0
        assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_accumulated_batches_make_the_same_update_as_their_sum(recipe: str, tmp_path: Path) -> None:
    """Two batches an update: half as many updates, and the means of their losses over all pieces."""
    plain: dict[str, object] = {"model__dropout": 0.0, "training__epochs": 1, "training__log_every": 1}
    train(recipe, tmp_path / "one", **plain, training__learning_rate=1e-9)
    train(recipe, tmp_path / "two", **plain, training__learning_rate=1e-9, training__accumulate=2)
    one, two = (
        [line for line in History(tmp_path / name / "history.jsonl").lines() if line["kind"] == "train"]
        for name in ("one", "two")
    )
    assert len(two) == -(-len(one) // 2)
    for number, line in enumerate(two):  # the weights hardly move, so each update is judged by the same ones
        losses = [other["nll"] for other in one[2 * number : 2 * number + 2]]
        assert min(losses) - 1e-3 <= line["nll"] <= max(losses) + 1e-3


@pytest.mark.parametrize(
    "changes",
    [
        {"data__subword_sampling": 0.2},
        {"training__r_drop": 5.0},
        {"training__source_word_dropout": 0.1, "training__target_word_dropout": 0.1},
    ],
)
def test_regularised_runs_resume_exactly_too(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    changes = {"training__epochs": 2, "training__log_every": 1, **changes}
    train(recipe, whole, **changes)
    plain = tmp_path / "plain"
    train(recipe, plain, training__epochs=2, training__log_every=1)
    assert untimed(plain) != untimed(whole)  # it has an effect

    def stop(trainer: Trainer, portion: Portion) -> None:
        if trainer.progress.step == 2:
            trainer.save()
            raise StoppedError

    with monkeypatch.context() as patch:
        after_each_update(patch, stop)
        with pytest.raises(StoppedError):
            train(recipe, parts, **changes)
    train(recipe, parts, resume=True, **changes)
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()


def test_a_gradient_that_overflows_stops_the_run_too(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: torch.tensor(math.inf))
    with pytest.raises(TrainingError, match=r"gradient norm at step 1 .*must stay finite, but it was inf"):
        train(recipe, tmp_path / "run")


def progress_of(out: Path) -> Progress:
    return Progress.from_dict(torch.load(out / "training" / STATE, weights_only=True)["progress"])


def named_by_states(out: Path) -> list[int]:
    """Epochs whose weights one of the saved states counts on."""
    states = [torch.load(path, weights_only=True) for path in (out / "training").glob("state*.pt")]
    return sorted({epoch for state in states for epoch in state["progress"]["evaluated"]})


def kept(out: Path) -> list[int]:
    return sorted(int(path.stem.partition("-")[2]) for path in (out / "training").glob("epoch-*.safetensors"))


@pytest.mark.parametrize(
    ("select", "best"),
    [("bleu", 2), ("exact", 3), ("loss", None)],
)
def test_the_best_epoch_is_the_one_of_the_selected_figure(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, select: str, best: int | None
) -> None:
    dev_figures(monkeypatch, bleu=[1.0, 3.0, 2.0, 2.5], exact=[0.0, 0.0, 10.0, 10.0])
    out = tmp_path / "run"
    train(recipe, out, training__epochs=4, training__select=select, checkpoint__dtype="float32")
    lines = [line for line in History(out / "history.jsonl").lines() if line["kind"] == "dev"]
    if best is None:
        best = min(lines, key=lambda line: line["dev_loss"])["epoch"]
    assert progress_of(out).best_epoch == best
    assert max(line["epoch"] for line in lines if line["best"]) == best
    assert list(progress_of(out).evaluated) == sorted({best, 4})
    assert kept(out) == named_by_states(out)
    meta = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert meta["training"]["averaged"] == [f"epoch-{best:03d}"]
    stored = safetensors.torch.load_file(out / "model.safetensors")
    expected = weights_of(out, best)
    assert all(torch.equal(stored[name], expected[name]) for name in expected)


def test_averaging_takes_the_last_ones_and_the_best_is_kept_beside(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev_figures(monkeypatch, bleu=[9.0, 1.0, 2.0, 3.0, 4.0])
    out = tmp_path / "run"
    train(recipe, out, training__epochs=5, training__average=3, checkpoint__dtype="float32")
    assert list(progress_of(out).evaluated) == [1, 3, 4, 5]
    assert kept(out) == named_by_states(out)
    meta = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert meta["training"]["averaged"] == ["epoch-003", "epoch-004", "epoch-005"]
    stored = safetensors.torch.load_file(out / "model.safetensors")
    parts = [weights_of(out, epoch) for epoch in (3, 4, 5)]
    for name, value in stored.items():
        torch.testing.assert_close(value, sum(part[name] for part in parts) / 3, rtol=1e-6, atol=1e-7)


def test_averaging_takes_the_best_ones(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dev_figures(monkeypatch, bleu=[2.0, 9.0, 1.0, 2.0, 4.0])
    out = tmp_path / "run"
    train(recipe, out, training__epochs=5, training__average=3, training__average_of="best")
    assert list(progress_of(out).evaluated) == [1, 2, 5]  # of two equal ones the earlier
    assert kept(out) == named_by_states(out)
    meta = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert meta["training"]["averaged"] == ["epoch-001", "epoch-002", "epoch-005"]


@pytest.mark.parametrize(
    ("changes", "bleu", "exact", "epochs"),
    [
        ({"training__stop_at": 30.0}, [10.0, 30.0, 50.0], None, 2),
        ({"training__stop_at": 99.0, "training__select": "exact"}, [50.0, 0.0, 0.0], [98.0, 98.9, 99.0], 3),
        ({"training__patience": 2}, [5.0, 4.0, 5.0, 9.0], None, 3),  # as good is no gain
        ({}, [1.0, 1.0, 1.0, 1.0], None, 4),
    ],
)
def test_when_a_run_stops(
    recipe: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    bleu: list[float],
    exact: list[float] | None,
    epochs: int,
) -> None:
    dev_figures(monkeypatch, bleu, exact)
    train(recipe, tmp_path / "run", training__epochs=4, **changes)
    progress = progress_of(tmp_path / "run")
    assert (progress.epoch, progress.finished) == (epochs, True)


def test_dev_sentences_limits_the_dev_set(recipe: str, tmp_path: Path) -> None:
    for name, text in (
        ("d.en", "The man runs here.\nThe dog sings here.\nThe bird waits here.\n"),
        ("d.de", "A\nB\nC\n"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = {"data__dev_source": str(tmp_path / "d.en"), "data__dev_target": str(tmp_path / "d.de")}
    for limit, expected in ((2, 2), (0, 3)):
        out = tmp_path / f"run{limit}"
        train(recipe, out, training__epochs=1, training__dev_sentences=limit, **files)
        scores = json.loads((out / "config.json").read_text(encoding="utf-8"))["scores"]
        assert {(score["part"], score["sentences"]) for score in scores} == {("dev", expected)}
