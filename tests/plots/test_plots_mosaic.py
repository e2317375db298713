from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from transformer.analysis.maps import Axis, KindView, kind_view
from transformer.capture.record import AttentionRecord
from transformer.plots import theme
from transformer.plots.mosaic import GAP, TOP, Tiling, block_side, largest_of_blocks, mosaic, tile_bytes, tiling

LANGUAGES = {"source": "English", "target": "German"}


def square(layers: int, heads: int, length: int) -> KindView:
    weights = np.random.default_rng(1).random((layers, heads, length, length), dtype=np.float32)
    axis = Axis("key", ("a",) * length, (False,) * length)
    return KindView("encoder", weights, axis, axis, ("",) * length)


@pytest.mark.parametrize("across", [1, 2, 3, 4, 5])
def test_every_map_lies_in_its_tile_and_gaps_are_gaps(across: int) -> None:
    maps = np.random.default_rng(0).random((5, 3, 4), dtype=np.float32)
    plan = tiling(5, 3, 4, across)
    picture = tile_bytes(maps, plan)
    assert plan.block == 1
    assert picture.dtype == np.uint8
    covered = np.zeros_like(picture, dtype=bool)
    for index, weights in enumerate(maps):
        top, left = plan.corner(index)
        tile = np.s_[top : top + 3, left : left + 4]
        assert not covered[tile].any()
        np.testing.assert_allclose(picture[tile] / TOP, weights, atol=0.5 / TOP + 1e-6)
        covered[tile] = True
    assert covered.sum() == maps.size
    assert (picture[~covered] == GAP).all()
    assert picture[covered].max() <= TOP


@pytest.mark.parametrize(("rows", "columns", "side"), [(7, 5, 2), (6, 6, 3), (1, 9, 4), (4, 4, 1), (3, 3, 5)])
def test_each_pixel_is_the_largest_of_its_block(rows: int, columns: int, side: int) -> None:
    weights = np.random.default_rng(2).random((rows, columns), dtype=np.float32)
    shrunk = largest_of_blocks(weights, side)
    assert shrunk.shape == (-(-rows // side), -(-columns // side))
    for row in range(shrunk.shape[0]):
        for column in range(shrunk.shape[1]):
            block = weights[row * side : (row + 1) * side, column * side : (column + 1) * side]
            assert shrunk[row, column] == block.max()


@pytest.mark.parametrize(
    ("layers", "heads", "length", "block"), [(6, 8, 30, 1), (6, 8, 128, 1), (6, 16, 128, 2), (6, 16, 256, 3)]
)
def test_long_input_keeps_within_the_bytes_by_the_smallest_blocks(
    layers: int, heads: int, length: int, block: int
) -> None:
    view = square(layers, heads, length)
    figure = mosaic(view, range(layers), theme.LIGHT, across=heads)
    assert len(figure.to_json()) < 1_500_000
    assert block_side(view, range(layers), across=heads) == figure.layout.meta["block"] == block
    tile = -(-length // block)
    top, left = Tiling(layers * heads, heads, tile, tile, block).corner(1)
    shown = figure.data[0].z[top : top + tile, left : left + tile]
    np.testing.assert_array_equal(shown, np.rint(largest_of_blocks(view.weights[0, 1], block) * TOP))


def test_a_single_strong_cell_survives_the_shrinking() -> None:
    view = square(6, 16, 256)
    weights = np.zeros_like(view.weights)
    weights[2, 5, 200, 17] = 1.0
    figure = mosaic(dataclasses.replace(view, weights=weights), range(6), theme.LIGHT)
    assert (figure.data[0].z == TOP).sum() == 1


def test_right_to_left_turns_each_map_but_not_the_order_of_heads(record: AttentionRecord) -> None:
    usual = kind_view(record, "cross", LANGUAGES)
    turned = dataclasses.replace(usual, columns=dataclasses.replace(usual.columns, right_to_left=True))
    first, second = (mosaic(view, [0], theme.LIGHT) for view in (usual, turned))
    plan = tiling(usual.heads, *usual.weights.shape[2:], 4)
    for head in range(usual.heads):
        top, left = plan.corner(head)
        tile = np.s_[top : top + plan.rows, left : left + plan.columns]
        np.testing.assert_array_equal(second.data[0].z[tile], first.data[0].z[tile][:, ::-1])
    assert [list(place) for place in second.data[1].customdata] == [list(place) for place in first.data[1].customdata]


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
