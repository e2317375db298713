"""The benchmarks decide and compute rightly; how fast anything is, is not tested."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks import baselines, common, gpu, page, same_step, train
from benchmarks.pairs import CAPTIONS, multi30k, padding, synthetic
from transformer.config import PAD_ID, ModelConfig
from transformer.errors import DataError, InputError, TransformerError
from transformer.nn.model import Transformer
from transformer.text.batching import Batch, collate
from transformer.text.tokenizer import Tokenizer
from transformer.training.recipe import TrainingSection

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ModelConfig(
    vocab_size=40, d_model=16, heads=2, encoder_layers=2, decoder_layers=1, feed_forward=32, dropout=0.0
)
CPU = torch.device("cpu")
MODELS = [
    baselines.TorchTransformer,
    pytest.param(
        baselines.Marian,
        marks=pytest.mark.skipif(
            not baselines.marian_is_installed(), reason="Hugging Face's transformers is not installed"
        ),
    ),
]

STAT = """\
cpu  100 20 30 1000 40 5 6 7 50 60
cpu0 50 10 15 500 20 2 3 3 25 30
intr 12345
"""


def usage(clock: float, everyone: float, own: float) -> common.Usage:
    return common.Usage(clock, everyone, own)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# A quiet machine


def test_busy_time_leaves_out_idling_and_waiting_for_the_disk():
    # user + nice + system + irq + softirq + steal; guest time is in user already
    assert common.busy_seconds(STAT, 100) == pytest.approx((100 + 20 + 30 + 5 + 6 + 7) / 100)


@pytest.mark.parametrize("text", ["", "intr 1 2\n", "cpu  0 0 0 0 0 0 0 0 0 0\n"])
def test_a_system_without_figures_tells_nothing(text: str):
    assert common.busy_seconds(text, 100) is None


def test_other_processes_are_all_but_this_one():
    assert common.other_cpu(usage(10, 100, 50), usage(14, 107, 56)) == pytest.approx(0.25)
    assert common.other_cpu(usage(10, 100, 50), usage(14, 105.99, 56)) == 0  # rounding of the clocks
    assert common.other_cpu(None, usage(14, 107, 56)) is None
    assert common.other_cpu(usage(10, 100, 50), None) is None


def wait(shares: list[float | None], **options: object) -> float:
    """Wait on a machine whose other processes use these shares, window after window; the seconds waited."""
    clock = everyone = 0.0
    readings: list[common.Usage | None] = [usage(0, 0, 0)]
    for share in shares:
        clock += common.WINDOW
        everyone += common.WINDOW * (share or 0.0)
        readings.append(None if share is None else usage(clock, everyone, 0))
    paused: list[float] = []
    common.wait_until_quiet(read=iter(readings).__next__, pause=paused.append, **{"patience": 6, **options})
    return sum(paused)


def test_a_quiet_machine_is_used_at_once(capsys: pytest.CaptureFixture[str]):
    assert wait([0.02]) == common.WINDOW
    assert capsys.readouterr().err == ""


def test_a_busy_machine_is_waited_for_and_told_of_once(capsys: pytest.CaptureFixture[str]):
    assert wait([1.2, 0.3, 0.01]) == 3 * common.WINDOW
    (line,) = capsys.readouterr().err.splitlines()
    assert "120%" in line


def test_patience_ends(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(TransformerError, match=r"after 6 s they still use 70%.*--noisy"):
        wait([0.5, 0.5, 0.7, 0.0])


def test_noise_can_be_accepted():
    assert wait([], noisy=True) == 0


def test_what_cannot_be_told_is_said(capsys: pytest.CaptureFixture[str]):
    wait([None])
    assert "cannot be told" in capsys.readouterr().err


def test_own_work_is_not_others_work():
    before = common.read_usage()
    if before is None:
        pytest.skip("this system has no /proc/stat")
    end = before.clock + 0.2
    while (after := common.read_usage()) is not None and after.clock < end:
        pass
    assert after is not None
    assert after.own - before.own > 0.02
    assert after.everyone - before.everyone > 0.02


def test_mistakes_give_a_sentence_and_status_2(capsys: pytest.CaptureFixture[str]):
    def refuse() -> int:
        raise TransformerError("One sentence.")

    with pytest.raises(SystemExit) as left:
        common.leave(refuse)
    assert left.value.code == 2
    assert capsys.readouterr().err == "One sentence.\n"
    with pytest.raises(SystemExit) as left:
        common.leave(lambda: 0)
    assert left.value.code == 0


# Turns and figures


def test_every_system_begins_a_round_in_its_turn():
    seen = []

    def system(name: str):
        def turn(number: int) -> float:
            seen.append((number, name))
            return float(len(seen))

        return turn

    figures = common.interleave({name: system(name) for name in "abc"}, 4)
    assert ["".join(name for number, name in seen if number == turn) for turn in range(4)] == [
        "abc",
        "bca",
        "cab",
        "abc",
    ]
    assert figures == {"a": [1, 6, 8, 10], "b": [2, 4, 9, 11], "c": [3, 5, 7, 12]}


def test_ratios_are_of_pairs_within_a_round():
    figures = {"ours": [10.0, 100.0, 30.0], "other": [10.0, 50.0, 10.0]}
    assert common.ratios(figures, "ours") == {"ours/other": 2.0}  # not 3, the ratio of the medians
    assert common.ratios(figures, "other") == {"other/ours": 0.5}
    assert common.ratios(figures, "a third one") == {}


def test_speed_counts_real_target_pieces():
    batches = [collate([([2, 5, 3], [7, 8, 9]), ([2, 6, 3], [7])], [0, 1])] * 3
    assert batches[0].target_tokens == 6
    seen: list[Batch] = []
    assert train.speed(lambda batch: seen.append(batch) or 0.0, batches, iter([10.0, 14.0]).__next__) == 18 / 4
    assert seen == batches


# Pairs


def test_pairs_are_repeatable_and_as_long_as_stated():
    pairs = synthetic(5000, 100, CAPTIONS)
    assert pairs == synthetic(5000, 100, CAPTIONS)
    assert pairs != synthetic(5000, 100, CAPTIONS, seed=2)
    source, target = (np.array([len(pair[side]) for pair in pairs]) for side in (0, 1))
    assert (source - 2).mean() == pytest.approx(14.0, abs=0.3)
    assert target.mean() == pytest.approx(14.4, abs=0.3)
    assert (source.std(), target.std()) == pytest.approx((4.5, 5.2), abs=0.3)
    assert np.corrcoef(source, target)[0, 1] == pytest.approx(0.85, abs=0.03)
    ids = {piece for pair in pairs for piece in [*pair[0][1:-1], *pair[1]]}
    assert ids == set(range(4, 100))


def test_padding_is_counted_on_both_sides():
    batch = collate([([2, 5, 6, 3], [7, 8]), ([2, 5, 3], [7, 8, 9, 9])], [0, 1])
    assert padding([batch]) == pytest.approx((1 + 2) / (8 + 10))


def test_a_folder_without_the_corpus_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="--data must be a folder"):
        multi30k(tmp_path, 100)


# The other toolkits' models


def small_batch(extra: int = 0) -> Batch:
    """Three pairs of unequal lengths; ``extra`` columns of padding more than they need, on each side."""
    batch = collate([([2, 5, 6, 3], [7, 8]), ([2, 9, 3], [10, 11, 12, 13]), ([2, 14, 15, 16, 3], [17])], [0, 1, 2])

    def padded(ids: Tensor) -> Tensor:
        return nn.functional.pad(ids, (0, extra), value=PAD_ID)

    sides = (padded(ids) for ids in (batch.source, batch.target_input, batch.target_output))
    return Batch(*sides, batch.source_tokens, batch.target_tokens)


@pytest.mark.parametrize("kind", MODELS)
def test_loss_of_a_baseline_is_the_smoothed_cross_entropy(kind: type[nn.Module]):
    torch.manual_seed(3)
    model, batch = kind(CONFIG).train(), small_batch()
    logits = model(batch.source, batch.target_input)
    total = 0.0
    for row, labels in zip(logits.log_softmax(-1), batch.target_output.tolist(), strict=True):
        for position, label in enumerate(labels):
            if label != PAD_ID:
                total -= 0.9 * row[position, label].item() + 0.1 * row[position].mean().item()
    assert batch.target_tokens == 3 + 5 + 2
    assert baselines.batch_loss(model, batch, 0.1).item() == pytest.approx(total / 10, rel=1e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_a_baseline_ignores_padding(kind: type[nn.Module]):
    torch.manual_seed(3)
    model = kind(CONFIG).train()
    plain, wide = (baselines.batch_loss(model, small_batch(extra), 0.1) for extra in (0, 3))
    assert wide.item() == pytest.approx(plain.item(), rel=1e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_a_baseline_cannot_see_what_comes_later(kind: type[nn.Module]):
    torch.manual_seed(3)
    model, batch = kind(CONFIG).train(), small_batch()
    changed = batch.target_input.clone()
    changed[:, 2:] = 20
    one, other = model(batch.source, batch.target_input), model(batch.source, changed)
    torch.testing.assert_close(one[1, :2], other[1, :2])
    assert not torch.allclose(one[1, 2:], other[1, 2:])


@pytest.mark.parametrize("kind", MODELS)
def test_a_baseline_has_one_matrix_for_all_embeddings_and_learns(kind: type[nn.Module]):
    torch.manual_seed(3)
    model, batch = kind(CONFIG), small_batch()
    assert [parameter.shape for parameter in model.parameters()].count(torch.Size((40, 16))) == 1
    step = baselines.training_step(model, bfloat16=False, smoothing=0.1, clip_norm=1.0)
    losses = [step(batch) for _ in range(30)]
    assert losses[-1] < losses[0]
    assert baselines.training_step(model, bfloat16=True, smoothing=0.1, clip_norm=1.0)(batch) == pytest.approx(
        losses[-1], rel=0.02
    )


@pytest.mark.skipif(not baselines.marian_is_installed(), reason="Hugging Face's transformers is not installed")
def test_marian_given_labels_says_the_same_loss():
    torch.manual_seed(3)
    model, batch = baselines.Marian(CONFIG).train(), small_batch()
    labels = batch.target_output.masked_fill(batch.target_output == PAD_ID, -100)
    theirs = model.model(batch.source, attention_mask=(batch.source != PAD_ID).long(), labels=labels).loss
    assert baselines.batch_loss(model, batch, 0.0).item() == pytest.approx(theirs.item(), rel=1e-5)


# benchmarks/train.py


@pytest.fixture
def small_train(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(train, "VOCABULARIES", {"tiny": 60})
    monkeypatch.setattr(train, "PAIRS", 100)
    monkeypatch.setattr(train, "SETTINGS", dataclasses.replace(train.SETTINGS, batch_tokens=100))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("small_train")
def test_train_prints_a_line_for_each_system_and_the_ratios(capsys: pytest.CaptureFixture[str]):
    command = "--noisy --rounds 2 --steps 1 --threads 1 --preset tiny --systems torch-fp32 ours ours-dropout torch-bf16"
    assert train.main(command.split()) == 0
    *results, last = lines(capsys)
    assert [result["system"] for result in results] == ["torch-fp32", "ours", "ours-dropout", "torch-bf16"]
    for result in results:
        assert {"benchmark", "system", "preset", "value", "unit", "threads", "other_cpu"} <= result.keys()
        assert (result["benchmark"], result["preset"], result["threads"]) == ("train", "tiny", 1)
        assert 0 < result["lowest"] <= result["value"] <= result["highest"]
    assert last.keys() == {"ratios"}
    assert last["ratios"]["tiny"].keys() == {"ours/torch-fp32", "ours/ours-dropout", "ours/torch-bf16"}


@pytest.mark.usefixtures("small_train")
def test_without_marian_the_others_are_measured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(train, "marian_is_installed", lambda: False)
    command = "--noisy --rounds 1 --steps 1 --threads 1 --preset tiny --systems marian-bf16 ours"
    assert train.main(command.split()) == 0
    printed = capsys.readouterr()
    assert printed.err == "marian-bf16 is left out: it needs pip install -r benchmarks/requirements.txt\n"
    assert [json.loads(line).get("system") for line in printed.out.splitlines()] == ["ours", None]


@pytest.mark.usefixtures("small_train")
def test_all_systems_get_the_same_batches():
    one, other = (train.chosen_batches(None, 50, 3) for _ in range(2))
    assert all(torch.equal(a.source, b.source) for a, b in zip(one, other, strict=True))
    assert all(max(b.source.numel(), b.target_output.numel()) <= 100 for b in one)


@pytest.mark.parametrize("options", [["--rounds", "0"], ["--steps", "two"], ["--systems", "theirs"]])
def test_odd_options_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        train.main(options)
    assert left.value.code == 2
    assert options[0] in capsys.readouterr().err


def test_the_script_starts_from_any_folder(tmp_path: Path):
    command = [sys.executable, ROOT / "benchmarks" / "train.py", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--noisy" in done.stdout


# benchmarks/gpu.py


def test_a_step_on_the_cpu_equals_itself(capsys: pytest.CaptureFixture[str]):
    assert same_step.check(CONFIG, CPU, "toy")
    single, half = lines(capsys)
    assert single["value"] == single["loss"] == single["gradient_norm"] == 0
    assert 0 < half["value"] < half["limits"]["change"]
    assert single["agrees"]
    assert half["agrees"]


@pytest.mark.parametrize("name", ["encoder.0.self_attn.value.weight", "decoder.0.feed_forward_norm.bias"])
def test_a_disturbed_weight_is_noticed(name: str):
    torch.manual_seed(1)
    model = Transformer(CONFIG)
    reference = same_step.one_update(model, small_batch(), CPU, "float32")
    disturbed = Transformer(CONFIG)
    disturbed.load_state_dict(model.state_dict())
    with torch.no_grad():
        disturbed.get_parameter(name).view(-1)[3] += 0.02
    found = same_step.differences(model, reference, same_step.one_update(disturbed, small_batch(), CPU, "float32"))
    assert not found.within(same_step.LIMITS["float32"])
    assert found.change > same_step.LIMITS["float32"].change


def test_the_check_sees_the_gradient_of_every_weight():
    """The step compared is as large as the clipped gradient, not as Adam's usual one, whose signs are rounding's."""
    torch.manual_seed(1)
    model = Transformer(CONFIG)
    outcome = same_step.one_update(model, small_batch(), CPU, "float32")
    change = torch.cat([(outcome.weights[n] - p.detach()).flatten() for n, p in model.named_parameters()])
    assert float(change.norm()) == pytest.approx(min(1.0, outcome.gradient_norm), rel=0.3)


def test_what_is_not_a_number_does_not_agree():
    exact = same_step.Differences(0.0, 0.0, 0.0)
    assert exact.within(exact)
    for name in ("loss", "gradient_norm", "change"):
        assert not dataclasses.replace(exact, **{name: float("nan")}).within(same_step.LIMITS["bfloat16"])


@pytest.mark.parametrize(("built", "named"), [(None, "built for CUDA"), ("13.0", "nvidia-smi")])
def test_without_a_gpu_one_sentence_names_what_is_missing(
    built: str | None, named: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", built)
    with pytest.raises(TransformerError, match=named):
        gpu.main(["--noisy"])


def test_training_stops_when_the_time_is_over():
    class Stepper:
        model = Transformer(CONFIG)

        def update(self, *_: object) -> None:
            pass

    batch = small_batch()
    portion = gpu.Portion([batch, batch], 0, 20)
    pace = gpu.train_for(Stepper(), itertools.repeat(portion), 5.0, itertools.count(0.0, 2.0).__next__)
    assert (pace.updates, pace.seconds) == (3, 6.0)
    assert (pace.source_tokens, pace.target_tokens) == (6 * 12, 6 * 10)
    assert pace.positions == 6 * (3 * 5 + 3 * 5)
    assert 0 < pace.real_flops < pace.flops


def test_gpu_figures_go_into_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(gpu, "WARM_UP", 1)
    monkeypatch.setattr(gpu, "PAIRS", 40)
    monkeypatch.setattr(gpu, "peak_flops", lambda *_: 1e9)
    share = gpu.measure("toy", CONFIG, TrainingSection(device="cpu", batch_tokens=300), CPU, 0.05)
    (result,) = lines(capsys)
    assert {"benchmark", "system", "preset", "value", "unit", "threads", "other_cpu"} <= result.keys()
    assert result["updates"] >= 1
    assert result["value"] > result["target_tokens_per_second"] > 0
    assert 0 < result["mfu_real"] <= result["mfu"] == share
    assert result["peak_memory_gib"] > 0


# benchmarks/page.py


def test_sentences_have_the_wanted_length_and_are_repeatable(tiny_tokenizer: Tokenizer):
    for pieces in (30, 128):
        made = page.sentences(tiny_tokenizer, pieces, 22)
        assert len({sentence.text for sentence in made}) == 22
        for sentence in made:
            found = tiny_tokenizer.pieces(sentence.text)
            assert sentence.labels == tuple(piece.label for piece in found)
            assert len(found) == pieces
        assert page.sentences(tiny_tokenizer, pieces, 22) == made


def test_a_length_that_no_sentence_has_is_refused(tiny_tokenizer: Tokenizer):
    with pytest.raises(InputError, match="it was 3"):
        page.sentences(tiny_tokenizer, 3, 2)


class Counted:
    """A visit that needs no browser: the n-th answer takes n seconds."""

    def __init__(self, heads: int) -> None:
        self.heads = heads
        self.acts: list[tuple[str, str, str]] = []

    def action(self, name: str, view: str, sentence: page.Sentence) -> tuple[str, str, str]:
        return name, view, sentence.text

    def measure(self, act: tuple[str, str, str], view: str, sentence: page.Sentence, into: page.Answers) -> None:
        assert act[1:] == (view, sentence.text)
        self.acts.append(act)
        into.seconds.append(float(len(self.acts)))
        into.payload.append(1000)
        into.target_pieces.append(7)


def test_every_action_is_measured_in_both_views_and_the_first_turn_is_not_counted():
    made = {pieces: [page.Sentence(f"{pieces}, {n}", ()) for n in range(6)] for pieces in (30, 128)}
    visit = Counted(heads=4)
    found = page.measure(visit, made, 2)
    assert set(found) == set(itertools.product(page.ACTIONS, page.VIEWS, (30, 128)))
    assert all(len(answers.seconds) == 2 for answers in found.values())
    assert found["enter", "one head", 30].seconds == [13.0, 25.0]
    entered = [text for name, _, text in visit.acts if name == "enter"]
    assert len(entered) == len(set(entered)) == 12  # nothing comes out of a cache
    shown = "one head"
    for name, view, _ in visit.acts:
        assert (view != shown) == (name == "view")
        shown = view
    assert not [name for name, _, _ in page.measure(Counted(heads=1), made, 1) if name == "head"]


def test_answers_are_told_with_what_was_promised(capsys: pytest.CaptureFixture[str]):
    found = {
        ("enter", "all heads", 128): page.Answers([3.0, 1.0, 1.5], [5, 3, 4], [100, 90, 110]),
        ("head", "one head", 30): page.Answers([0.2], [9], [31]),
    }
    assert page.report(found, "toy", "cross", 2, 0.01) == {"all heads, 128 pieces/promised": 0.75}
    first, second = lines(capsys)
    assert {"benchmark", "system", "preset", "value", "unit", "threads", "other_cpu"} <= first.keys()
    assert (first["value"], first["lowest"], first["highest"], first["rounds"]) == (1.5, 1.0, 3.0, 3)
    assert (first["payload_bytes"], first["source_pieces"], first["target_pieces"]) == (4, 128, 100)
    assert first["kind"] == "cross"
    assert (second["action"], second["view"], second["value"]) == ("head", "one head", 0.2)


def test_server_and_browser_count_as_ourselves(tmp_path: Path):
    ticks = os.sysconf("SC_CLK_TCK")  # a second
    for number, parent, name in ((10, 1, "python"), (11, 10, "a (b) c"), (12, 11, "chromium"), (13, 1, "other")):
        folder = tmp_path / str(number)
        folder.mkdir()
        times = f"{ticks} {ticks} {2 * ticks} 0"  # user and system, its own and of children that have ended
        (folder / "stat").write_text(f"{number} ({name}) S {parent} 0 0 0 0 0 0 0 0 0 {times} 20 0\n")
    (tmp_path / "14").mkdir()  # has just ended
    assert common.tree_seconds(10, tmp_path) == 3 * 4
    assert common.tree_seconds(12, tmp_path) == 4
    if common.usage() is not None:
        assert common.tree_seconds(os.getpid()) > 0


def test_without_a_browser_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page, "CHROMIUM", None)
    with pytest.raises(TransformerError, match="apt-get install chromium"):
        page.main(["--noisy"])
    monkeypatch.setattr(page, "CHROMIUM", "chromium")
    monkeypatch.setattr(page.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(TransformerError, match=r"pip install -r tests/requirements\.txt"):
        page.main(["--noisy"])


def test_a_model_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page, "check_tools", lambda: None)
    with pytest.raises(TransformerError, match="nobody"):
        page.main(["--noisy", "--model", "nobody"])


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(page.CHROMIUM is None, reason="no Chromium is installed")
def test_the_page_is_measured_in_the_real_browser(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    monkeypatch.setattr(page, "REST", 200)
    monkeypatch.setattr(page, "use_cores", lambda number: number)  # of this process, which goes on
    command = ["--noisy", "--rounds", "1", "--pieces", "30", "--model", str(tiny_checkpoint)]
    assert page.main(command) == 0
    *results, last = lines(capsys)
    assert {(one["action"], one["view"]) for one in results} == set(itertools.product(page.ACTIONS, page.VIEWS))
    for one in results:
        assert 0 < one["value"] < page.PATIENCE / 1000
        assert one["preset"] == "tiny"
        assert one["source_pieces"] == 30
        assert one["payload_bytes"] > 1000
    assert last["ratios"].keys() == {"one head, 30 pieces/promised", "all heads, 30 pieces/promised"}
