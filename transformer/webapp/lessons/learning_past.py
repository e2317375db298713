"""One pair through the snapshots of this checkpoint's training, on a slider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from transformer.analysis.maps import KINDS, kind_view
from transformer.errors import TransformerError
from transformer.plots.curves import Line, Panel, panels
from transformer.plots.heatmap import attention_map, least_width
from transformer.plots.labels import percent
from transformer.webapp import markup
from transformer.webapp.choices import MapChoices, map_name
from transformer.webapp.frame import View
from transformer.webapp.lessons import learning_cached as cached
from transformer.webapp.lessons import snapshots_cached
from transformer.webapp.lessons.learning_pair import Pair
from transformer.webapp.lessons.section import attempt, section
from transformer.webapp.workbench.pictures import picture

if TYPE_CHECKING:
    from transformer.lessons.snapshots import Look

LAST = "end"
"""The slider's last place: the finished model."""


def show(view: View, pair: Pair) -> None:
    """Translation, loss and a chosen map at every snapshot."""
    with section(
        "snapshots",
        "What did the model make of this sentence while it was learning?",
        idea="The same sentence and the same right translation, with the weights as they were after so many updates. "
        "Early on a model writes frequent pieces whatever the sentence is, and its cross-attention looks everywhere "
        "alike. Watch where the loss falls: has the attention become sharp there?",
    ):
        kept = snapshots_cached.steps(view.card)
        if not kept:
            st.html(
                markup.notice(
                    "info",
                    f"No snapshots of this model's training were kept.{snapshots_cached.elsewhere()} A recipe keeps "
                    "them if its section [checkpoint] says snapshots = [50, 150, 400, …], the updates after which the "
                    "weights are to be saved.",
                )
            )
            return
        places: tuple[int | str, ...] = (*kept, LAST)
        chosen = st.select_slider(
            "After how many updates",
            places,
            LAST,
            key=f"learning_snapshot_{view.card.name}_{len(kept)}",
            persist_state="session",
            format_func=lambda place: "finished" if place == LAST else f"{place:,}",
        )
        kind, layer, head = _map_choice(view)
        looks = _looks(view, pair, kept)
        if not looks:
            return
        _told(pair, chosen, looks)
        left, right = st.columns(2, gap="medium")
        with left, st.container(gap="xxsmall"):
            _course(view, pair, chosen, looks)
        with right, st.container(gap="xxsmall"):
            _map(view, pair, chosen, kind, layer, head)
        st.html(_table(view, looks))
        attempt(
            "Move the slider from the left end to the right, one place at a time, and watch one row of the map: when "
            "does the head find its place?"
        )


def _map_choice(view: View) -> tuple[str, int, int]:
    """Kind, and layer and head from 1."""
    with st.container(horizontal=True, key="learning_map_choice", gap="small"):
        kind = str(
            st.selectbox("Kind", KINDS, KINDS.index("cross"), key="learning_kind", persist_state="session", width=130)
        )
        layers = view.card.layers(kind)
        layer = st.selectbox(
            "Layer",
            range(1, layers + 1),
            layers - 1,
            key=f"learning_layer_{layers}",
            persist_state="session",
            width=90,
        )
        heads = view.card.heads
        head = st.selectbox(
            "Head", range(1, heads + 1), key=f"learning_head_{heads}", persist_state="session", width=90
        )
    return kind, int(layer or 1), int(head or 1)


def _looks(view: View, pair: Pair, kept: tuple[int, ...]) -> dict[int | str, Look]:
    """What each snapshot, and at last the finished model, makes of the pair; nothing, and a plain sentence, if one
    cannot be opened."""
    waiting = st.empty()
    found: dict[int | str, Look] = {}
    for number, step in enumerate((*kept, None), start=1):
        waiting.html(f'<div class="under">Asking snapshot {number} of {len(kept) + 1} …</div>')
        try:
            found[LAST if step is None else step] = cached.look(view.card, view.translator, step, pair.source, pair.ids)
        except (TransformerError, OSError) as error:
            waiting.html(markup.notice("error", f"A snapshot cannot be used. What is wrong: {error}"))
            return {}
    waiting.empty()
    return found


