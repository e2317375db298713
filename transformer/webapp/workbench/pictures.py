"""What all pictures of the page share: a camera that saves them, clicks that choose, a frame to scroll in."""

from __future__ import annotations

import re
from typing import Any

import streamlit as st

FORMATS = ("png", "svg")


def saved_as() -> str:
    """The format in which a picture's camera saves it."""
    return str(st.session_state.get("picture_format", FORMATS[0]))


def picture(figure: Any, key: str, name: str, alt: str, width: int = 0, **options: Any) -> None:
    """Draw a figure in a frame that scrolls where the page is narrower than ``width`` pixels.

    Args:
        figure: a Plotly figure.
        key: of the chart; on a page no two may be equal.
        name: what a saved picture is called, without its ending.
        alt: what the picture shows, for those who cannot see it.
        width: least width in pixels.
        options: handed to ``st.plotly_chart``.
    """
    camera = {"format": saved_as(), "scale": 2, "filename": re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")}
    config = {
        "displaylogo": False,
        "doubleClick": False,
        "modeBarButtons": [["toImage"]],
        "toImageButtonOptions": camera,
    }
    with st.container(key=f"scroll_{key}"), st.container(key=f"wide_{key}"):
        if width:
            st.html(f"<style>.st-key-wide_{key}{{min-width:{width}px}}</style>")
        st.plotly_chart(figure, theme=None, key=key, alt=alt, config=config, **options)


def choose_head(key: str) -> None:
    """Take over the head that was clicked; a second click on it, which deselects, changes nothing."""
    data = clicked(key)
    if data:
        st.session_state["layer"], st.session_state["head"] = int(data[0]), int(data[1])


def clicked(key: str) -> list[Any]:
    """The data of the point that was clicked in a chart, or nothing."""
    points = st.session_state[key]["selection"]["points"]
    if not points:
        return []
    data = points[0].get("customdata", [])
    return list(data) if isinstance(data, list) else [data[place] for place in sorted(data, key=int)]
