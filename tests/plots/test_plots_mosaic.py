from __future__ import annotations

import numpy as np
import pytest

from transformer.analysis.maps import kind_view
from transformer.capture.record import AttentionRecord
from transformer.plots import theme
from transformer.plots.mosaic import GAP, TOP, mosaic, tile_bytes

LANGUAGES = {"source": "English", "target": "German"}


@pytest.mark.parametrize("across", [1, 2, 3, 4, 5])
def test_every_map_lies_in_its_tile_and_gaps_are_gaps(across: int) -> None:
    maps = np.random.default_rng(0).random((5, 3, 4), dtype=np.float32)
    picture, gap = tile_bytes(maps, across)
    assert picture.dtype == np.uint8
    covered = np.zeros_like(picture, dtype=bool)
    for index, weights in enumerate(maps):
        top, left = (index // across) * (3 + gap) + gap, (index % across) * (4 + gap) + gap
        tile = np.s_[top : top + 3, left : left + 4]
        np.testing.assert_allclose(picture[tile] / TOP, weights, atol=0.5 / TOP + 1e-6)
        covered[tile] = True
    assert (picture[~covered] == GAP).all()
    assert picture[covered].max() <= TOP


def test_one_picture_of_bytes_and_a_marker_per_head(record: AttentionRecord) -> None:
    figure = mosaic(kind_view(record, "encoder", LANGUAGES), [1], theme.LIGHT, across=2, selected=(1, 2))
    picture, markers = figure.data
    assert picture.z.dtype == np.uint8
    assert [list(place) for place in markers.customdata] == [[2, 1], [2, 2], [2, 3], [2, 4]]
    assert markers.hovertemplate  # without one of its own a click returns nothing
    assert [note.text for note in figure.layout.annotations] == ["head 1", "head 2", "<b>head 3</b>", "head 4"]
    widths = [shape.line.width for shape in figure.layout.shapes]
    assert widths.index(max(widths)) == 2


def test_markers_stand_in_the_middle_of_their_tiles(record: AttentionRecord) -> None:
    figure = mosaic(kind_view(record, "cross", LANGUAGES), [0, 1], theme.DARK)
    for shape, x, y in zip(figure.layout.shapes, figure.data[1].x, figure.data[1].y, strict=True):
        assert x == (shape.x0 + shape.x1) / 2
        assert y == (shape.y0 + shape.y1) / 2
    assert figure.layout.annotations[4].text == "layer 2 · head 1"
