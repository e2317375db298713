"""Which way imports go: the table of the design, held by reading every file's imports.

Only what runs counts: imports below ``if TYPE_CHECKING`` are for the type checker.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EVERYWHERE = ("transformer.errors", "transformer.config", "transformer.files", "transformer.catalogue")


@dataclass(frozen=True)
class Row:
    """What a package may import besides itself, the standard library and ``EVERYWHERE``; names cover what lies below.

    ``forbidden`` says again what the design names as forbidden: such an import stays wrong if ``allowed`` is loosened.
    """

    allowed: tuple[str, ...]
    forbidden: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    """Allowed within a function only, where it costs nothing until it is called."""


def of_ours(*names: str) -> tuple[str, ...]:
    return tuple(f"transformer.{name}" for name in names)


# The dataclasses that cross the layers, and the pieces that they hold.
RECORDS = of_ours("capture.record", "decoding.trace", "text.tokenizer")

TABLE = {
    "transformer.errors": Row(()),
    "transformer.config": Row(of_ours("errors")),
    "transformer.files": Row(()),
    "transformer.catalogue": Row(of_ours("errors")),
    "transformer.nn": Row(("torch",), (*of_ours("text", "decoding"), "plotly", "streamlit")),
    "transformer.text": Row(
        ("sentencepiece", "numpy", "torch", "tqdm"), (*of_ours("nn", "training"), "plotly", "streamlit")
    ),
    "transformer.checkpoint": Row(
        ("safetensors", "torch", *of_ours("nn", "text")), (*of_ours("decoding", "training"), "streamlit")
    ),
    "transformer.decoding": Row(("torch",), (*of_ours("text", "plots"), "streamlit")),
    "transformer.decoding.step": Row(("torch", *of_ours("nn", "decoding")), (*of_ours("text", "plots"), "streamlit")),
    "transformer.capture": Row(
        ("torch", "numpy", *of_ours("nn.probe", "nn.model", "text.tokenizer")),
        (*of_ours("decoding", "plots"), "streamlit"),
    ),
    "transformer.analysis": Row(("numpy", *RECORDS), ("torch", "plotly", "streamlit")),
    "transformer.plots": Row(("plotly", "numpy", *of_ours("analysis"), *RECORDS), ("torch", "streamlit")),
    "transformer.training": Row(
        ("torch", "numpy", "safetensors", "sacrebleu", "tqdm", *of_ours("nn", "text", "checkpoint", "decoding")),
        (*of_ours("capture", "plots"), "streamlit"),
        inside=("sacremoses",),
    ),
    "transformer.recipes": Row(()),
    "transformer.interop": Row(
        ("torch", "numpy", "safetensors", *of_ours("nn", "text", "checkpoint")), (*of_ours("plots"), "streamlit")
    ),
    "transformer.results": Row((), ("torch", "streamlit")),
    "transformer.engine": Row(
        (
            "torch",
            "numpy",
            *of_ours("results", "checkpoint", "nn", "text", "decoding", "capture", "analysis.arithmetic"),
        ),
        (*of_ours("plots", "training"), "streamlit"),
    ),
    "transformer.lessons": Row(
        (
            "torch",
            "numpy",
            *of_ours("engine", "results", "checkpoint", "nn", "text", "decoding", "capture", "analysis", "training"),
        ),
        (*of_ours("plots"), "plotly", "streamlit"),
    ),
    "transformer.cli": Row((), ("streamlit",), inside=("transformer", "torch", "numpy", "tqdm")),
    "transformer.webapp": Row(
        # what a record is saved as is plain numpy, and needs no model
        ("streamlit", "numpy", "PIL", *of_ours("engine", "analysis", "plots", "capture.export"), *RECORDS),
        ("torch", *of_ours("nn", "training")),
        inside=of_ours("lessons"),  # they import torch, which a page must not wait for before it shows its frame
    ),
    "transformer.__main__": Row(of_ours("cli")),
    # The front door: errors at once, everything else at first use; the names are the type checker's.
    "transformer": Row(()),
    "pages": Row(
        ("streamlit", "numpy", *of_ours("webapp", "analysis", "plots")), ("torch", *of_ours("nn", "decoding"))
    ),
    "app": Row(("streamlit", *of_ours("webapp", "analysis", "plots")), ("torch", *of_ours("nn", "decoding"))),
}


@dataclass(frozen=True)
class Import:
    name: str
    line: int
    in_function: bool


def imports_of(source: str, package: str = "") -> Iterator[Import]:
    """The modules that a source imports when it runs: ``from a import b`` gives ``a.b`` (b may be a module).

    ``package`` is what a relative import starts from.
    """
    yield from _walk(ast.parse(source), package, False)


def _walk(node: ast.AST, package: str, in_function: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, in_function) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - child.level + 1], *filter(None, [base])])
            yield from (Import(f"{base}.{alias.name}", child.lineno, in_function) for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in {
            getattr(child.test, "id", None),
            getattr(child.test, "attr", None),
        }:
            for otherwise in child.orelse:
                yield from _walk(ast.Module([otherwise], []), package, in_function)
        else:
            inside = in_function or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _walk(child, package, inside)


def is_below(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def row_of(module: str) -> tuple[str, Row]:
    """The most special row that covers a module; the front door's covers only itself."""
    fitting = [key for key in TABLE if is_below(module, (key,)) and (key != "transformer" or module == key)]
    if not fitting:
        raise AssertionError(f"{module} has no row in the table of imports: add one to the design and to this test")
    key = max(fitting, key=len)
    return key, TABLE[key]


