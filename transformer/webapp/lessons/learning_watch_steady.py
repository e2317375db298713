"""Pictures that change again and again without a blink.

A chart whose figure changes is taken off the page and put there anew (to Streamlit its content is its identity),
and is blank until it is drawn. So there are two places on top of each other: the new figure comes into the one, above,
while the one before stays in the other, beneath, and is seen until the new one covers it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from transformer.webapp.workbench.pictures import picture


@dataclass(frozen=True, eq=False)
class Drawing:
    """What ``picture`` needs beside a key."""

    figure: Any
    name: str
    alt: str
    width: int = 0


def steady(make: Callable[[], Drawing], stamp: Hashable, key: str) -> None:
    """Draw a figure as ``picture`` does, over the one that was drawn before under this key.

    Args:
        make: gives what is to be drawn; called when the stamp is a new one.
        stamp: all that it depends on.
        key: of the charts, which get "_0" and "_1" behind it.
    """
    memory: dict[str, Any] = st.session_state.setdefault(f"{key}_memory", {"stamp": None, "above": 1, "drawn": {}})
    if memory["stamp"] != (stamp,):
        memory["stamp"], memory["above"] = (stamp,), 1 - memory["above"]
        memory["drawn"][memory["above"]] = make()
    above, pair = memory["above"], f".st-key-{key}_pair"
    st.html(
        f"<style>{pair}{{display:grid;grid-template-columns:minmax(0,1fr)}}{pair}>*{{grid-area:1/1;min-width:0}}"
        f"{pair}>:has(.st-key-{key}_place_{above}){{z-index:1}}"
        f"{pair}>:has(.st-key-{key}_place_{1 - above}){{pointer-events:none}}</style>"
    )
    with st.container(key=f"{key}_pair"):
        for place, drawing in sorted(memory["drawn"].items()):
            with st.container(key=f"{key}_place_{place}"):
                picture(drawing.figure, f"{key}_{place}", drawing.name, drawing.alt, drawing.width)
