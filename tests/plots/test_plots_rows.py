from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from transformer.analysis.maps import kind_view
from transformer.capture.record import AttentionRecord
from transformer.errors import InputError
from transformer.plots import theme
from transformer.plots.heatmap import attention_map
from transformer.plots.rows import row_bars, summed_rows

LANGUAGES = {"source": "English", "target": "German"}


def test_sum_of_rows_is_the_sum_and_weighs_as_much_as_there_are_rows(record: AttentionRecord) -> None:
    view = kind_view(record, "cross", LANGUAGES)
    total = summed_rows(view, 1, 3, [4, 0, 4])
    np.testing.assert_allclose(total, record.cross[1, 3, 0] + record.cross[1, 3, 4], rtol=1e-6)
    assert total.sum() == pytest.approx(2.0, abs=1e-5)


def test_bars_hold_the_sum_and_say_the_mean(record: AttentionRecord) -> None:
    view = kind_view(record, "cross", LANGUAGES)
    figure = row_bars(view, 0, 1, [2, 1], theme.LIGHT)
    (bars,) = figure.data
    total = record.cross[0, 1, 1] + record.cross[0, 1, 2]
    np.testing.assert_allclose(bars.y, total, rtol=1e-6)
    assert bars.customdata[3] == (
        f"'&lt;/s&gt;': sum {total[3]:.4f}, mean {total[3] / 2:.4f}<br>over the queries '·e', '&lt;b&gt;'"
    )
    assert bars.hovertemplate == "%{customdata}<extra></extra>"
    assert figure.layout.yaxis.title.text == "weight,<br>sum of 2 queries"
    assert figure.layout.yaxis.range[1] > total.max()
    assert figure.layout.xaxis.title.text == "key: English input"


def test_one_row_is_named_without_a_mean(record: AttentionRecord) -> None:
    figure = row_bars(kind_view(record, "cross", LANGUAGES), 0, 0, [0], theme.LIGHT)
    assert figure.layout.yaxis.title.text == "weight"
    assert figure.data[0].customdata[1] == f"'dog': {record.cross[0, 0, 0, 1]:.4f}<br>for the query 'Hund'"


@pytest.mark.parametrize("right_to_left", [False, True])
def test_bars_stand_under_the_columns_of_the_map(record: AttentionRecord, right_to_left: bool) -> None:
    view = kind_view(record, "cross", LANGUAGES)
    view = dataclasses.replace(view, columns=dataclasses.replace(view.columns, right_to_left=right_to_left))
    above, below = attention_map(view, 0, 0, theme.LIGHT).layout, row_bars(view, 0, 0, [1], theme.LIGHT).layout
    assert above.xaxis.range == below.xaxis.range
    assert above.xaxis.ticktext == below.xaxis.ticktext
    assert (above.margin.l, above.margin.r) == (below.margin.l, below.margin.r)


def test_keys_hidden_from_all_the_queries_are_shaded(record: AttentionRecord) -> None:
    figure = row_bars(kind_view(record, "decoder", LANGUAGES), 0, 0, [0, 2], theme.LIGHT)
    assert [shape.x0 + 0.5 for shape in figure.layout.shapes] == [3, 4]
    assert {shape.fillcolor for shape in figure.layout.shapes} == {theme.LIGHT.masked}


def test_no_row_and_a_row_that_is_not_there_are_refused(record: AttentionRecord) -> None:
    view = kind_view(record, "cross", LANGUAGES)
    with pytest.raises(InputError, match="at least one query"):
        summed_rows(view, 0, 0, [])
    with pytest.raises(InputError, match="positions from 0 to 4"):
        row_bars(view, 0, 0, [5], theme.LIGHT)