def violations(module: str, source: str, is_package: bool = False) -> list[str]:
    """What a module imports against the table, each as a sentence with its line."""
    key, row = row_of(module)
    package = module if is_package else module.rpartition(".")[0]
    found = []
    for one in imports_of(source, package):
        top = one.name.partition(".")[0]
        if top in sys.stdlib_module_names:
            continue
        own = (key,) if key != "transformer" else ()  # the front door is not all that lies behind it
        allowed = (*own, *EVERYWHERE, *row.allowed, *(row.inside if one.in_function else ()))
        if key in EVERYWHERE:
            allowed = row.allowed  # what everything rests on rests on nothing that rests on it
        if is_below(one.name, row.forbidden) or not is_below(one.name, allowed):
            found.append(f"{module}, line {one.line}: {one.name} must not be imported by {key}")
    return found


def modules() -> list[tuple[str, Path]]:
    files = [*ROOT.glob("transformer/**/*.py"), *ROOT.glob("pages/*.py"), ROOT / "app.py"]
    found = []
    for path in sorted(files):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


@pytest.mark.parametrize(("module", "path"), [pytest.param(*entry, id=entry[0]) for entry in modules()])
def test_imports_go_the_agreed_way(module: str, path: Path) -> None:
    found = violations(module, path.read_text(encoding="utf-8"), path.name == "__init__.py")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source", "named"),
    [
        ("transformer.nn.layers", "import torch\nimport plotly.graph_objects as go", "line 2: plotly.graph_objects"),
        ("transformer.nn.layers", "from transformer import text", "transformer.text"),
        (
            "transformer.text.batching",
            "def f():\n    from transformer.nn.model import Transformer",
            "transformer.nn.model",
        ),
        ("transformer.files", "import numpy", "numpy"),
        ("transformer.files", "from transformer.errors import problem", "transformer.errors"),
        ("transformer.errors", "from transformer.config import PAD_ID", "transformer.config"),
        ("transformer.decoding.beam", "from transformer.nn.model import Transformer", "transformer.nn"),
        ("transformer.capture.capture", "from transformer.decoding.beam import beam_search", "transformer.decoding"),
        ("transformer.analysis.maps", "import torch", "torch"),
        ("transformer.analysis.maps", "from transformer.capture.capture import capture", "transformer.capture"),
        ("transformer.plots.page", "try:\n    import streamlit as st\nexcept ImportError:\n    pass", "streamlit"),
        ("transformer.training.loop", "if True:\n    from transformer.plots import heatmap", "transformer.plots"),
        ("transformer.training.evaluate", "import sacremoses", "sacremoses"),
        ("transformer.engine", "from transformer.training.run import train_command", "transformer.training"),
        ("transformer.engine", "from .training import run", "transformer.training.run"),
        ("transformer.webapp.frame", "from ..nn.model import Transformer", "transformer.nn.model"),
        ("transformer.webapp.frame", "class A:\n    def f(self):\n        import torch.nn", "torch.nn"),
        ("transformer.cli.commands", "import transformer.engine", "transformer.engine"),  # only inside a function
        ("transformer.cli.commands", "def f():\n    import streamlit", "streamlit"),
        ("transformer", "from transformer.engine import load", "transformer.engine"),
        ("pages.attention", "from transformer.decoding.beam import beam_search", "transformer.decoding"),
        ("app", "import torch", "torch"),
    ],
)
def test_the_checker_finds_a_violation(module: str, source: str, named: str) -> None:
    found = violations(module, source)
    assert len(found) == 1
    assert named in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("transformer.decoding.step", "from transformer.nn.model import Transformer"),
        ("transformer.decoding.beam", "from transformer.decoding.step import StepFunction\nimport torch, math"),
        ("transformer.cli.commands", "def f():\n    from transformer.plots.page import record_page"),
        ("transformer.cli.commands", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import streamlit"),
        ("transformer.nn.model", "import typing\nif typing.TYPE_CHECKING:\n    from transformer.text import corpus"),
        ("transformer.training.evaluate", "def f():\n    import sacremoses"),
        ("transformer.analysis.maps", "from transformer.capture.record import KINDS"),
        ("transformer.nn.layers", "from .attention import Attention\nfrom ..config import PAD_ID"),
    ],
)
def test_the_checker_lets_the_rest_pass(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_what_else_hangs_on_type_checking_counts() -> None:
    found = violations("app", "if TYPE_CHECKING:\n    import torch\nelse:\n    import plotly")
    assert [sentence.partition(":")[0] for sentence in found] == ["app, line 4"]


def test_a_package_without_a_row_is_noticed() -> None:
    with pytest.raises(AssertionError, match=r"transformer\.novelty\.thing has no row"):
        violations("transformer.novelty.thing", "")


def test_drawing_needs_neither_pytorch_nor_streamlit() -> None:
    """What the table promises, seen from outside: also nothing that is imported imports them."""
    names = [name for name, _ in modules() if is_below(name, ("transformer.analysis", "transformer.plots"))]
    code = f"import sys, transformer, {', '.join(names)}; print(*{{'torch', 'streamlit'}} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.strip()) == (0, ""), result.stderr
