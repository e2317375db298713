from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from test_plots_theme import contrast

from transformer.analysis.maps import Axis, KindView, kind_view
from transformer.capture.record import KINDS, AttentionRecord
from transformer.errors import InputError
from transformer.plots import theme
from transformer.plots.heatmap import CELLS_WITH_SENTENCES, against_the_rest, attention_map, least_width

LANGUAGES = {"source": "English", "target": "German"}
SOURCE_TICKS = ["&lt;SOS&gt;", "dog", "dog", "&lt;/s&gt;", "$x_1$", "2019", "<u>你</u>", "&lt;EOS&gt;"]
WRITTEN_TICKS = ["Hund", "·e", "&lt;b&gt;", "·e", "&lt;EOS&gt;"]
READ_TICKS = ["&lt;SOS&gt;", "Hund", "·e", "&lt;b&gt;", "·e"]


@pytest.mark.parametrize(
    ("kind", "rows", "columns"),
    [
        ("encoder", SOURCE_TICKS, SOURCE_TICKS),
        ("decoder", WRITTEN_TICKS, READ_TICKS),
        ("cross", WRITTEN_TICKS, SOURCE_TICKS),
    ],
)
def test_axes_carry_every_piece_verbatim(
    record: AttentionRecord, kind: str, rows: list[str], columns: list[str]
) -> None:
    figure = attention_map(kind_view(record, kind, LANGUAGES), 1, 2, theme.LIGHT)
    assert list(figure.layout.yaxis.ticktext) == rows
    assert list(figure.layout.xaxis.ticktext) == columns
    assert list(figure.layout.yaxis.tickvals) == list(range(len(rows)))
    assert figure.data[0].z.shape == (len(rows), len(columns))


def test_axis_titles_say_what_rows_and_columns_are(record: AttentionRecord) -> None:
    titles = {}
    for kind in KINDS:
        layout = attention_map(kind_view(record, kind, LANGUAGES), 0, 0, theme.LIGHT).layout
        titles[kind] = (layout.yaxis.title.text.replace("<br>", " "), layout.xaxis.title.text)
    assert titles == {
        "encoder": ("query: English input", "key: English input"),
        "decoder": ("query: German output, the piece being written", "key: German output read so far"),
        "cross": ("query: German output, the piece being written", "key: English input"),
    }


def test_weights_are_those_of_the_head_and_top_row_is_first(record: AttentionRecord) -> None:
    figure = attention_map(kind_view(record, "cross", LANGUAGES), 1, 3, theme.LIGHT)
    np.testing.assert_array_equal(figure.data[0].z, record.cross[1, 3])
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]
    assert figure.layout.xaxis.side == "top"
    assert (figure.data[0].zmin, figure.data[0].zmax) == (0, 1)


def test_cells_say_what_is_written_and_read(record: AttentionRecord) -> None:
    cells = attention_map(kind_view(record, "cross", LANGUAGES), 0, 0, theme.LIGHT).data[0].customdata
    assert cells[0][1] == "writing 'Hund', having just read '&lt;SOS&gt;' → looks at 'dog'"
    assert cells[2][3] == "writing '&lt;b&gt;', having just read '·e' → looks at '&lt;/s&gt;'"


def test_masked_cells_are_left_out_but_a_broken_mask_is_shown(record: AttentionRecord) -> None:
    above = ~record.causal_mask
    honest = attention_map(kind_view(record, "decoder", LANGUAGES), 0, 0, theme.LIGHT).data[0].z
    np.testing.assert_array_equal(np.isnan(honest), above)
    leaking = record.decoder.copy()
    leaking[0, 0, 0, 3] = 0.25
    broken = dataclasses.replace(record, decoder=leaking)
    shown = attention_map(kind_view(broken, "decoder", LANGUAGES), 0, 0, theme.LIGHT).data[0].z
    assert shown[0, 3] == np.float32(0.25)


