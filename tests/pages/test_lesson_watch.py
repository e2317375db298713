"""The section "watch" of /learning: before, while and after a training, for who started it and for others."""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages_app import array, bodies, charts, notices, start
from streamlit.testing.v1 import AppTest
from toy_plans import STEPS, brief, endless

from transformer.lessons.toy_run import ToyRun
from transformer.lessons.toy_runner import ToyRunner
from transformer.webapp.lessons import learning, learning_watch

SENTENCE = "Two dogs run."
LETTERS = ("a", "b", "c", "d", "e", "f", "g", "h")
PATIENCE = 60.0

pytestmark = [
    pytest.mark.usefixtures("in_workplace"),
    pytest.mark.skipif(sys.platform == "win32", reason="it needs locks of the system"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where trainings have their folders; the page has no other section, which would cost a second each time."""
    monkeypatch.setattr(learning, "SECTIONS", (learning_watch.show,))
    return tmp_path


@pytest.fixture
def runner(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToyRunner]:
    """What the page trains with: a moment's training, instead of the real one."""
    found = ToyRunner(brief(folder), folder)
    monkeypatch.setattr(learning_watch, "runner", lambda: found)
    yield found
    found.close()


def visit() -> AppTest:
    app = start("learning", sentence=SENTENCE)
    assert not app.exception
    return app


def keys(app: AppTest) -> set[str]:
    """Of all widgets of the section."""
    found = [*app.button, *app.text_input, *app.selectbox, *app.select_slider]
    return {str(one.key) for one in found if str(one.key).startswith("learning_watch")}


def pictures(app: AppTest) -> list[dict[str, Any]]:
    """The section's curves and map."""
    return [chart for chart in charts(app) if "letter to be copied" in json.dumps(chart) or outlined(chart)]


def outlined(chart: dict[str, Any]) -> bool:
    return any(shape.get("line", {}).get("dash") == "dot" and "rect" in shape["type"] for shape in shapes(chart))


def shapes(chart: dict[str, Any]) -> list[dict[str, Any]]:
    return list(chart["layout"].get("shapes", []))


def bars(app: AppTest) -> list[str]:
    return [one.proto.text for one in app.get("progress")]


def started(app: AppTest, runner: ToyRunner) -> ToyRun:
    app.button(key="learning_watch_start").click().run()
    assert not app.exception
    assert runner.run is not None
    return runner.run


def text(app: AppTest) -> str:
    return html.unescape(" ".join(bodies(app)))


def test_before_it_begins_there_is_a_button_and_no_picture(runner: ToyRunner, folder: Path) -> None:
    app = visit()
    assert keys(app) == {"learning_watch_start"}
    assert app.button(key="learning_watch_start").label == "Train it now"
    assert pictures(app) == []
    assert bars(app) == []
    shown = text(app)
    assert "1 encoder layer and 1 decoder layer, d_model 16, 2 heads" in shown
    assert "One training runs at a time" in shown
    assert runner.run is None
    assert list(folder.glob("transformer-toy-*")) == []


def test_from_the_start_to_the_end_and_again(runner: ToyRunner) -> None:
    app = visit()
    run = started(app, runner)
    if run.running:
        assert "learning_watch_stop" in keys(app)
        assert bars(app)[0].startswith("Starting: PyTorch is loaded and 4,000 sequences are made · ")
        assert "nobody but you can stop it" in text(app)
    assert run.wait(PATIENCE)
    app.run()
    assert not app.exception
    progress = run.progress()
    assert any(
        note.startswith(f"It ended by itself after {progress.step:,} updates and ")
        and note.endswith("0 % of the 6 dev sequences are exactly right.")
        for note in notices(app)
    )
    slider = app.select_slider(key=f"learning_watch_step_1_{len(STEPS)}")
    assert slider.options == [str(step) for step in STEPS]
    assert slider.value == STEPS[-1]
    assert_shown(app, run, STEPS[-1], (0, 1))
    slider.set_value(STEPS[0]).run()
    assert_shown(app, run, STEPS[0], (0, 1))
    app.selectbox(key="learning_watch_head_3").set_value(2).run()
    assert_shown(app, run, STEPS[0], (1,))
    assert run.plan.command(1) in [code.value for code in app.code]

    again = app.button(key="learning_watch_start")
    assert again.label == "Train again, with other random numbers"
    second = started(app, runner)
    assert (second.number, runner.run) == (2, second)


def assert_shown(
    app: AppTest, run: ToyRun, step: int, heads: tuple[int, ...], letters: tuple[str, ...] = LETTERS
) -> None:
    """The answer, the curves and the map are those of a snapshot."""
    assert not app.exception
    looks = run.glimpses(letters, STEPS)
    glimpse = looks[STEPS.index(step)]
    curves, map_ = pictures(app)
    crosses = [one.record.cross[0, list(heads)].mean(axis=0) for one in looks]
    np.testing.assert_allclose(array(map_["data"][0]["z"]), crosses[STEPS.index(step)], atol=1e-6)
    boxes = {(shape["x0"] + 0.5, shape["y0"] + 0.5) for shape in shapes(map_)}
    assert boxes == {(len(letters) - row, row) for row in range(len(letters))}
    shares = [100 * np.diag(np.fliplr(cross[:-1, 1:-1])).mean() for cross in crosses]
    np.testing.assert_allclose(numbers(curves["data"][-1]["y"]), shares, atol=1e-3)
    assert numbers(curves["data"][-1]["x"]) == list(STEPS)
    assert [shape["x0"] for shape in shapes(curves)] == [step]
    answer = next(body for body in bodies(app) if "should write" in body)
    assert f"After {step:,} updates: " in answer
    marked = [
        f"<u>{letter}</u>" if place >= len(letters) or letter != letters[-1 - place] else letter
        for place, letter in enumerate(glimpse.written)
    ]
    assert "".join(f'<span class="chip">{letter}</span>' for letter in marked) in answer


def numbers(value: Any) -> list[float]:
    return array({**value, "shape": value.get("shape", "-1")}).tolist() if isinstance(value, dict) else list(value)


def test_other_letters(runner: ToyRunner) -> None:
    app = visit()
    run = started(app, runner)
    assert run.wait(PATIENCE)
    app.run()
    box = app.text_input(key="learning_watch_letters")
    box.set_value("B, a").run()
    assert_shown(app, run, STEPS[-1], (0, 1), ("b", "a"))
    box.set_value("<b>1").run()
    assert_shown(app, run, STEPS[-1], (0, 1))
    assert any("must hold the letters a to t" in note and "is shown" in note for note in notices(app))
    (run.folder / "snapshots" / f"step-{STEPS[1]:06d}.safetensors").write_bytes(b"no weights")
    box.set_value("c c").run()
    assert not app.exception
    assert any("A snapshot cannot be used" in note for note in notices(app))


def test_stop_and_who_may(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = ToyRunner(endless(folder), folder)
    monkeypatch.setattr(learning_watch, "runner", lambda: runner)
    try:
        mine, others = visit(), visit()
        run = started(mine, runner)
        others.button(key="learning_watch_start").click().run()  # the page was drawn before the other one began
        assert not others.exception
        waits = r"Another visitor's training is running \(\d s so far\)\. Yours can start when it has ended\."
        assert [bool(re.fullmatch(waits, note)) for note in notices(others)] == [True]
        assert others.button(key="learning_watch_wait").disabled
        assert "learning_watch_stop" not in keys(others)
        while STEPS[-1] not in run.progress().kept:
            assert run.running, run.progress().said
            run.wait(0.2)
        others.run()
        assert len(pictures(others)) == 2
        assert bars(others)[0].startswith("Update ")
        mine.run()
        mine.button(key="learning_watch_stop").click().run()
        assert not mine.exception
        assert run.state == "stopped"
        assert any(note.startswith("It was stopped after ") for note in notices(mine))
        others.run()
        assert others.button(key="learning_watch_start").label == "Train again, with other random numbers"
        assert keys(visit()) == {"learning_watch_start"}  # who comes later has seen nothing of it
    finally:
        runner.close()


def test_a_start_that_fails_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = ToyRunner(brief(folder, recipe="no-such-recipe"), folder)
    monkeypatch.setattr(learning_watch, "runner", lambda: runner)
    try:
        app = visit()
        assert started(app, runner).wait(PATIENCE)
        app.run()
        assert not app.exception
        assert any(
            note.startswith("The training ended with an error. The last line of the trainer: recipe must be")
            for note in notices(app)
        )
        assert keys(app) == {"learning_watch_start"}
        nowhere = ToyRunner(brief(folder), folder / "nowhere")
        monkeypatch.setattr(learning_watch, "runner", lambda: nowhere)
        app.button(key="learning_watch_start").click().run()
        assert "The training cannot be started: No such file or directory." in notices(app)
    finally:
        runner.close()
