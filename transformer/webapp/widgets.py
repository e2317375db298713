"""Widgets that choose from a list and are bound to a URL parameter of their key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import streamlit as st

T = TypeVar("T")


def segments(label: str, options: Sequence[T], default: T, key: str, help: str | None = None) -> T:
    """A row of radio buttons (arrow keys move the choice), dressed as segments by the style sheet."""
    keep_among(key, options, default)
    chosen = st.radio(
        label, options, index=options.index(default), key=key, bind="query-params", horizontal=True, help=help
    )
    return default if chosen is None else chosen


def choose(label: str, options: Sequence[T], key: str, help: str | None = None, width: int = 190) -> T:
    """A list that opens; the first option is the usual one."""
    keep_among(key, options, options[0])
    chosen = st.selectbox(label, options, key=key, bind="query-params", help=help, width=width)
    return options[0] if chosen is None else chosen


def keep_among(key: str, options: Sequence[T], default: T) -> None:
    """A value kept from another model, or an empty one, gives way to the usual one."""
    if key in st.session_state and st.session_state[key] not in options:
        st.session_state[key] = default
