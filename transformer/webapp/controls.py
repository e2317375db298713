"""The shared widgets. Each is bound to a URL parameter and drawn by the frame on every page, so that a link, a reload
and a change of page all keep what was chosen.

Values from the URL are input. Streamlit drops those that no widget offers; ``refused`` says so in words before it does.
Every bound widget but the sentence chooses from a list: a number field would accept ``beam=inf`` and fail on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import streamlit as st

from transformer.analysis.maps import KINDS
from transformer.webapp import choices, parameters
from transformer.webapp.decoding import path
from transformer.webapp.resources import Card, Search
from transformer.webapp.widgets import keep_among, segments

BEAMS = tuple(range(1, 11))
PENALTIES = tuple(round(step / 10, 1) for step in range(21))
COUNTS = tuple(range(1, 11))
COVERAGES = tuple(round(step / 10, 1) for step in range(11))
REPEATS = ("off", "2", "3", "4")
EXTRAS = (10, 20, 50, 100)
DEFAULT_KIND, DEFAULT_BEAM, DEFAULT_COUNT, DEFAULT_EXTRA = "cross", 5, 5, 50
EXAMPLES = 6
"""How many example sentences are offered."""


def refused(raw: Mapping[str, str], allowed: Mapping[str, Sequence[object]]) -> list[str]:
    """One sentence for each parameter of the URL whose value is not on offer.

    Args:
        raw: the parameters as they stand in the URL.
        allowed: for each parameter the values that its widget offers.
    """
    notes = []
    for name, options in allowed.items():
        texts = [str(option) for option in options]
        value = raw.get(name)
        if value is not None and value not in texts and not _same_number(value, options):
            shown = value if len(value) <= 40 else value[:39] + "…"
            notes.append(
                f"The link asks for {name} “{shown}”, which is not there; the usual one is shown. {_offer(texts)}"
            )
    return notes


def from_link(raw: Mapping[str, str]) -> dict[str, str]:
    """The parameters that a link asks for: not those that the session itself has written into the address, which may
    have no place with another model."""
    return {name: value for name, value in raw.items() if str(st.session_state.get(name)) != value}


def unreadable(raw: Mapping[str, str]) -> list[str]:
    """One sentence for each piece of search or decoding in the URL that cannot be read; it is then left out."""
    notes = []
    prefix, node = raw.get("prefix", ""), raw.get("node", "")
    if prefix and not path.parse(prefix):
        notes.append("The link's forced beginning (prefix) cannot be read; nothing is forced.")
        st.session_state["prefix"] = ""
    if node and not (node.isascii() and node.isdigit()):
        notes.append("The link's node of the search tree cannot be read; the best translation is shown.")
        st.session_state["node"] = ""
    return notes


def vanished(cards: Mapping[str, Card]) -> list[str]:
    """One sentence if the model that was chosen is no longer there."""
    name = st.session_state.get("model")
    if not name or name in cards:
        return []
    return [f"The model {name} is no longer there; {next(iter(cards))} is shown."]


def not_the_translation(rank: int, count: int, target: str) -> None:
    """Say that the pictures are not of the model's translation, and offer the way back to it."""
    if rank == 1 and not target:
        return
    what = "the translation that you typed" if target else f"translation {rank} of the {count} that the search found"
    with st.container(horizontal=True, key="not_the_translation", vertical_alignment="center", gap="small"):
        st.html(f'<div class="under">Shown: <b>{what}</b>, not the model\'s own.</div>', width="content")
        st.button("Back to the model's own", key="own_translation", type="tertiary", on_click=_own_translation)


def _own_translation() -> None:
    st.session_state.update(hypothesis=1, target="")


def _same_number(value: str, options: Sequence[object]) -> bool:
    """Whether a number of the URL is on offer though it is written in another way ("2" for "2.0")."""
    try:
        return float(value) in [option for option in options if isinstance(option, (int, float))]
    except ValueError:
        return False


def model_picker(cards: Mapping[str, Card]) -> Card:
    """The picker "Model". Choosing another model also exchanges an example sentence and a length penalty that were the
    last model's own for those of the new one."""
    names = list(cards)
    keep_among("model", names, names[0])
    name = st.selectbox("Model", names, key="model", bind="query-params", on_change=_exchange, args=(cards,))
    st.session_state["model_before"] = name
    return cards.get(name) or cards[names[0]]


def sentence_box(card: Card) -> str:
    """The text box "Sentence"; at first it holds the model's first example."""
    if "sentence" not in st.session_state and "sentence" not in st.query_params and card.examples:
        st.session_state["sentence"] = card.examples[0]
    placeholder = f"Type a sentence ({card.source}) and press Enter"
    text = st.text_input(
        "Sentence",
        key="sentence",
        bind="query-params",
        placeholder=placeholder,
        on_change=parameters.begin_anew,
    )
    return text or ""


def example_line(card: Card) -> None:
    """The model's example sentences, each a button that puts it into the box."""
    if not card.examples:
        return
    with st.container(horizontal=True, key="examples", gap="small"):
        for number, example in enumerate(card.examples[:EXAMPLES]):
            label = button_label(example)
            st.button(label, key=f"example_{number}", type="tertiary", on_click=_choose, args=(example,))


