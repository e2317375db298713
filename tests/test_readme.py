"""What the README says is so: its commands run, its files exist, its figures are those of the checkpoints."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from transformer.config import ModelConfig
from transformer.training.recipe import SECTIONS, recipe_from

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = {
    language: re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
    for language in ("bash", "python", "toml")
}
COMMANDS = [line for block in BLOCKS["bash"] for line in block.strip().splitlines()]


class Loaded(HTMLParser):
    """What a page would load from elsewhere; the text of scripts is not looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def run(command: list[str], folder: Path, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False, **options
    )


def transformer_commands(*names: str) -> list[str]:
    found = [c for c in COMMANDS if re.match(rf"python -m transformer ({'|'.join(names)}) ", c)]
    assert found
    return found


def test_two_commands_set_everything_up():
    start, test = (c for c in COMMANDS if c.startswith("pip install"))
    assert start == "pip install -r requirements.txt && streamlit run app.py"
    assert test == "pip install -r requirements.txt -r tests/requirements.txt && python -m pytest"
    continuous = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "pip install --quiet --disable-pip-version-check -r requirements.txt -r tests/requirements.txt" in continuous
    assert continuous.rstrip().endswith("python -m pytest")
    for pins in ("requirements.txt", "tests/requirements.txt"):
        for line in (ROOT / pins).read_text(encoding="utf-8").splitlines():
            assert re.fullmatch(r"[A-Za-z0-9-]+==[0-9.]+", line), f"{pins}: {line} is not pinned exactly"


@pytest.mark.parametrize("command", transformer_commands("translate en-fr", "inspect", "info"))
def test_commands_run_as_written(command: str, tmp_path: Path):
    words = shlex.split(command)
    done = run([sys.executable, *words[1:]], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr
    if "maps.npz" in words:
        with np.load(tmp_path / "maps.npz") as maps:
            assert maps["cross"].shape[2:] == (len(maps["target_tokens"]), len(maps["source_tokens"]))
            assert np.abs(maps["cross"].sum(-1) - 1).max() < 1e-5
            assert np.triu(maps["decoder"], k=1).max() == 0
    if "maps.html" in words:
        page = (tmp_path / "maps.html").read_text(encoding="utf-8")
        loaded = Loaded()
        loaded.feed(page)
        assert not loaded.addresses


def test_python_example_runs_as_written(tmp_path: Path):
    (code,) = BLOCKS["python"]
    done = run([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip().splitlines()) == 3


def test_own_recipe_trains_and_the_run_is_a_checkpoint(tmp_path: Path):
    (text,) = BLOCKS["toml"]
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    lines = (ROOT / "tests" / "assets" / "sentences.tsv").read_text(encoding="utf-8").strip().splitlines() * 2
    pairs = [line.split("\t") for line in lines]
    for side, code in enumerate(("en", "fr")):
        content = "".join(f"{pair[side]} {number}\n" for number, pair in enumerate(pairs))
        (tmp_path / f"mine.{code}").write_text(content, encoding="utf-8")
        (tmp_path / f"dev.{code}").write_text(content[:200].rpartition("\n")[0] + "\n", encoding="utf-8")
    dry, command = sorted((c for c in transformer_commands("train") if "mine.toml" in c), key=lambda c: "--out" in c)
    done = run([sys.executable, *shlex.split(dry)[1:]], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "parameters" in done.stdout
    assert not (tmp_path / "checkpoints").exists()
    changes = [
        "tokenizer.vocab_size=200", "training.epochs=1", "training.average=1", 'data.dev_source="dev.en"',
        'data.dev_target="dev.fr"',
    ]  # fmt: skip
    sets = [word for change in changes for word in ("--set", change)]
    done = run([sys.executable, *shlex.split(command)[1:], *sets], tmp_path)
    assert done.returncode == 0, done.stderr
    done = run([sys.executable, "-m", "transformer", "translate", "mine", "A dog."], tmp_path)
    assert done.returncode == 0, done.stderr


def test_recipe_in_the_readme_is_valid():
    import tomllib

    (text,) = BLOCKS["toml"]
    assert recipe_from(tomllib.loads(text)).data.target == "mine.fr"


def test_files_and_links_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
    for name in re.findall(r"`?((?:transformer|benchmarks)/[a-z_/]+\.(?:py|txt))", README):
        assert (ROOT / name).exists(), name
    tree = re.search(r"## Where things are\n\n```\n(.*?)```", README, flags=re.DOTALL)
    assert tree
    for line in tree[1].splitlines():
        base = ROOT / "transformer" if line.startswith("  ") else ROOT
        for name in re.match(r"\s*((?:\S+ )*\S+)", line)[1].split("  ")[0].split():  # type: ignore[index]
            assert (base / name).exists(), line


def test_recipe_values_that_the_readme_names_exist():
    named = re.findall(r"`(?:--set )?(data|training|checkpoint|tokenizer|model)\.([a-z_]+)(?:=[^`]*)?`", README)
    assert len(named) > 10
    for section, key in named:
        if (section, key) not in {("tokenizer", "model"), ("model", "safetensors")}:  # files
            known = ModelConfig if section == "model" else SECTIONS[section]
            assert key in {field.name for field in dataclasses.fields(known)}, f"{section}.{key}"


@pytest.mark.parametrize("name", ["en-fr", "en-de-multi30k", "reverse"])
def test_scores_are_those_of_the_checkpoint(name: str):
    config = json.loads((ROOT / "checkpoints" / name / "config.json").read_text(encoding="utf-8"))
    (row,) = (line for line in README.splitlines() if line.startswith(f"| `{name}` |"))
    score = row.split("|")[4]
    figures = re.findall(r"\d+\.\d+", score)
    assert figures
    recorded = {f"{entry['value']:.2f}" for entry in config["scores"]} | {str(e["value"]) for e in config["scores"]}
    assert set(figures) <= recorded
    card = (ROOT / "checkpoints" / name / "README.md").read_text(encoding="utf-8")
    for entry in config["scores"]:
        assert entry["signature"].replace("|", "\\|") in card  # a bar would end the cell of a table
