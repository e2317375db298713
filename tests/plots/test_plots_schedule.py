"""The learning rate's picture: both schedules, their peaks named where they are."""

from __future__ import annotations

import numpy as np
import pytest

from transformer.plots import theme
from transformer.plots.schedule import Rate, rate_curves


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_schedules_and_their_peaks(colours: theme.Palette) -> None:
    steps = np.array([1, 10, 100])
    figure = rate_curves(
        [
            Rate("yours <b>", steps, np.array([0.1, 1.0, 0.3]), chosen=True),
            Rate("this model's", steps, np.array([0.1, 0.2, 0.5])),
        ],
        colours,
    )
    assert [list(trace.y) for trace in figure.data] == [[0.1, 0.2, 0.5], [0.1, 1.0, 0.3]]  # the chosen one on top
    peaks = {note.text: (note.x, note.y, note.xanchor) for note in figure.layout.annotations}
    assert peaks == {
        "this model's<br>peak 5.00e-01 at step 100": (100, 0.5, "right"),
        "yours &lt;b&gt;<br>peak 1.00e+00 at step 10": (10, 1.0, "left"),
    }
    assert figure.layout.yaxis.range[1] > 1.0