def test_numbers_in_cells_have_two_decimals_and_no_zeros(record: AttentionRecord) -> None:
    weights = np.zeros_like(record.cross)
    weights[..., 0] = 1.0
    weights[0, 0, 0, :3] = 0.996, 0.004, 0.25
    figure = attention_map(kind_view(dataclasses.replace(record, cross=weights), "cross", LANGUAGES), 0, 0, theme.LIGHT)
    first, again = (trace.text[0] for trace in figure.data)
    assert list(first) == ["", "", ".25"] + [""] * 5
    assert list(again) == ["1.0"] + [""] * 7  # each number stands in one of the two traces


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_stand_out_from_their_cells(record: AttentionRecord, colours: theme.Palette, kind: str) -> None:
    figure = attention_map(kind_view(record, kind, LANGUAGES), 0, 0, colours)
    steps = np.linspace(0.0, 1.0, 50, dtype=np.float32)
    strong = against_the_rest(steps[None], kind, colours)[0]
    usual = figure.data[0].textfont.color
    for weight, again in zip(steps, strong, strict=True):
        cell = theme.mix(colours.background, theme.kind_colour(kind, colours), float(weight))
        own, other = (theme.readable_on(theme.kind_colour(kind, colours)), usual) if again else (usual, "#ffffff")
        assert contrast(own, cell) >= 4.2
        assert contrast(own, cell) >= contrast(other, cell) - 0.1


def test_a_strong_cell_is_drawn_again_with_the_same_weight(record: AttentionRecord) -> None:
    weights = np.zeros_like(record.cross)
    weights[..., 2] = 1.0
    figure = attention_map(kind_view(dataclasses.replace(record, cross=weights), "cross", LANGUAGES), 0, 0, theme.DARK)
    first, again = figure.data
    assert np.isnan(again.z).sum() == again.z.size - len(again.z)
    np.testing.assert_array_equal(again.z[:, 2], first.z[:, 2])
    assert (first.textfont.color, again.textfont.color) == ("#ffffff", "#10141b")
    assert again.hoverinfo == "skip"


def test_title_of_a_low_map_takes_two_lines(record: AttentionRecord) -> None:
    low = dataclasses.replace(
        record,
        target_output=record.target_output[:1],
        target_input=record.target_input[:1],
        cross=record.cross[:, :, :1],
    )
    title = attention_map(kind_view(low, "cross", LANGUAGES), 0, 0, theme.LIGHT).layout.yaxis.title.text
    assert title == "query: German output,<br>the piece being written"


def test_long_sentences_keep_every_label_and_send_no_sentences(record: AttentionRecord) -> None:
    length = 80
    weights = np.full((1, 1, length, length), 1 / length, dtype=np.float32)
    long = dataclasses.replace(record, source=record.source[1:2] * length, encoder=weights)
    figure = attention_map(kind_view(long, "encoder", LANGUAGES), 0, 0, theme.DARK)
    assert length * length > CELLS_WITH_SENTENCES
    assert figure.data[0].customdata is None
    assert list(figure.layout.xaxis.ticktext) == ["dog"] * length
    assert least_width(kind_view(long, "encoder", LANGUAGES)) > 1000


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_scale_runs_from_background_to_the_colour_of_the_kind(record: AttentionRecord, colours: theme.Palette) -> None:
    for kind in KINDS:
        scale = attention_map(kind_view(record, kind, LANGUAGES), 0, 0, colours).data[0].colorscale
        assert [colour for _, colour in scale] == [colours.background, theme.kind_colour(kind, colours)]


def test_stretched_scale_ends_at_the_largest_weight_and_the_bar_says_so(record: AttentionRecord) -> None:
    view = kind_view(record, "cross", LANGUAGES)
    usual = attention_map(view, 1, 2, theme.LIGHT).data[0]
    trace = attention_map(view, 1, 2, theme.LIGHT, stretched=True).data[0]
    largest = float(record.cross[1, 2].max())
    assert (usual.zmax, usual.colorbar.title.text, usual.colorbar.ticktext) == (1.0, "weight", ("0", "0.5", "1"))
    assert trace.zmax == pytest.approx(largest)
    assert trace.colorbar.title.text == "weight, stretched"
    assert trace.colorbar.tickvals[-1] == trace.zmax
    assert trace.colorbar.ticktext[-1] == f"{largest:.2g}"
    np.testing.assert_array_equal(trace.z, record.cross[1, 2])


def test_stretched_numbers_stand_out_by_the_colour_that_is_seen(record: AttentionRecord) -> None:
    weights = np.full_like(record.cross, 0.01)
    weights[..., 3] = 0.2
    view = kind_view(dataclasses.replace(record, cross=weights), "cross", LANGUAGES)
    again = attention_map(view, 0, 0, theme.LIGHT, stretched=True).data[1]
    assert list(again.text[0]) == ["", "", "", ".20", "", "", "", ""]
    assert len(attention_map(view, 0, 0, theme.LIGHT).data) == 1


