"""A text that the user gives as target, beside what the model writes by itself."""

from __future__ import annotations

import math

import numpy as np
import streamlit as st

from transformer.plots.labels import percent
from transformer.webapp import markup
from transformer.webapp.frame import View


def show(view: View) -> None:
    """Both translations piece by piece with their probabilities, if a target was given."""
    if not view.target:
        return
    free, record = view.translation, view.record
    rows = (
        ("free", "the model's own", free.pieces, [math.exp(value) for value in free.log_probs], free.total_log_prob),
        ("forced", "your target", record.target_output, list(np.exp(record.log_probs)), record.total_log_prob),
    )
    parts = []
    for name, whose, pieces, probabilities, total in rows:
        chips = "".join(
            markup.chip(piece, probability=float(value), number=True)
            for piece, value in zip(pieces, probabilities, strict=True)
        )
        mean = math.exp(total / len(pieces))
        parts.append(
            f'<div class="under"><b>{name}</b>, {whose}: log-probability {total:.2f}, {percent(mean)} a piece on '
            f'average (geometric)</div><div class="chips sure" dir="auto">{chips}</div>'
        )
    st.html("".join(parts))
