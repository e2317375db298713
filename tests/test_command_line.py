"""Commands: what they print where, and how they end. A process is started only where the process is the point."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transformer.capture.record import KINDS
from transformer.cli.main import main
from transformer.engine import SamplingOptions, Translator

SENTENCE = "Two dogs run."
ROOT = Path(__file__).parent.parent


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command: (status, standard output, standard error)."""

    def command(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as exit_:
            status = int(exit_.code or 0)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


def _mistake(outcome: tuple[int, str, str], *said: str) -> None:
    status, out, err = outcome
    assert status == 2, err
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.endswith(".\n"), err
    assert "Traceback" not in err
    for words in said:
        assert words in err


# -------------------------------------------------------------------------------------------------- translate


def test_translate_prints_a_line_for_each_argument(run: Any, tiny_checkpoint: Path, translator: Translator) -> None:
    status, out, err = run("translate", tiny_checkpoint, SENTENCE, "The cat sleeps.")
    assert (status, err) == (0, "")
    assert out.splitlines() == [translator.translate(text).text for text in (SENTENCE, "The cat sleeps.")]


def test_translate_turns_lines_into_lines(run: Any, tiny_checkpoint: Path, translator: Translator) -> None:
    status, out, _ = run(
        "translate", tiny_checkpoint, "--beam", 2, stdin=f"{SENTENCE}\r\n\n   \na\x0bb\x85c\nThe cat".encode()
    )
    first, blank, spaces, odd, last = out.removesuffix("\n").split("\n")
    assert status == 0
    assert first == translator.translate(SENTENCE, beam_size=2).text
    assert (blank, spaces) == ("", "")
    assert odd == translator.translate("a\x0bb\x85c", beam_size=2).text
    assert last == translator.translate("The cat", beam_size=2).text


def test_translate_of_nothing_is_nothing(run: Any, tiny_checkpoint: Path) -> None:
    assert run("translate", tiny_checkpoint) == (0, "", "")


def test_options_may_stand_before_the_sentences(run: Any, tiny_checkpoint: Path) -> None:
    after = run("translate", tiny_checkpoint, SENTENCE, "The cat.", "--beam", 2)
    assert run("translate", tiny_checkpoint, "--beam", 2, SENTENCE, "The cat.") == after
    assert run("translate", "--beam", 2, tiny_checkpoint, SENTENCE, "The cat.") == after
    for words in (["--", "-7"], ["--", "--beam"], ["-7 dogs"], ["dogs", "--", "-7"]):
        count = len([word for word in words if word != "--"])
        status, out, err = run("translate", tiny_checkpoint, "--beam", 2, *words)
        assert (status, out.count("\n")) == (0, count), err


def test_translate_json(run: Any, tiny_checkpoint: Path, translator: Translator) -> None:
    status, out, _ = run(
        "translate", tiny_checkpoint, "--json", "--beam", 3, "--nbest", 2, "--length-penalty", 1, stdin=b"\nTwo dogs.\n"
    )
    blank, values = map(json.loads, out.splitlines())
    found = translator.translate("Two dogs.", beam_size=3, length_penalty=1.0, nbest=2)
    assert status == 0
    assert blank == {"source": "", "text": "", "hypotheses": []}
    assert (values["source"], values["text"], values["tokens"]) == ("Two dogs.", found.text, list(found.tokens))
    assert values["score"] == found.score
    assert [one["ids"] for one in values["hypotheses"]] == [list(one.ids) for one in found.hypotheses]


def test_translate_nbest(run: Any, tiny_checkpoint: Path, translator: Translator) -> None:
    _, out, _ = run("translate", tiny_checkpoint, SENTENCE, "--nbest", 3)
    found = translator.translate(SENTENCE, nbest=3).hypotheses
    assert [line.split("\t") for line in out.splitlines()] == [
        ["1", str(rank), f"{one.score:.4f}", one.text] for rank, one in enumerate(found, start=1)
    ]


def test_translate_steered(run: Any, tiny_checkpoint: Path, translator: Translator) -> None:
    options = ["--beam", 2, "--coverage-penalty", 0.3, "--no-repeat-ngram", 2, "--prefix", "Zwei Hunde", "--json"]
    status, out, err = run("translate", tiny_checkpoint, SENTENCE, *options)
    prefix = translator.ids_of("Zwei Hunde")
    found = translator.translate(SENTENCE, 2, nbest=1, coverage_penalty=0.3, no_repeat_ngram=2, prefix_ids=prefix)
    (hypothesis,) = json.loads(out)["hypotheses"]
    assert (status, err) == (0, "")
    assert hypothesis["ids"] == list(found.ids)
    assert hypothesis["ids"][: len(prefix)] == list(prefix)
    assert hypothesis["coverage"] == found.best.coverage


def test_translate_draws(run: Any, tiny_checkpoint: Path, translator: Translator) -> None:
    options = ["--sample", "--temperature", 0.8, "--top-k", 30, "--top-p", 0.95, "--seed", 5]
    drawn = translator.sample(SENTENCE, SamplingOptions(0.8, 30, 0.95, 5))
    assert run("translate", tiny_checkpoint, SENTENCE, *options) == (0, drawn.text + "\n", "")
    _, out, _ = run("translate", tiny_checkpoint, SENTENCE, *options, "--json")
    values = json.loads(out)
    assert values["log_probs"] == list(drawn.log_probs)
    assert values["source_tokens"][-1] == "<EOS>"
    begun = translator.sample(SENTENCE, SamplingOptions(), translator.ids_of("Zwei"))
    assert run("translate", tiny_checkpoint, SENTENCE, "--sample", "--prefix", "Zwei")[1] == begun.text + "\n"


def test_translate_mistakes(run: Any, tiny_checkpoint: Path, tmp_path: Path) -> None:
    _mistake(run("translate"), "CHECKPOINT")
    _mistake(run("translate", "no-such"), "checkpoint must be a folder")
    _mistake(run("translate", tmp_path, "a"), "config.json")
    _mistake(run("translate", tiny_checkpoint, ""), "sentence must hold")
    _mistake(run("translate", tiny_checkpoint, "a", "--beam", "0"), "--beam", "at least 1")
    _mistake(run("translate", tiny_checkpoint, "a", "--beam", "many"), "--beam")
    _mistake(run("translate", tiny_checkpoint, "a", "--beam", "99999999"), "--beam", "at most 100")
    _mistake(run("translate", tiny_checkpoint, "a", "--length-penalty", "-1"), "length_penalty")
    _mistake(run("translate", tiny_checkpoint, "a", "--length-penalty", "x"), "--length-penalty")
    _mistake(run("translate", tiny_checkpoint, "a", "--nbest", "6"), "--nbest", "--beam 5")
    _mistake(run("translate", tiny_checkpoint, "a", "--colour"), "--colour")
    _mistake(run("translate", tiny_checkpoint, "a", "--coverage-penalty", "-1"), "coverage_penalty")
    _mistake(run("translate", tiny_checkpoint, "a", "--no-repeat-ngram", "-1"), "no_repeat_ngram")
    _mistake(run("translate", tiny_checkpoint, "a", "--top-k", "5"), "--top-k must go with --sample")
    _mistake(run("translate", tiny_checkpoint, "a", "--sample", "--nbest", "2"), "--nbest cannot go with --sample")
    _mistake(run("translate", tiny_checkpoint, "a", "--sample", "--temperature", "0"), "temperature")
    _mistake(run("translate", tiny_checkpoint, "a", "--prefix", "dog " * 300), "at most 64 pieces")
    _mistake(run("translate", tiny_checkpoint, "dog " * 300), "at most 64 pieces")
    _mistake(run("translate", tiny_checkpoint, stdin=b"\xff\xfe\n"), "UTF-8")
    _mistake(run("frobnicate"), "frobnicate")
    _mistake(run(), "COMMAND")


def test_a_line_too_long_is_named_after_the_lines_before_it(run: Any, tiny_checkpoint: Path) -> None:
    status, out, err = run("translate", tiny_checkpoint, "--beam", 1, stdin=b"a\n\n" + b"dog " * 300 + b"\nb\n")
    assert status == 2
    assert out.count("\n") == 2
    assert "line 3" in err
    assert "at most 64 pieces" in err


def test_a_line_that_is_not_utf8_is_named_after_the_lines_before_it(
    run: Any, tiny_checkpoint: Path, translator: Translator
) -> None:
    status, out, err = run("translate", tiny_checkpoint, "--beam", 1, stdin=b"a b\n\xff\xfe\nc\n")
    assert (status, out) == (2, translator.translate("a b", beam_size=1).text + "\n")
    assert err.startswith("standard input, line 2, must be UTF-8 text")
    assert err.count("\n") == 1


def test_standard_input_that_is_closed_is_a_mistake(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    status = main(["translate", str(tiny_checkpoint)])
    _mistake((status, *capsys.readouterr()), "standard input must be open")


def test_arguments_that_are_not_utf8_are_read_with_replacements(run: Any, tiny_checkpoint: Path) -> None:
    """``$'A \\xff dog.'`` reaches Python with a lone surrogate in it."""
    status, out, err = run("translate", tiny_checkpoint, "--json", "A \udcff dog.")
    assert status == 0, err
    assert json.loads(out)["source"] == "A \ufffd dog."


# ---------------------------------------------------------------------------------------------------- inspect


def test_inspect_npz(run: Any, tiny_checkpoint: Path, tmp_path: Path, translator: Translator) -> None:
    out = tmp_path / "x.npz"
    status, said, err = run("inspect", tiny_checkpoint, SENTENCE, "--target", "Zwei Hunde.", "--out", out)
    record = translator.inspect(SENTENCE, target="Zwei Hunde.")
    assert status == 0, err
    assert str(out) in said
    with np.load(out, allow_pickle=False) as arrays:
        for kind in KINDS:
            assert np.array_equal(arrays[kind], record.attention(kind))
        assert arrays["source_tokens"].tolist() == record.source_tokens
        assert arrays["target_tokens"].tolist() == record.target_tokens
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_inspect_json_is_of_the_own_translation(
    run: Any, tiny_checkpoint: Path, tmp_path: Path, translator: Translator
) -> None:
    assert run("inspect", tiny_checkpoint, SENTENCE, "--beam", 2, "--out", tmp_path / "x.json")[0] == 0
    plain = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert plain["output_ids"] == list(translator.translate(SENTENCE, beam_size=2).ids)
    assert np.shape(plain["cross"])[:2] == (2, 4)


def test_inspect_html_is_one_page_that_opens_offline(run: Any, tiny_checkpoint: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformer.plots.page")
    out = tmp_path / "x.html"
    status, _, err = run("inspect", tiny_checkpoint, "Two <b>dogs</b> run.", "--target", "Zwei.", "--out", out)
    assert status == 0, err
    page = out.read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html")
    markup = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert "http:" not in markup
    assert "https:" not in markup
    assert "src=" not in markup
    assert "<b>dogs" not in page
    assert "Plotly" in page


@pytest.mark.parametrize("suffix", ["json", "html", "npz"])
def test_inspect_takes_arguments_that_are_not_utf8(
    run: Any, tiny_checkpoint: Path, tmp_path: Path, suffix: str
) -> None:
    if suffix == "html":
        pytest.importorskip("transformer.plots.page")
    out = tmp_path / f"x.{suffix}"
    status, _, err = run("inspect", tiny_checkpoint, "A \udcff dog.", "--target", "\udcff", "--out", out)
    assert status == 0, err
    assert out.stat().st_size > 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names of any bytes")
def test_inspect_writes_to_a_name_that_is_not_utf8(tiny_checkpoint: Path, tmp_path: Path) -> None:
    out = os.fsencode(tmp_path) + b"/\xff.npz"
    command = [sys.executable, "-m", "transformer", "inspect", str(tiny_checkpoint), "a", "--target", "b", "--out", out]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert b"/\\udcff.npz: encoder" in done.stdout
    assert os.path.getsize(out) > 0


def test_inspect_names_the_file_that_cannot_be_written(run: Any, tiny_checkpoint: Path) -> None:
    if not os.path.isdir("/proc/self"):
        pytest.skip("needs /proc")
    outcome = run("inspect", tiny_checkpoint, "a", "--target", "b", "--out", "/proc/a.npz")
    _mistake(outcome, "--out", "'/proc/a.npz'")
    assert ".tmp" not in outcome[2]


def test_inspect_for_bertviz(run: Any, tiny_checkpoint: Path, tmp_path: Path, translator: Translator) -> None:
    out = tmp_path / "maps.bertviz.npz"
    status, _, err = run("inspect", tiny_checkpoint, SENTENCE, "--out", out)
    assert status == 0, err
    with np.load(out) as arrays:
        np.testing.assert_array_equal(arrays["cross_attention"][:, 0], translator.inspect(SENTENCE).cross)


def test_inspect_mistakes(run: Any, tiny_checkpoint: Path, tmp_path: Path) -> None:
    _mistake(run("inspect", tiny_checkpoint, SENTENCE), "--out")
    _mistake(run("inspect", tiny_checkpoint, "--out", tmp_path / "x.npz"), "TEXT")
    _mistake(run("inspect", tiny_checkpoint, SENTENCE, "--out", tmp_path / "x.txt"), ".npz, .json, .html")
    _mistake(run("inspect", tiny_checkpoint, SENTENCE, "--out", tmp_path / "no" / "x.npz"), "folder that exists")
    _mistake(run("inspect", tiny_checkpoint, " ", "--out", tmp_path / "x.npz"), "sentence must hold")
    _mistake(run("inspect", tiny_checkpoint, SENTENCE, "--target", "dog " * 300, "--out", tmp_path / "x.npz"), "target")
    (tmp_path / "folder.npz").mkdir()
    _mistake(run("inspect", tiny_checkpoint, SENTENCE, "--out", tmp_path / "folder.npz"), "must be a file")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.npz"]


def test_a_full_disk_is_said_in_one_sentence(
    run: Any, tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    _mistake(run("inspect", tiny_checkpoint, SENTENCE, "--target", "a", "--out", tmp_path / "x.npz"), "No space left")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------- evaluate, info, data, train


def test_evaluate_scores_its_own_output_with_100(
    run: Any, tiny_checkpoint: Path, tmp_path: Path, sentences: list[tuple[str, str]], translator: Translator
) -> None:
    texts = [source for source, _ in sentences[:4]]
    own = [translator.translate(text, beam_size=2).text for text in texts]
    (tmp_path / "source").write_text("\n".join(texts) + "\n", encoding="utf-8")
    (tmp_path / "reference").write_text("\n".join(own) + "\n", encoding="utf-8")
    command = ("evaluate", tiny_checkpoint, "--source", tmp_path / "source", "--reference", tmp_path / "reference")
    status, out, err = run(*command, "--beam", 2, "--json")
    values = json.loads(out)
    assert status == 0, err
    assert values["exact_match"] == values["chrf"] == 100.0
    assert values["sentences"] == 4
    assert values["bleu_signature"]
    _, out, _ = run(*command, "--beam", 2)
    assert "bleu_signature" in out


def test_evaluate_mistakes(run: Any, tiny_checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "one").write_text("a\n")
    _mistake(run("evaluate", tiny_checkpoint, "--source", tmp_path / "no", "--reference", tmp_path / "one"), "--source")
    _mistake(run("evaluate", tiny_checkpoint, "--source", tmp_path / "one", "--reference", tmp_path), "--reference")
    _mistake(run("evaluate", tiny_checkpoint, "--source", tmp_path / "two", "--reference", tmp_path / "one"), "2", "1")
    _mistake(run("evaluate", tiny_checkpoint, "--reference", tmp_path / "one"), "--source", "--dataset")
    _mistake(run("evaluate", tiny_checkpoint, "--source", tmp_path / "one"), "--reference")
    _mistake(run("evaluate", tiny_checkpoint, "--dataset", "multi30k", "--source", tmp_path / "one"), "--source")
    _mistake(run("evaluate", tiny_checkpoint, "--dataset", "multi30k", "--tokenized", "de"), "--tokenized")
    _mistake(run("evaluate", tiny_checkpoint, "--dataset", "wmt", "--data", tmp_path), "'wmt'", "multi30k")
    _mistake(run("evaluate", tiny_checkpoint, "--dataset", "multi30k", "--data", tmp_path), "must be fetched first")
    _mistake(run("evaluate", tiny_checkpoint, "--part", "dev", "--source", tmp_path / "one"), "--part", "--dataset")


def test_evaluate_on_a_named_corpus(run: Any, tiny_checkpoint: Path, tmp_path: Path) -> None:
    lines = "".join(f"He has {number} dogs.\tEr hat {number} Hunde.\n" for number in range(300))
    (tmp_path / "tatoeba").mkdir()
    with zipfile.ZipFile(tmp_path / "tatoeba" / "deu-eng.zip", "w") as archive:
        archive.writestr("deu.txt", lines)
    command = ("evaluate", tiny_checkpoint, "--dataset", "tatoeba-eng-deu", "--data", tmp_path, "--beam", 1)
    status, out, err = run(*command, "--json")
    assert status == 0, err
    assert [score["name"] for score in json.loads(out)["scores"]] == ["BLEU", "chrF2"]
    status, out, _ = run(*command, "--part", "dev", "test")
    assert "part dev, name BLEU" in out
    assert "part test, name chrF2" in out


def test_info(run: Any, tiny_checkpoint: Path, translator: Translator) -> None:
    status, out, _ = run("info", tiny_checkpoint, "--json")
    values = json.loads(out)
    assert status == 0
    assert values["parameters"] == translator.parameter_count
    assert values["sha256"] == translator.sha256
    assert values["model"]["encoder_layers"] == 3
    assert values["length_penalty"] == 0.6
    assert values["bytes"] == sum(path.stat().st_size for path in tiny_checkpoint.iterdir())
    assert values["scores"][0]["metric"] == "BLEU"
    status, out, _ = run("info", tiny_checkpoint)
    assert status == 0
    assert f"{translator.parameter_count:,}" in out
    assert "German" in out


def test_a_snapshot_on_the_command_line(
    run: Any, tiny_checkpoint: Path, tmp_path: Path, translator: Translator
) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))
    (folder / "snapshots").mkdir()
    shutil.copy(folder / "model.safetensors", folder / "snapshots" / "step-000040.safetensors")
    status, out, err = run("translate", folder, SENTENCE, "--snapshot", 40)
    assert (status, out.strip()) == (0, translator.translate(SENTENCE).text), err
    assert json.loads(run("info", folder, "--json")[1])["snapshots"] == [40]
    _mistake(run("translate", folder, SENTENCE, "--snapshot", 41), "snapshot must be one of 40")
    _mistake(run("translate", folder, SENTENCE, "--snapshot", 0), "--snapshot")
    _mistake(run("inspect", tiny_checkpoint, SENTENCE, "--out", tmp_path / "x.npz", "--snapshot", 1), "has none")


def test_data_mistakes(run: Any, tmp_path: Path) -> None:
    _mistake(run("data", "no-such-corpus", "--data", tmp_path), "no-such-corpus", "multi30k")


def test_train_mistakes(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("transformer.training.run")
    _mistake(run("train", "no-such-recipe", "--out", tmp_path / "x"), "no-such-recipe")
    _mistake(run("train", "reverse"), "--out")
    _mistake(run("train", "reverse", "--out", tmp_path / "\udcff"), "named in UTF-8")
    _mistake(run("train", "reverse", "--out", tmp_path / "x", "--set", "steps"), "--set")
    assert not (tmp_path / "x").exists()


# ---------------------------------------------------------------------------------------------------- processes


def _process(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "transformer", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_help_does_not_wait_for_pytorch() -> None:
    program = (
        "import sys; from transformer.cli.main import main\n"
        "try: main(['translate', '--help'])\n"
        "except SystemExit as e: assert e.code == 0\n"
        "assert not {'torch', 'numpy', 'sentencepiece'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=200, check=True)
    assert b"CHECKPOINT" in done.stdout


def test_a_dialogue_line_by_line_in_any_locale_that_ends_with_an_interrupt(tiny_checkpoint: Path) -> None:
    """Each line is answered before the next is sent; Ctrl-C ends it with one line and status 130."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "OMP_NUM_THREADS": "1"}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so do theirs
    process = _process("translate", tiny_checkpoint, "--beam", 1, stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    for line in ("Zwei Häuser 🐕\n", "\n"):
        process.stdin.write(line.encode())
        process.stdin.flush()
        assert process.stdout.readline().decode("utf-8").endswith("\n")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert process.stderr.read() == b"Interrupted.\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_a_mistake(tiny_checkpoint: Path) -> None:
    command = [sys.executable, "-m", "transformer", "info", str(tiny_checkpoint)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (2, b"No space left on device.\n")


def test_a_reader_that_goes_away_ends_it_quietly(tiny_checkpoint: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = _process("translate", tiny_checkpoint, "--beam", 1, stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"a\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    process.stdin.write(b"b\n" * 3)
    process.stdin.close()
    started = time.monotonic()
    assert process.wait(timeout=60) == 141
    assert time.monotonic() - started < 60
    assert process.stderr.read() == b""
