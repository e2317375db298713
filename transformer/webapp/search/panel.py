"""The story of a node: what was written, its numbers, why it was lost, and where the model looked while writing it."""

from __future__ import annotations

import math

import streamlit as st

from transformer.analysis.maps import kind_view
from transformer.analysis.words import combine
from transformer.plots.heatmap import attention_map, least_width
from transformer.webapp import markup, resources
from transformer.webapp.search import choosing, telling
from transformer.webapp.search.found import Found
from transformer.webapp.workbench.pictures import picture


def show(found: Found) -> None:
    """Draw it."""
    trace, view = found.trace, found.view
    title = f"<h3>{markup.escape(telling.title(found))}</h3>"
    tokens = trace.tokens(found.node)
    if not tokens:
        st.html(f'{title}<div class="under">Nothing has been written yet. Choose a node behind it.</div>')
        return
    record = resources.record(view.translator, view.sentence, tokens)
    chips = "".join(
        markup.chip(piece, probability=math.exp(log_prob), number=True)
        for piece, log_prob in zip(record.target_output, trace.log_probs(found.node), strict=True)
    )
    st.html(f'{title}<div class="chips sure" dir="auto">{chips}</div>')
    left, right = st.columns([5, 6], gap="medium")
    with left:
        reason = telling.why(found)
        if reason:
            st.html(markup.notice("info", reason))
        st.html(telling.displaced(found) + telling.numbers(found))
        choosing.search_on(found)
    with right:
        maps = kind_view(record, "cross", view.card.languages)
        layer, head = _head(maps.layers, maps.heads)
        heads = [(layer, head)] if head is not None else [(layer, other) for other in range(maps.heads)]
        one = combine(maps, heads, "mean")
        picture(
            attention_map(one, 0, 0, view.colours),
            "story_map",
            f"{view.card.name} cross attention of a beginning",
            f"Cross-attention, {_called((layer, head))}, while exactly this beginning was written",
            least_width(one),
        )


def _head(layers: int, heads: int) -> tuple[int, int | None]:
    """Layer and head from 0; None for the mean of all heads. At first that of the last layer."""
    places: list[tuple[int, int | None]] = [(layers - 1, None)]
    for layer in reversed(range(layers)):
        places += [(layer, None)] if layer != layers - 1 else []
        places += [(layer, head) for head in range(heads)]
    if st.session_state.get("story_head") not in places:
        st.session_state["story_head"] = places[0]
    chosen = st.selectbox(
        "Cross-attention of exactly this beginning",
        places,
        format_func=_called,
        key="story_head",
        persist_state="session",
        width=320,
    )
    return (int(chosen[0]), chosen[1])


def _called(place: tuple[int, int | None]) -> str:
    layer, head = place
    return f"layer {layer + 1} · " + ("mean of all heads" if head is None else f"head {head + 1}")
