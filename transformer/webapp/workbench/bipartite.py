"""Queries on the left, keys on the right, a line for each strong look."""

from __future__ import annotations

import streamlit as st

from transformer.analysis.maps import KindView
from transformer.plots.lines import SIDES, lines
from transformer.webapp.choices import SETS, as_one, chosen_heads, map_name
from transformer.webapp.frame import View
from transformer.webapp.workbench.pictures import clicked, picture

KEY = "lines_picture"
THRESHOLDS = tuple(round(step / 100, 2) for step in (1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90))

ALL = ("all", 0)
"""No token is followed. None would mean to Streamlit that nothing is chosen."""


def show(view: View, maps: KindView) -> None:
    """Draw the view. A mean or maximum is one set of lines; "one head" may be joined by others."""
    layer, head = view.layer - 1, view.head - 1
    with st.container(horizontal=True, key="line_choices", vertical_alignment="bottom", gap="small"):
        threshold = st.select_slider("Draw weights from", THRESHOLDS, 0.1, key="threshold", persist_state="session")
        focus, side = _focus(maps)
        others: list[tuple[int, int]] = []
        names: tuple[str, ...] = ()
        if view.choices.combine == SETS[0]:
            others = st.multiselect(
                "Beside it",
                [place for place in chosen_all(maps) if place != (layer, head)],
                format_func=lambda place: f"layer {place[0] + 1} · head {place[1] + 1}",
                key=f"beside_{view.kind}_{maps.layers}_{maps.heads}",
                placeholder="more heads, a colour each",
            )
    if view.choices.combine == SETS[0]:
        drawn, heads = maps, [*chosen_heads(maps, layer, head, view.choices), *others]
    else:
        drawn, at, other = as_one(maps, layer, head, view.choices)
        heads, names = [(at, other)], (map_name(view.kind, view.layer, view.head, view.choices),)
    title = map_name(view.kind, view.layer, view.head, view.choices)
    st.html(f"<b>{title}</b> <span class='under'>click a token to follow it</span>")
    picture(
        lines(drawn, heads, view.colours, threshold=float(threshold), focus=focus, side=side, names=names),
        KEY,
        f"{view.card.name} {title} lines",
        f"Lines from queries to keys, {title}, weights from {threshold}",
        520,
        on_select=_follow,
        selection_mode="points",
    )


def chosen_all(maps: KindView) -> list[tuple[int, int]]:
    """Every head, as (layer, head) from 0."""
    return [(layer, head) for layer in range(maps.layers) for head in range(maps.heads)]


def _focus(maps: KindView) -> tuple[int | None, str]:
    places = [ALL, *((side, index) for side in SIDES for index in range(len(_axis(maps, side))))]
    if st.session_state.get("line_focus") not in places:
        st.session_state["line_focus"] = ALL
    chosen = st.selectbox(
        "Follow",
        places,
        format_func=lambda place: _called(maps, place),
        key="line_focus",
        width=230,
    )
    return (None, SIDES[0]) if chosen == ALL else (chosen[1], chosen[0])


def _called(maps: KindView, place: tuple[str, int]) -> str:
    return "all" if place == ALL else f"{place[0]} {place[1] + 1}. {_axis(maps, place[0])[place[1]]}"


def _axis(maps: KindView, side: str) -> tuple[str, ...]:
    return maps.rows.labels if side == SIDES[0] else maps.columns.labels


def _follow() -> None:
    data = clicked(KEY)
    if data:
        place = (str(data[0]), int(data[1]))
        st.session_state["line_focus"] = ALL if st.session_state.get("line_focus") == place else place
