"""What the section "watch" of /learning says and draws of a training, going on or over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from transformer.analysis.maps import kind_view
from transformer.analysis.words import combine
from transformer.errors import TransformerError
from transformer.plots.curves import Line
from transformer.plots.heatmap import least_width
from transformer.plots.labels import percent
from transformer.plots.toy import mirror_map, toy_curves
from transformer.webapp import markup
from transformer.webapp.frame import View
from transformer.webapp.lessons.learning_watch_steady import Drawing, steady
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.toy_glimpse import Glimpse
    from transformer.lessons.toy_progress import Progress
    from transformer.lessons.toy_recipe import Plan
    from transformer.lessons.toy_run import ToyRun

Head = tuple[str, tuple[tuple[int, int], ...]]
"""What it is called, and the (layer, head) that it is the mean of, from 0."""
BACKLOG = 1
"""Older snapshots that are looked at beside the newest in one go while the training runs."""


def intended(plan: Plan) -> str:
    """What is trained, on what, until when, and what it costs, as HTML."""
    value = {key: str(one) for key, one in plan.settings.items()}
    pairs, epochs = int(value["data.generated_pairs"]), int(value["training.epochs"])
    layers = (int(value["model.encoder_layers"]), int(value["model.decoder_layers"]))
    facts = (
        (
            "Task",
            f"1 to {value['data.generated_length']} letters, drawn at random from a to t, are to be written backwards: "
            "“a b c” becomes “c b a”.",
        ),
        (
            "Model",
            f"{_many(layers[0], 'encoder layer')} and {_many(layers[1], 'decoder layer')}, d_model "
            f"{value['model.d_model']}, {_many(int(value['model.heads']), 'head')}, feed-forward "
            f"{value['model.feed_forward']}; its weights are random numbers.",
        ),
        (
            "Training",
            f"{pairs:,} sequences again and again, at most {epochs} times (epochs), in batches of up to "
            f"{value['training.batch_tokens']} pieces; learning rate {value['training.learning_rate']} after "
            f"{value['training.warmup_steps']} updates of warm-up, label smoothing 0.1, no dropout. It ends when "
            f"{float(value['training.stop_at']):g} % of {value['training.dev_sentences']} sequences that it never "
            "trains on (dev) come out exactly right.",
        ),
        (
            "Cost",
            "Half a minute on a free processor core, a minute or two on a busy one: this program's own trainer, in a "
            f"process of its own with low priority. After {plan.limit / 60:g} minutes it is stopped. One training runs "
            "at a time, and all who open this page can watch it. The model chosen above has no part in it.",
        ),
    )
    rows = "".join(f"<tr><th>{name}</th><td>{markup.escape(text)}</td></tr>" for name, text in facts)
    return f'<div class="scroll"><table class="figures"><tbody>{rows}</tbody></table></div>'


def heads_of(plan: Plan) -> tuple[Head, ...]:
    """Whose attention can be shown: the mean of all heads first, then each."""
    layers, heads = int(str(plan.settings["model.decoder_layers"])), int(str(plan.settings["model.heads"]))
    every = tuple((layer, head) for layer in range(layers) for head in range(heads))
    single = [(f"layer {layer + 1} · head {head + 1}", ((layer, head),)) for layer, head in every]
    return (("mean of all heads", every), *single)


def share(progress: Progress) -> float:
    """How much of the most that there will be is done, from 0 to 1."""
    if progress.trained:
        return 1.0
    return min(progress.step / progress.at_most, 1.0) if progress.at_most else 0.0


def where(progress: Progress, plan: Plan) -> str:
    """Where a training that is going on stands, in a line."""
    seconds = f"{progress.seconds:.0f} s"
    if progress.course is None:
        pairs = int(str(plan.settings["data.generated_pairs"]))
        return f"Starting: PyTorch is loaded and {pairs:,} sequences are made · {seconds}"
    if progress.trained:
        return f"The training is over after {progress.step:,} updates; the model is being scored · {seconds}"
    most = f" of at most {progress.at_most:,}" if progress.at_most else ""
    exact = "" if progress.exact is None else f" · {progress.exact:.3g} % of dev exactly right"
    return (
        f"Update {progress.step:,}{most} · epoch {progress.epoch + 1} of at most {progress.epochs} · {seconds}{exact}"
    )


def outcome(progress: Progress, plan: Plan) -> tuple[str, str]:
    """How a training ended: the tone of a notice, and its sentence."""
    if progress.state == "failed":
        return "error", f"The training ended with an error. The last line of the trainer: {progress.said}"
    exact = "none of the dev sequences had been tried"
    if progress.exact is not None:
        exact = (
            f"{progress.exact:.3g} % of the {plan.settings['training.dev_sentences']} dev sequences are exactly right"
        )
    after = f"after {progress.step:,} updates and {progress.seconds:.0f} s"
    if progress.state == "stopped":
        return "info", f"It was stopped {after}; {exact}."
    if progress.state == "late":
        return "warning", f"It was stopped {after}, the longest that a training may take here; {exact}."
    tested = ""
    if progress.tested is not None:
        tested = f", and of 1,000 test sequences, tried once at the end with a beam of 5, {progress.tested:.3g} %"
    return "info", f"It ended by itself {after}: {exact}{tested}."


def pictures(view: View, run: ToyRun, progress: Progress, letters: tuple[str, ...], head: Head, step: int) -> None:
    """Answer, curves and map of a training that is over, at a snapshot."""
    looked = _looked(run, progress, letters, step, waiting=True)
    if looked is None:
        return
    glimpse = next(one for one in looked if one.step == step)
    left, right = _columns(glimpse, head)
    for place, key, one in (
        (left, "learning_watch_curves", _curves(view, progress, looked, head, step)),
        (right, "learning_watch_map", _map(view, glimpse, head)),
    ):
        with place:
            picture(one.figure, key, one.name, one.alt, one.width)
    _below(left, right, glimpse, head)


def live_pictures(view: View, run: ToyRun, progress: Progress, letters: tuple[str, ...], head: Head) -> None:
    """The same of one that is going on, at the newest snapshot."""
    looked = _looked(run, progress, letters, progress.kept[-1], waiting=False) if progress.kept else None
    if looked is None:
        return
    glimpse = looked[-1]
    stamp = (run.number, glimpse.step, len(looked), letters, head, view.colours)
    left, right = _columns(glimpse, head)
    with left:
        steady(lambda: _curves(view, progress, looked, head, None), stamp, "learning_live_curves")
    with right:
        steady(lambda: _map(view, glimpse, head), stamp, "learning_live_map")
    _below(left, right, glimpse, head)


def _looked(
    run: ToyRun, progress: Progress, letters: tuple[str, ...], step: int, waiting: bool
) -> list[Glimpse] | None:
    """What the snapshots make of the letters, that of ``step`` among them: all if there is time to wait, else those
    that have been looked at and a few more. None, and a plain sentence, if one cannot be used."""
    try:
        run.glimpses(letters, [step])
        known = {one.step for one in run.looked(letters)}
        missing = [one for one in progress.kept if one not in known]
        if waiting and missing:
            with st.spinner(f"Asking {_many(len(missing), 'snapshot')} …"):
                run.glimpses(letters, missing)
        else:
            run.glimpses(letters, missing[-BACKLOG:])
    except (TransformerError, OSError) as error:
        st.html(markup.notice("error", f"A snapshot cannot be used. What is wrong: {error}"))
        return None
    return run.looked(letters)


def _columns(glimpse: Glimpse, head: Head) -> tuple[Any, Any]:
    """The answer, and under it two columns with their headings."""
    st.html(_answer(glimpse))
    left, right = (column.container(gap="xxsmall") for column in st.columns(2, gap="medium"))
    left.html("<b>Over the training</b>")
    right.html(
        f"<b>cross attention · {markup.escape(head[0])}</b> <span class='under'>after {glimpse.step:,} updates</span>"
    )
    return left, right


def _below(left: Any, right: Any, glimpse: Glimpse, head: Head) -> None:
    left.html('<div class="under">Loss: the line is on training sequences, the points are on dev.</div>')
    even = percent(1 / (len(glimpse.letters) + 2))
    right.html(
        '<div class="under">While it is made to write the right answer. Outlined: the letter to be copied. On it lies '
        f"<b>{percent(_on_mirror(glimpse, head))}</b> of the attention, mean of the rows; were it everywhere alike, "
        f"{even}.</div>"
    )


def _answer(glimpse: Glimpse) -> str:
    """What it reads, should write and writes, wrong letters underlined, as HTML."""
    right = glimpse.letters[::-1]
    marks = [letter != wanted for letter, wanted in zip(glimpse.written, right, strict=False)]
    marks += [True] * (len(glimpse.written) - len(marks))
    more = "" if glimpse.finished else '<span class="under">… and goes on</span>'
    wrote = _chips(glimpse.written, marks) + more if glimpse.written else '<span class="under">(nothing)</span>'
    rows = (("reads", _chips(glimpse.letters)), ("should write", _chips(right)), ("writes", wrote))
    inside = "".join(
        f'<div class="row"><b class="tongue">{name}</b><span class="chips">{one}</span></div>' for name, one in rows
    )
    verdict = "right" if glimpse.right else "wrong letters are underlined" if any(marks) else "letters are missing"
    return (
        f'<div class="ribbon" role="group" aria-label="Input, right answer and answer">{inside}</div>'
        f'<div class="under">After {glimpse.step:,} updates: {verdict}. To the right answer it gives a probability of '
        f"{percent(glimpse.probability)} per piece (geometric mean).</div>"
    )


def _chips(letters: Sequence[str], wrong: Sequence[bool] = ()) -> str:
    marks = wrong or [False] * len(letters)
    shown = (
        f"<u>{markup.escape(letter)}</u>" if mark else markup.escape(letter)
        for letter, mark in zip(letters, marks, strict=True)
    )
    return "".join(f'<span class="chip">{one}</span>' for one in shown)


def _curves(view: View, progress: Progress, looked: Sequence[Glimpse], head: Head, chosen: int | None) -> Drawing:
    course = progress.course
    empty = Line("", np.zeros(0, dtype=np.int64), np.zeros(0))
    train = empty if course is None else Line("train", course.train_likelihood.steps, course.train_likelihood.values)
    dev = empty if course is None else Line("dev", course.dev_loss.steps, course.dev_loss.values, points=True)
    exact = empty if course is None else Line("exact", course.dev_exact.steps, course.dev_exact.values, points=True)
    shares = 100 * np.array([_on_mirror(one, head) for one in looked])
    copied = Line("attention", np.array([one.step for one in looked]), shares, points=True)
    right = f"{exact.values[-1]:.3g} %" if len(exact.values) else "not yet counted"
    return Drawing(
        toy_curves(train, dev, exact, copied, view.colours, chosen),
        "toy training",
        f"Curves over the updates: dev sequences exactly right, {right}; attention on the letter to be copied, "
        f"{shares[-1]:.0f} %",
        300,
    )


def _map(view: View, glimpse: Glimpse, head: Head) -> Drawing:
    maps = kind_view(glimpse.record, "cross", {"source": "letters", "target": "reversed letters"})
    one = combine(maps, head[1], "mean")
    return Drawing(
        mirror_map(one, 0, 0, view.colours),
        f"toy cross attention after {glimpse.step} updates",
        f"Attention map, {head[0]}, after {glimpse.step:,} updates: {percent(_on_mirror(glimpse, head))} of the "
        "attention lies on the letters to be copied",
        least_width(one),
    )


def _on_mirror(glimpse: Glimpse, head: Head) -> float:
    return float(np.mean([glimpse.mirrored[at] for at in head[1]]))


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