def test_a_map_of_zeros_can_be_stretched(record: AttentionRecord) -> None:
    view = kind_view(dataclasses.replace(record, cross=np.zeros_like(record.cross)), "cross", LANGUAGES)
    assert attention_map(view, 0, 0, theme.LIGHT, stretched=True).data[0].zmax == 1.0


def test_chosen_rows_and_columns_are_outlined(record: AttentionRecord) -> None:
    view = kind_view(record, "cross", LANGUAGES)
    figure = attention_map(view, 0, 0, theme.LIGHT, rows=[2, 0, 2], columns=[7])
    edges = [(shape.x0, shape.x1, shape.y0, shape.y1) for shape in figure.layout.shapes]
    assert edges == [(-0.5, 7.5, -0.5, 0.5), (-0.5, 7.5, 1.5, 2.5), (6.5, 7.5, -0.5, 4.5)]
    assert {shape.line.color for shape in figure.layout.shapes} == {theme.LIGHT.text}
    assert figure.layout.yaxis.ticktext[2] == "<b>&lt;b&gt;</b>"
    assert figure.layout.xaxis.ticktext[7] == "<b>&lt;EOS&gt;</b>"
    assert not attention_map(view, 0, 0, theme.LIGHT).layout.shapes


@pytest.mark.parametrize("wrong", [{"rows": [5]}, {"columns": [8]}, {"rows": [-1]}])
def test_a_row_that_is_not_there_is_refused(record: AttentionRecord, wrong: dict[str, list[int]]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        attention_map(kind_view(record, "cross", LANGUAGES), 0, 0, theme.LIGHT, **wrong)


def test_norms_are_named_on_the_bar(record: AttentionRecord) -> None:
    view = dataclasses.replace(kind_view(record, "cross", LANGUAGES), quantity="norms")
    trace = attention_map(view, 0, 0, theme.LIGHT).data[0]
    assert trace.colorbar.title.text == "share of weight × norm"
    assert attention_map(view, 0, 0, theme.LIGHT, stretched=True).data[0].colorbar.title.text.startswith("share of w")


def test_right_to_left_keys_run_from_right_to_left_and_rows_stay(record: AttentionRecord) -> None:
    view = kind_view(record, "cross", LANGUAGES)
    turned = dataclasses.replace(view, columns=dataclasses.replace(view.columns, right_to_left=True))
    figure = attention_map(turned, 0, 0, theme.LIGHT)
    assert figure.layout.xaxis.range == (7.5, -0.5)
    assert list(figure.layout.xaxis.ticktext) == SOURCE_TICKS  # each label moves with its column
    assert figure.layout.yaxis.side in (None, "left")
    np.testing.assert_array_equal(figure.data[0].z, record.cross[0, 0])


def test_what_lay_on_hidden_keys_stands_at_the_right(record: AttentionRecord) -> None:
    removed = np.linspace(0.0, 1.0, 2 * 4 * 5, dtype=np.float32).reshape(2, 4, 5)
    view = dataclasses.replace(kind_view(record, "cross", LANGUAGES), removed=removed)
    figure = attention_map(view, 1, 2, theme.LIGHT)
    assert list(figure.layout.yaxis2.ticktext) == [f"{share:.2f}" for share in removed[1, 2]]
    assert figure.layout.yaxis2.range == figure.layout.yaxis.range
    assert any(trace.yaxis == "y2" for trace in figure.data)  # or Plotly would not draw the axis


def test_the_longest_input_is_exact_and_plain() -> None:
    length = 256
    weights = np.random.default_rng(5).random((1, 1, length, length), dtype=np.float32)
    axis = Axis("key", ("<b>",) * length, (False,) * length)
    figure = attention_map(KindView("encoder", weights, axis, axis, ("",) * length), 0, 0, theme.LIGHT)
    (trace,) = figure.data
    np.testing.assert_array_equal(trace.z, weights[0, 0])
    assert (trace.customdata, trace.text, trace.texttemplate) == (None, None, None)
    assert len(figure.layout.xaxis.ticktext) == len(figure.layout.yaxis.ticktext) == length
    assert len(figure.to_json()) < 500_000
