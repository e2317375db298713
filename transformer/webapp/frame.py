"""The frame around every page: navigation, the sentence and the model, the ribbon, the pickers, and the page itself.

A page file begins with ``view = frame.require()``. When the browser asks a fresh server for a page by its own address,
Streamlit runs that page file as if it were the app; ``require`` then calls the frame, which finds its way to the page.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import streamlit as st
from PIL import Image

from transformer.analysis.alignment import partners
from transformer.errors import CheckpointError, InputError, TransformerError
from transformer.plots import theme
from transformer.webapp import controls, markup, parameters, resources
from transformer.webapp.choices import MapChoices, map_choices, view_picker
from transformer.webapp.resources import Card, Search
from transformer.webapp.style import style_sheet

if TYPE_CHECKING:
    from transformer.capture.record import AttentionRecord
    from transformer.engine import Translation, Translator

ROOT = Path(__file__).resolve().parents[2]
APP_NAME = "Transformer, opened up"
PURPOSE = "Type a sentence and see what every attention head looks at while the model translates it."
_MARK = "frame_ready"


@dataclass(frozen=True)
class PageSpec:
    """One page: a line in ``PAGES`` is all that the frame needs."""

    file: str
    """``pages/<file>.py``; also the address, except for the first page, which lives at ``/``."""
    group: str
    name: str
    """In the navigation."""
    title: str | Mapping[str, str]
    """The heading, a sentence; or one for each kind of attention."""
    pickers: bool = False
    """Whether kind, layer and head, and what maps are shown of, stand above the page's picture."""
    heads: bool = False
    """Whether layer and head of the decoder stand there, and nothing else."""
    settings: bool = False
    """Whether the decoding settings stand open beside the page: it is about them."""
    own: tuple[str, ...] = ()
    """What of ``parameters.py`` the page draws itself, in the first part that it gives to ``View.live``."""


PAGES = (
    PageSpec("translate", "Use", "Translate", "How does the model translate this sentence, and how sure is it?"),
    PageSpec(
        "attention",
        "Use",
        "Attention",
        {
            "encoder": "Which input words does each input word look at?",
            "decoder": "Which earlier output words does each output word look at?",
            "cross": "Which input words does each output word look at?",
        },
        pickers=True,
    ),
    PageSpec(
        "decoding",
        "Use",
        "Decoding",
        "What does the model write next, and why?",
        heads=True,
        own=("step", "prefix", "strategy", "sampling"),
    ),
    PageSpec(
        "beam",
        "Use",
        "Beam",
        "Which translations did the search weigh, and why did they lose?",
        settings=True,
        own=("node",),
    ),
    PageSpec("words", "Understand", "From words to vectors", "How does a sentence become numbers?"),
    PageSpec("looking", "Understand", "How attention works", "How does a word gather what it needs from the others?"),
    PageSpec("between", "Understand", "Between two attentions", "What happens to a word between two attentions?"),
    PageSpec(
        "masks",
        "Understand",
        "The decoder and its masks",
        "What may a word look at while it is being written?",
    ),
    PageSpec("learning", "Understand", "How it was trained", "How did the model come to know this?"),
    PageSpec("writing", "Understand", "How it writes", "How does the model write a translation, word by word?"),
)
"""In the order of the navigation; the first is the page at ``/``."""


@dataclass(frozen=True, eq=False)
class View:
    """What a page shows: whose sentence, by which model, and which map is chosen."""

    card: Card
    translator: Translator
    sentence: str
    search: Search
    translation: Translation
    record: AttentionRecord
    """Of the chosen hypothesis, or of ``target``."""
    target: str
    """What the user wants the model to have written; empty for what it wrote itself."""
    kind: str
    layer: int
    """From 1, as people read it."""
    head: int
    """From 1."""
    choices: MapChoices
    colours: theme.Palette
    parts: list[tuple[Any, Callable[[], object], float | None]] = field(default_factory=list)
    """What ``live`` was given."""
    lead: Any = None
    """Where the live parts of a page that owns parameters (``PageSpec.own``) are drawn: above all else on it."""

    def live(self, draw: Callable[[], object], every: float | None = None) -> None:
        """Have a part of the page drawn here as a fragment: its widgets run ``draw`` again, and nothing else.

        The frame draws it after the page, as its own. Of a page that owns parameters it is drawn in a container of the
        frame: a bound widget of a page, or in a container of a page, loses its parameter when the page is left.

        Args:
            draw: draws it, from this view and ``st.session_state``.
            every: seconds after which it runs by itself, again and again.
        """
        self.parts.append((st.container() if self.lead is None else self.lead, draw, every))


