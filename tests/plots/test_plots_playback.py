from __future__ import annotations

import numpy as np
import pytest

from transformer.analysis.maps import kind_view
from transformer.capture.record import AttentionRecord
from transformer.errors import InputError
from transformer.plots import theme
from transformer.plots.heatmap import attention_map
from transformer.plots.playback import grown_map

LANGUAGES = {"source": "English", "target": "German"}


@pytest.mark.parametrize("kind", ["decoder", "cross"])
def test_rows_up_to_the_step_are_those_of_the_whole_map(record: AttentionRecord, kind: str) -> None:
    maps = kind_view(record, kind, LANGUAGES)
    whole = attention_map(maps, 1, 2, theme.LIGHT)
    count = maps.weights.shape[2]
    for step in range(count):
        figure = grown_map(maps, 1, 2, step, theme.LIGHT)
        drawn = figure.data[0].z
        np.testing.assert_array_equal(drawn[: step + 1], whole.data[0].z[: step + 1])
        assert np.isnan(drawn[step + 1 :]).all()
        ticks = figure.layout.yaxis.ticktext
        assert [bool(tick) for tick in ticks] == [row <= step for row in range(count)]
        assert ticks[step] == f"<b>{whole.layout.yaxis.ticktext[step]}</b>"


@pytest.mark.parametrize("kind", ["decoder", "cross"])
def test_the_picture_never_changes_its_size(record: AttentionRecord, kind: str) -> None:
    maps = kind_view(record, kind, LANGUAGES)
    whole = attention_map(maps, 0, 0, theme.DARK).layout
    for step in range(maps.weights.shape[2]):
        layout = grown_map(maps, 0, 0, step, theme.DARK).layout
        assert (layout.height, layout.margin) == (whole.height, whole.margin)
        assert (layout.xaxis.range, layout.yaxis.range) == (whole.xaxis.range, whole.yaxis.range)


def test_keys_of_the_decoder_appear_as_they_are_read(record: AttentionRecord) -> None:
    ticks = grown_map(kind_view(record, "decoder", LANGUAGES), 0, 0, 1, theme.LIGHT).layout.xaxis.ticktext
    assert [bool(tick) for tick in ticks] == [True, True, False, False, False]
    ticks = grown_map(kind_view(record, "cross", LANGUAGES), 0, 0, 1, theme.LIGHT).layout.xaxis.ticktext
    assert all(ticks)


@pytest.mark.parametrize("step", [-1, 5])
def test_a_step_that_is_not_there(record: AttentionRecord, step: int) -> None:
    with pytest.raises(InputError, match="step must be positions from 0 to 4"):
        grown_map(kind_view(record, "cross", LANGUAGES), 0, 0, step, theme.LIGHT)
