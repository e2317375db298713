from __future__ import annotations

import numpy as np

from transformer.plots import theme
from transformer.plots.scaling import HeadPoint, head_points


def test_every_head_is_a_point_of_its_kind() -> None:
    points = [
        HeadPoint("encoder", 1, 2, 1.5, 0.5),
        HeadPoint("cross", 2, 1, 1.0, 0.25),
        HeadPoint("cross", 2, 2, 2.0, 1.0),
        HeadPoint("decoder", 1, 1, np.nan, np.nan),
    ]
    shown = head_points(points, "entropy, nats", theme.LIGHT)
    line, encoder, cross = shown.data
    assert (list(encoder.x), list(encoder.y)) == ([1.5], [0.5])
    assert (list(cross.x), list(cross.y)) == ([1.0, 2.0], [0.25, 1.0])
    assert (encoder.marker.color, cross.marker.color) == (theme.LIGHT.encoder, theme.LIGHT.cross)
    assert list(line.x) == list(line.y)
    assert encoder.customdata[0] == "encoder, layer 1 · head 2: 1.500 with the division, 0.500 without"
    assert shown.layout.xaxis.range == shown.layout.yaxis.range


def test_no_head_with_a_number_draws_only_the_line() -> None:
    assert len(head_points([HeadPoint("decoder", 1, 1, np.nan, np.nan)], "entropy", theme.DARK).data) == 1