_view: ContextVar[View | None] = ContextVar("view", default=None)


def require() -> View:
    """The view that the frame has prepared; a page calls this first.

    If the page file was started by itself, the whole app runs instead, and the page within it.
    """
    view = _view.get()
    if view is None:
        run()
        st.stop()
    return view


def run() -> None:
    """Draw the whole app; ``app.py`` does nothing else."""
    st.set_page_config(page_title=APP_NAME, page_icon=_icon(), layout="wide")
    page = st.navigation(_navigation())
    st.set_page_config(page_title=f"{page.title} · {APP_NAME}")
    if not st.session_state.get(_MARK):
        # The first run of a fresh server may have begun in Streamlit's old page mode, which would lose the values of
        # widgets at the first change of page. No widget has been drawn yet: begin again in the new mode.
        st.session_state[_MARK] = True
        st.rerun()
    colours = theme.palette(st.context.theme.type)
    st.html(style_sheet(colours))
    spec = _spec(page.title)
    waiting = st.empty()
    if not resources.warm():
        waiting.html(
            markup.notice("info", "The app is starting. The first visit loads PyTorch; it takes a few seconds.")
        )
    cards = resources.cards()
    waiting.empty()
    if not cards:
        _stop_without_models()
    asked = st.query_params.to_dict()
    notes = controls.refused(controls.from_link(asked), controls.allowed_values(cards, asked))
    notes += controls.unreadable(asked) + controls.vanished(cards)
    st.html(f'<div class="name"><b>{APP_NAME}</b> {PURPOSE}</div>')
    card, sentence = _top(cards)
    search = controls.decoding_settings(card, spec.settings)
    said = st.empty()  # always there: what comes after keeps its place
    if notes:
        said.html(markup.notice("warning", "\n".join(notes)))
    ribbon = st.container(key="ribbon")
    heading = st.container()
    shown = "shown" if spec.pickers else "heads" if spec.heads else "hidden"
    with st.container(key=f"{shown}_pickers", gap="xsmall"):
        chosen_view = view_picker()
        kind, layer, head = controls.map_pickers(card, decoder=spec.heads)
        with st.container(horizontal=True, key="more_choices", gap="small"):
            choices = map_choices(chosen_view)
            targets = st.container(width="content")
    first = st.container(key="lead")
    heading.header(spec.title if isinstance(spec.title, str) else spec.title[kind], anchor=False)
    with ribbon:
        translator, translation = _translate(card, sentence, search)
    with targets:
        rank, target = controls.target_choice(len(translation.hypotheses))
    if not spec.pickers:
        rank, target = 1, ""
    with ribbon:
        place = st.container(gap="xsmall")
        if spec.pickers:
            controls.not_the_translation(rank, len(translation.hypotheses), target)
        with place:
            record = _inspect(card, translator, sentence, translation.hypotheses[rank - 1].ids, target)
            st.html(_ribbon(record, card))
    view = View(
        card,
        translator,
        sentence,
        search,
        translation,
        record,
        target,
        kind,
        layer,
        head,
        choices,
        colours,
        lead=first if spec.own else None,
    )
    token = _view.set(view)
    try:
        page.run()
    finally:
        _view.reset(token)
    owning = view.parts.pop(0) if spec.own and view.parts else (first, None, None)
    with first:
        st.fragment(_lead, run_every=owning[2])(spec.own, owning[1])
    for place, draw, every in view.parts:
        with place:
            st.fragment(draw, run_every=every)()