def _told(pair: Pair, chosen: int | str, looks: dict[int | str, Look]) -> None:
    look = looks[chosen]
    when = "The finished model" if chosen == LAST else f"After {chosen:,} updates the model"
    wrote = markup.escape(look.text) if look.text.strip() else "(nothing: it ends at once)"
    cut = "" if look.finished else " … and did not come to an end"
    st.html(
        f'<div class="under">{when} writes (greedy search):</div>'
        f'<div class="translation" dir="auto">{wrote}{cut}</div>'
        f'<div class="under">To {markup.escape(pair.called)} it gives a loss of <b>{look.loss:.3f}</b> nats per piece: '
        f"each piece has a probability of {percent(look.probability)} (geometric mean). Evenness of its "
        f"cross-attention, 1 = everywhere alike, by layer: {', '.join(f'{value:.2f}' for value in look.evenness)}."
        "</div>"
    )


def _course(view: View, pair: Pair, chosen: int | str, looks: dict[int | str, Look]) -> None:
    steps = [step for step in looks if isinstance(step, int)]
    finished = _finished(view, steps)
    places = np.array([*steps, finished])
    values = list(looks.values())
    st.html(f"<b>Over the training</b> <span class='under'>of {markup.escape(pair.called)}</span>")
    evenness = np.array([float(np.mean(look.evenness)) for look in values])
    picture(
        panels(
            [
                Panel(
                    "loss of this pair, nats per piece",
                    (Line("loss", places, np.array([look.loss for look in values]), points=True),),
                    decimals=3,
                ),
                Panel(
                    "evenness of cross-attention, mean of layers", (Line("evenness", places, evenness, points=True),)
                ),
            ],
            view.colours,
            chosen=finished if chosen == LAST else int(chosen),
            logarithmic_steps=True,
            height=170,
            named=False,
            axis="updates, the finished model last",
        ),
        "learning_snapshots",
        f"{view.card.name} snapshots",
        f"Curves: loss of the pair from {values[0].loss:.2f} to {values[-1].loss:.2f} over {len(values)} snapshots",
    )


def _finished(view: View, steps: list[int]) -> int:
    """Where the finished model stands on the axis of updates."""
    training = view.translator.meta.get("training")
    made = training.get("steps") if isinstance(training, dict) else None
    return max(made if isinstance(made, int) else 0, round(1.15 * max(steps)) + 1)


def _map(view: View, pair: Pair, chosen: int | str, kind: str, layer: int, head: int) -> None:
    step = None if chosen == LAST else int(chosen)
    record = cached.record(view.card, view.translator, step, pair.source, pair.ids)
    maps = kind_view(record, kind, view.card.languages)
    when = "finished model" if step is None else f"after {step:,} updates"
    title = map_name(kind, layer, head, MapChoices())
    st.html(f"<b>{markup.escape(title)}</b> <span class='under'>{markup.escape(when)}</span>")
    picture(
        attention_map(maps, layer - 1, head - 1, view.colours),
        "learning_map",
        f"{view.card.name} {title} {when}",
        f"Attention map, {title}, {when}",
        least_width(maps),
    )


def _table(view: View, looks: dict[int | str, Look]) -> str:
    return markup.table(
        "Every snapshot: loss of the pair, probability of each of its pieces (geometric mean), and what it writes",
        ("updates", "loss", "per piece", f"its own translation, {view.card.target}"),
        [
            (
                "finished" if step == LAST else f"{step:,}",
                f"{look.loss:.3f}",
                percent(look.probability),
                (look.text or "(empty)") + ("" if look.finished else " …"),
            )
            for step, look in looks.items()
        ],
        numeric=(0, 1, 2),
    )