def decoding_settings(card: Card, opened: bool = False) -> Search:
    """How beam search goes, in a fold of the sidebar that is ``opened`` or not."""
    with st.sidebar.expander("Decoding settings", expanded=opened):
        beam = st.select_slider(
            "Beam size",
            BEAMS,
            DEFAULT_BEAM,
            key="beam",
            bind="query-params",
            help="How many unfinished translations the search keeps at each step. 1 is greedy search.",
        )
        keep_among("length_penalty", penalties(card), card.length_penalty)
        penalty = st.select_slider(
            "Length penalty",
            penalties(card),
            card.length_penalty,
            key="length_penalty",
            bind="query-params",
            help="A translation of n pieces is scored by its log-probability divided by ((5 + n) / 6) to this power. "
            f"0 favours short translations; {card.length_penalty:g} is this model's own.",
        )
        count = st.select_slider(
            "Alternatives (n-best)",
            COUNTS,
            DEFAULT_COUNT,
            key="nbest",
            bind="query-params",
            help="How many translations are listed; never more than the beam size.",
        )
        coverage = st.select_slider(
            "Coverage penalty",
            COVERAGES,
            0.0,
            key="coverage_penalty",
            bind="query-params",
            help="Lowers the score of a translation that has looked too little at some source pieces (Wu et al. 2016, "
            "Section 7). 0 is off.",
        )
        repeats = st.select_slider(
            "Block repeated n-grams",
            REPEATS,
            REPEATS[0],
            key="no_repeat_ngram",
            bind="query-params",
            help="No run of n pieces may be written a second time.",
        )
        extra = st.select_slider(
            "Longest translation",
            EXTRAS,
            DEFAULT_EXTRA,
            key="max_extra",
            bind="query-params",
            help="How many pieces a translation may have beyond those of its source.",
        )
    blocked = int(repeats) if repeats in REPEATS[1:] else 0
    return Search(int(beam), float(penalty), min(int(count), int(beam)), float(coverage), blocked, int(extra))


def penalties(card: Card) -> tuple[float, ...]:
    """The length penalties on offer, the model's own among them."""
    return tuple(sorted({*PENALTIES, card.length_penalty}))


def map_pickers(card: Card, decoder: bool = False) -> tuple[str, int, int]:
    """Kind, layer and head (both from 1), in one row; with ``decoder`` the layers are the decoder's, whatever kind."""
    with st.container(horizontal=True, key="pickers", vertical_alignment="bottom"):
        kind = segments("Kind of attention", KINDS, DEFAULT_KIND, "kind")
        layers = tuple(range(1, card.layers("cross" if decoder else kind) + 1))
        layer = segments("Layer", layers, layers[-1], "layer")
        head = segments("Head", tuple(range(1, card.heads + 1)), 1, "head")
    return kind, layer, head


def target_choice(count: int) -> tuple[int, str]:
    """Which translation the maps belong to: the rank of a hypothesis, from 1, and a text that takes its place if it is
    not empty."""
    with st.popover("Another translation"), st.container(key="target_choice", gap="small"):
        ranks = tuple(range(1, count + 1))
        keep_among("hypothesis", ranks, 1)
        rank = st.selectbox(
            "Maps of hypothesis",
            ranks,
            key="hypothesis",
            bind="query-params",
            help="1 is the translation; the others are what beam search found beside it (see Decoding settings).",
        )
        text = st.text_input(
            "or of a target of your own",
            key="target",
            bind="query-params",
            placeholder="Type a translation: the model is forced to write it",
        )
    return int(rank or 1), (text or "").strip()


def allowed_values(cards: Mapping[str, Card], raw: Mapping[str, str]) -> dict[str, Sequence[object]]:
    """What the URL may ask for, given which model and kind it asks for."""
    card = cards.get(raw.get("model", "")) or next(iter(cards.values()))
    kind = raw.get("kind", DEFAULT_KIND)
    return {
        "model": list(cards),
        "kind": KINDS,
        "layer": range(1, card.layers(kind) + 1),
        "head": range(1, card.heads + 1),
        "beam": BEAMS,
        "length_penalty": penalties(card),
        "nbest": COUNTS,
        "hypothesis": COUNTS,
        "coverage_penalty": COVERAGES,
        "no_repeat_ngram": REPEATS,
        "max_extra": EXTRAS,
        "step": range(1, parameters.LONGEST + 1),
        **parameters.OPTIONS,
        **choices.OPTIONS,
    }


def button_label(text: str) -> str:
    """Text as the label of a button: labels are Markdown, so every sign that could mean something is escaped."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(text.split()))


def _choose(example: str) -> None:
    st.session_state["sentence"] = example
    parameters.begin_anew()


def _exchange(cards: Mapping[str, Card]) -> None:
    parameters.begin_anew()  # pieces and nodes are numbered anew by another model
    before, after = cards.get(st.session_state.get("model_before", "")), cards.get(st.session_state["model"])
    sentence = st.session_state.get("sentence", "")
    if before and after and after.examples and (not sentence or sentence in before.examples):
        number = before.examples.index(sentence) if sentence else 0
        st.session_state["sentence"] = after.examples[min(number, len(after.examples) - 1)]
    if before and after and st.session_state.get("length_penalty") == before.length_penalty:
        st.session_state["length_penalty"] = after.length_penalty


def _offer(texts: Sequence[str]) -> str:
    numbers = all(re.fullmatch(r"[\d.]+", text) for text in texts)
    if numbers and len(texts) > 2:
        return f"It can be {texts[0]} to {texts[-1]}."
    return f"It can be {', '.join(texts[:-1])} or {texts[-1]}." if len(texts) > 1 else f"There is only {texts[0]}."