def _lead(own: tuple[str, ...], draw: Callable[[], object] | None) -> None:
    """The first live part of a page, with the parameters of single pages: one fragment, at one place on every page."""
    with parameters.placed(own):
        if draw is not None:
            draw()


@cache
def _icon() -> Image.Image:
    """A small causal map; an icon by name would be fetched from elsewhere."""
    cells = np.tril(np.array([[9, 0, 0, 0], [3, 7, 0, 0], [1, 2, 8, 0], [0, 5, 1, 6]])) / 9.0
    paper, ink = np.array([255, 255, 255]), np.array([int(theme.LIGHT.cross[i : i + 2], 16) for i in (1, 3, 5)])
    small = paper + (ink - paper) * cells[..., None]
    return Image.fromarray(small.astype(np.uint8).repeat(16, axis=0).repeat(16, axis=1))


def page_file(spec: PageSpec) -> Path:
    """The file of a page, as navigation and links want it."""
    return ROOT / "pages" / f"{spec.file}.py"


def _navigation() -> dict[str, list[st.Page]]:
    groups: dict[str, list[st.Page]] = {}
    for spec in PAGES:
        first = spec is PAGES[0]
        page = st.Page(page_file(spec), title=spec.name, default=first, url_path=None if first else spec.file)
        groups.setdefault(spec.group, []).append(page)
    return groups


def _spec(name: str) -> PageSpec:
    return next(spec for spec in PAGES if spec.name == name)


def _top(cards: Mapping[str, Card]) -> tuple[Card, str]:
    left, right = st.columns([7, 3])
    with right:
        card = controls.model_picker(cards)
        about = f'<div class="about">It reads {markup.escape(card.about)}.</div>' if card.about else ""
        st.html(f'<div class="direction">{markup.escape(card.direction)}</div>{about}')
    with left:
        sentence = controls.sentence_box(card)
        controls.example_line(card)
    return card, sentence


def _translate(card: Card, sentence: str, search: Search) -> tuple[Translator, Translation]:
    if not sentence.strip():
        _stop("info", "There is no sentence yet. Type one into the box above and press Enter, or choose an example.")
    with _plain_sentences(card):
        translator = resources.engine(card)
        return translator, resources.translation(translator, sentence, search)


def _inspect(card: Card, translator: Translator, sentence: str, ids: tuple[int, ...], target: str) -> AttentionRecord:
    with _plain_sentences(card):
        return resources.record(translator, sentence, None if target else ids, target)


@contextlib.contextmanager
def _plain_sentences(card: Card) -> Iterator[None]:
    """A user's mistake becomes one plain sentence, and the page is left out."""
    try:
        yield
    except (CheckpointError, OSError) as error:
        _stop("error", f"The model {card.name} cannot be opened. Choose another model above. What is wrong: {error}")
    except InputError as error:
        _stop("warning", markup.sentence(str(error)))
    except TransformerError as error:
        _stop("error", f"The model {card.name} does not work. Choose another model above. What is wrong: {error}")


def _ribbon(record: AttentionRecord, card: Card) -> str:
    real = np.array([not piece.special for piece in record.source])
    probabilities = [float(value) for value in np.exp(record.log_probs)]
    found = partners(record.cross, real)
    linked = [[] if piece.special else sources for piece, sources in zip(record.target_output, found, strict=True)]
    names = (card.source, card.target)
    return markup.ribbon(record.source, record.target_output, probabilities, linked, names)


def _stop(tone: str, text: str) -> NoReturn:
    st.html(markup.notice(tone, text))
    st.stop()


def _stop_without_models() -> NoReturn:
    _stop(
        "info",
        "There is no model yet. Train the smallest one, which takes about two minutes: "
        "python -m transformer train reverse --out checkpoints/reverse. Then reload this page.",
    )
