"""How quickly a page answers: the real app in a real browser, from a key or a click until the last picture is painted.

enter   a sentence never seen before is typed and Enter pressed: translation, capture, and every picture of the view
head    another head is chosen by its picker
view    the page turns to this view from the other one

Each is done in the view of all heads and in that of one head, with sentences of 30 and of 128 source pieces, <SOS> and
<EOS> included. The maps are the encoder's, which then are 30 x 30 and 128 x 128 whatever the translation; --kind takes
others. The figure is the median, in seconds. The clock is the browser's: it starts when the key or the button
of the mouse goes down, and stops with the first frame after the last change to any picture of the page. "payload_bytes"
is what came over the websocket for it (median). Last come the ratios to what is promised: one second at 30 pieces, two
at 128. Needs Chromium, and playwright: pip install -r tests/requirements.txt
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the product, from whatever folder this is run

from benchmarks.browser import CHROMIUM, ROOT, chromium, serving
from benchmarks.common import count, emit, leave, other_cpu, parser, usage, wait_until_quiet
from transformer.capture.record import KINDS
from transformer.catalogue import TOKENIZER, found, resolve
from transformer.errors import InputError, TransformerError, problem
from transformer.plots.labels import visible
from transformer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PROMISES = {30: 1.0, 128: 2.0}
"""Seconds from Enter to all maps painted, by source pieces, on two cores with a model of 7 million parameters."""
VIEWS = {"all heads": "all_heads", "one head": "large_map"}
"""The pictures that are waited for, by view; those beside it are waited for as well."""
ACTIONS = ("enter", "head", "view")
WINDOW = {"width": 1440, "height": 1000}
PATIENCE = 120_000
"""Most milliseconds that an answer may take."""
REST = 600
"""Milliseconds without a change to a picture after which nothing more is expected."""
WHO = ("a man in a red shirt", "two young women", "an old dog", "the children of our street", "a boy with a kite")
WHO += ("three workers", "a girl on a bicycle", "some people in blue coats", "my brother", "the woman behind the table")
DOES = ("is standing", "are looking at a map", "waits", "plays with a ball", "sells fruit", "was reading a newspaper")
DOES += ("rides slowly", "is smiling at the camera", "run very fast", "sat down for a moment")
WHERE = ("in the snow", "by the river", "near an old church", "at the market", "under a tree", "on the beach")
WHERE += ("in front of a shop", "on a bridge", "", "", "today", "early in the morning")
JOINS = (" and ", ", ", " while ", " because ", ", but ")

_CLOCK = """(() => {
  const clock = window.paintClock = {start: 0, change: 0, painted: 0, changes: 0};
  const mark = () => {
    clock.changes += 1;
    clock.change = performance.now();
    requestAnimationFrame(() => {
      const after = new MessageChannel();  // answered once the frame has been painted
      after.port1.onmessage = () => { clock.painted = performance.now(); };
      after.port2.postMessage(0);
    });
  };
  const picture = ".js-plotly-plot";
  const shows = node => node instanceof Element && (node.matches(picture) || node.querySelector(picture));
  const concerns = change => (change.target instanceof Element && change.target.closest(picture))
    || [...change.addedNodes].some(shows);
  new MutationObserver(changes => { if (changes.some(concerns)) mark(); })
    .observe(document, {subtree: true, childList: true, attributes: true});
  document.addEventListener("load", event => { if (event.target.closest?.(picture)) mark(); }, true);
  const begin = () => { Object.assign(clock, {start: performance.now(), changes: 0, painted: 0}); };
  document.addEventListener("pointerdown", begin, true);
  document.addEventListener("keydown", event => { if (event.key === "Enter") begin(); }, true);
})()"""
_DONE = """([key, pieces, rest]) => {
  const clock = window.paintClock;
  const shown = [...document.querySelectorAll(".ribbon .row:first-child .chip")].map(chip => chip.textContent);
  return clock.changes > 0 && clock.painted >= clock.change && performance.now() - clock.change > rest
    && document.querySelector(".stApp").dataset.testScriptState === "notRunning"
    && !document.querySelector("[data-stale=true]")
    && document.querySelector(`.st-key-${key} .heatmaplayer image`)
    && shown.length === pieces.length && shown.every((label, place) => label === pieces[place]);
}"""


@dataclass(frozen=True)
class Sentence:
    """A sentence of a wanted length."""

    text: str
    labels: tuple[str, ...]
    """Of its pieces, <SOS> and <EOS> included, as the page writes them."""


@dataclass
class Answers:
    """What was measured of one action, in the order of the rounds."""

    seconds: list[float] = field(default_factory=list)
    payload: list[int] = field(default_factory=list)
    target_pieces: list[int] = field(default_factory=list)


Measured = dict[tuple[str, str, int], Answers]
"""By action, view and source pieces."""


class Visit:
    """A tab on the attention page, with its clock and the bytes that have come over its websocket."""

    def __init__(self, browser: Browser, address: str, model: str, kind: str) -> None:
        self.received = 0
        self.page: Page = browser.new_page(viewport=WINDOW)
        self.page.set_default_timeout(PATIENCE)
        self.page.on("websocket", lambda socket: socket.on("framereceived", self._count))
        self.page.add_init_script(_CLOCK)
        self.page.goto(f"{address}/attention?model={model}&kind={kind}")
        self.page.wait_for_selector(".st-key-large_map .heatmaplayer image")
        self.heads = self.page.locator(".st-key-head input").count()
        self.head = 1

    def measure(self, act: Callable[[], None], view: str, sentence: Sentence, into: Answers) -> None:
        """Act, wait until the view shows the sentence and nothing changes any more, and keep what it took."""
        before = self.received
        act()
        self.page.wait_for_function(_DONE, arg=[VIEWS[view], list(sentence.labels), REST])
        into.seconds.append(self.page.evaluate("(paintClock.painted - paintClock.start) / 1000"))
        into.payload.append(self.received - before)
        into.target_pieces.append(self.page.locator(".ribbon .row:last-child .chip").count())

    def action(self, name: str, view: str, sentence: Sentence) -> Callable[[], None]:
        """Prepare an action, and give what remains to be done: to press Enter, or to click a segment of a picker."""
        if name == "enter":
            box = self.page.get_by_label("Sentence", exact=True)
            box.fill(sentence.text)
            return lambda: box.press("Enter")
        if name == "head":
            self.head = self.head % self.heads + 1
        key, label = ("head", str(self.head)) if name == "head" else ("view", view)
        segment = self.page.locator(f".st-key-{key}").get_by_text(label, exact=True)
        segment.scroll_into_view_if_needed()
        return segment.click

    def _count(self, frame: str | bytes) -> None:
        self.received += len(frame)


def sentences(tokenizer: Tokenizer, pieces: int, number: int, seed: int = 1) -> list[Sentence]:
    """Different sentences of exactly so many pieces, <SOS> and <EOS> included; the same on every machine.

    Raises:
        InputError: the tokenizer splits words so that too few come out at this length.
    """
    chance = random.Random(seed + pieces)
    made: dict[str, Sentence] = {}
    for _ in range(200 * (number + 5)):
        text = ""
        while True:
            clause = f"{chance.choice(WHO)} {chance.choice(DOES)} {chance.choice(WHERE)}".strip()
            longer = f"{text}{chance.choice(JOINS)}{clause}" if text else clause
            if len(_labels(tokenizer, longer)) > pieces:
                break
            text = longer
        labels = _labels(tokenizer, text)
        while text and len(labels) < pieces:  # fill up with short words
            text = f"{text} {chance.choice(('too', 'now', 'there', 'again', 'here'))}"
            labels = _labels(tokenizer, text)
        if text and len(labels) == pieces:
            made.setdefault(text, Sentence(text + ".", labels))
        if len(made) == number:
            return list(made.values())
    raise InputError(
        problem("--pieces", "must be a length that the made-up sentences can have", pieces, "take a longer one")
    )


def _labels(tokenizer: Tokenizer, text: str) -> tuple[str, ...]:
    return tuple(visible(piece.label) for piece in tokenizer.pieces(text + "."))


def measure(visit: Visit, lengths: dict[int, list[Sentence]], rounds: int) -> Measured:
    """Take turns through all actions, views and lengths. The first turn, in which everything is met for the first time,
    is not counted."""
    measured: Measured = {}
    for turn in range(rounds + 1):
        for pieces, made in lengths.items():
            first, second = made[2 * turn : 2 * turn + 2]
            steps = (
                ("enter", "one head", first),
                ("head", "one head", first),
                ("view", "all heads", first),
                ("head", "all heads", first),
                ("enter", "all heads", second),
                ("view", "one head", second),
            )
            for action, view, sentence in steps:
                if action == "head" and visit.heads == 1:
                    continue
                kept = measured.setdefault((action, view, pieces), Answers()) if turn else Answers()
                visit.measure(visit.action(action, view, sentence), view, sentence, kept)
    return measured


def report(measured: Measured, model: str, kind: str, cores: int, others: float | None) -> dict[str, float]:
    """Print a line for each action, view and length; the ratios of Enter to what is promised."""
    ratios = {}
    for (action, view, pieces), answers in measured.items():
        median = statistics.median(answers.seconds)
        emit(
            benchmark="page",
            system="ours",
            preset=model,
            value=round(median, 3),
            unit="s",
            threads=cores,
            other_cpu=others,
            action=action,
            view=view,
            kind=kind,
            source_pieces=pieces,
            target_pieces=round(statistics.median(answers.target_pieces)),
            payload_bytes=round(statistics.median(answers.payload)),
            lowest=round(min(answers.seconds), 3),
            highest=round(max(answers.seconds), 3),
            rounds=len(answers.seconds),
        )
        if action == "enter" and pieces in PROMISES:
            ratios[f"{view}, {pieces} pieces/promised"] = round(median / PROMISES[pieces], 3)
    return ratios


def check_tools() -> None:
    """Refuse to begin without a browser.

    Raises:
        TransformerError: Chromium or playwright is not installed.
    """
    if CHROMIUM is None:
        raise TransformerError("There must be a browser, but no Chromium was found: apt-get install chromium.")
    if importlib.util.find_spec("playwright") is None:
        raise TransformerError(
            "There must be playwright, but it is not installed: pip install -r tests/requirements.txt."
        )


def chosen_model(name: str | None) -> Path:
    """The folder of the model that is asked for, or of the app's usual one.

    Raises:
        CheckpointError: there is none.
    """
    there_are = list(found().values())
    if name is None and there_are:
        return there_are[0]
    return resolve("the usual one" if name is None else name).resolve()


def use_cores(number: int) -> int:
    """Keep this process, and server and browser that it will start, to so many cores; how many they are."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    cores = sorted(os.sched_getaffinity(0))[:number]
    os.sched_setaffinity(0, cores)
    return len(cores)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; the exit status."""
    options = parser(__doc__)
    options.add_argument("--model", help="name of a checkpoint (the app's usual one)")
    options.add_argument("--pieces", type=count, nargs="+", default=list(PROMISES), help="source pieces (30 128)")
    options.add_argument("--kind", choices=KINDS, default=KINDS[0], help="of attention (encoder)")
    options.add_argument("--rounds", type=count, default=10, help="turns that are counted (10)")
    options.add_argument("--cores", type=count, default=2, help="for server and browser together (2)")
    chosen = options.parse_args(arguments)
    check_tools()
    model = chosen_model(chosen.model)
    tokenizer = Tokenizer.load(model / TOKENIZER)
    number = 2 * (chosen.rounds + 1)
    lengths = {pieces: sentences(tokenizer, pieces, number) for pieces in dict.fromkeys(chosen.pieces)}
    cores = use_cores(chosen.cores)
    wait_until_quiet(chosen.patience, chosen.noisy)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / ".streamlit", Path(folder) / ".streamlit")
        shutil.copytree(model, Path(folder) / "checkpoints" / model.name, ignore=shutil.ignore_patterns("snapshots"))
        with serving(Path(folder)) as address, chromium() as browser:
            visit = Visit(browser, address, model.name, chosen.kind)
            before = usage()
            answers = measure(visit, lengths, chosen.rounds)
            others = other_cpu(before, usage())
    emit(ratios=report(answers, model.name, chosen.kind, cores, others))
    return 0


if __name__ == "__main__":
    leave(main)
