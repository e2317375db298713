from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from test_plots_theme import EYES, contrast, lab, linear

from transformer.analysis.maps import Axis, KindView, kind_view
from transformer.capture.record import AttentionRecord
from transformer.errors import InputError
from transformer.plots import theme
from transformer.plots.lines import FAINT, MOST_LINES, STROKES, lines

LANGUAGES = {"source": "English", "target": "German"}


def drawn(figure: Any) -> list[tuple[float, float, float, float]]:
    """Every line of a figure with a single head as (query, key, width, opacity), read from its traces."""
    found = []
    for trace in figure.data:
        if trace.mode == "lines" and trace.x[0] is not None:
            points = np.stack([trace.x, trace.y], axis=1).reshape(-1, 3, 2)
            np.testing.assert_array_equal(points[:, :2, 0], np.tile([0.0, 1.0], (len(points), 1)))
            assert np.isnan(points[:, 2]).all()  # a gap after each line
            found += [(start, end, trace.line.width, trace.opacity) for start, end, _ in points[:, :, 1]]
    return found


def handles(figure: Any) -> list[tuple[list[Any], str]]:
    return [
        (list(place), text)
        for trace in figure.data
        if trace.mode == "markers"
        for place, text in zip(trace.customdata, trace.text, strict=True)
    ]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.2])
def test_a_line_for_each_weight_that_reaches_the_threshold(
    record: AttentionRecord, kind: str, threshold: float
) -> None:
    weights = record.attention(kind)[1, 2]
    figure = lines(kind_view(record, kind, LANGUAGES), [(1, 2)], theme.LIGHT, threshold=threshold)
    wanted = {(q, k) for q, k in np.argwhere((weights >= threshold) & (weights > 0)).tolist()}
    assert {(q, k) for q, k, _, _ in drawn(figure)} == wanted
    assert len(drawn(figure)) == len(wanted) == figure.layout.meta["lines"]
    assert figure.layout.meta["left_out"] == 0
    assert not figure.layout.annotations


def test_width_and_opacity_grow_with_the_weight(record: AttentionRecord) -> None:
    weights = np.zeros_like(record.cross)
    weights[0, 0, :4, 5] = 0.2, 0.3, 0.6, 1.0
    figure = lines(kind_view(dataclasses.replace(record, cross=weights), "cross", LANGUAGES), [(0, 0)], theme.LIGHT)
    strokes = [(width, opacity) for _, _, width, opacity in sorted(drawn(figure))]
    assert strokes == list(STROKES)
    assert strokes == sorted(strokes)


def test_one_head_has_the_colour_of_its_kind_and_several_a_colour_each(record: AttentionRecord) -> None:
    view = kind_view(record, "cross", LANGUAGES)
    one = lines(view, [(0, 1)], theme.DARK)
    assert {trace.line.color for trace in one.data if trace.mode == "lines"} == {theme.DARK.cross}
    assert not one.layout.showlegend
    several = lines(view, [(0, 1), (1, 3)], theme.DARK)
    legend = {trace.name: trace.line.color for trace in several.data if trace.name}
    assert list(legend) == ["layer 1 · head 2", "layer 2 · head 4"]
    assert len(set(legend.values())) == 2
    assert several.layout.showlegend
    for trace in several.data:
        if trace.mode == "lines":
            assert trace.line.color == legend[trace.legendgroup]


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_colours_of_heads_differ_for_every_eye_and_show_on_the_background(colours: theme.Palette) -> None:
    styles = [theme.head_style(index, colours) for index in range(32)]
    assert len(set(styles)) == 32
    first = [colour for colour, dash in styles[:8] if dash == "solid"]
    assert len(first) == 8
    assert min(contrast(colour, colours.background) for colour in first) >= 3
    for eye in EYES.values():
        seen = [lab(eye @ linear(colour)) for colour in first]
        assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) >= 20


@pytest.mark.parametrize(("side", "focus"), [("query", 1), ("key", 6)])
def test_focus_leaves_its_own_lines_strong_and_the_rest_faint(record: AttentionRecord, side: str, focus: int) -> None:
    view = kind_view(record, "cross", LANGUAGES)
    figure = lines(view, [(0, 0)], theme.LIGHT, threshold=0.0, focus=focus, side=side)
    assert len(drawn(figure)) == record.cross[0, 0].size
    for query, key, width, opacity in drawn(figure):
        assert ((width, opacity) == FAINT) == ((query if side == "query" else key) != focus)
    places = [place for place, _ in handles(figure) if len(place) > 2]
    assert {place[1 if side == "query" else 2] for place in places} == {focus}  # faint lines do not answer
    axis = figure.layout.yaxis if side == "query" else figure.layout.yaxis2
    assert [text.startswith("<b>") for text in axis.ticktext] == [i == focus for i in range(len(axis.ticktext))]


def test_hover_names_both_pieces_head_and_weight_and_clicks_name_places(record: AttentionRecord) -> None:
    figure = lines(kind_view(record, "cross", LANGUAGES), [(0, 3), (1, 0)], theme.LIGHT, threshold=0.0)
    said = [text for place, text in handles(figure) if place == ["query", 2, 3, 1, 0]]
    assert set(said) == {
        "layer 2 · head 1<br>writing '&lt;b&gt;', having just read '·e' → looks at '&lt;/s&gt;': "
        f"{record.cross[1, 0, 2, 3]:.4f}"
    }
    ends = {tuple(place): text for place, text in handles(figure) if len(place) == 2}
    assert set(ends) == {("query", i) for i in range(5)} | {("key", i) for i in range(8)}
    best = record.cross[[0, 1], [3, 0], :, 4]
    head, query = np.unravel_index(best.argmax(), best.shape)
    written = ["Hund", "·e", "&lt;b&gt;", "·e", "&lt;EOS&gt;"][query]
    start = (
        f"5. '$x_1$' is looked at by<br>'{written}' {best.max():.2f}, {['layer 1 · head 4', 'layer 2 · head 1'][head]}"
    )
    assert ends["key", 4].startswith(start)
    for trace in figure.data:
        if trace.mode == "markers":
            assert trace.hovertemplate == "%{text}<extra></extra>"  # one of its own, or a click returns nothing
            assert trace.marker.opacity == trace.selected.marker.opacity == trace.unselected.marker.opacity == 0


def test_handles_lie_on_their_lines(record: AttentionRecord) -> None:
    figure = lines(kind_view(record, "cross", LANGUAGES), [(0, 3)], theme.LIGHT, threshold=0.0)
    for trace in figure.data:
        if trace.mode == "markers":
            for x, y, place in zip(trace.x, trace.y, trace.customdata, strict=True):
                if len(place) > 2:
                    assert y == pytest.approx(place[1] + (place[2] - place[1]) * x, abs=1e-4)
                    assert 0 < x < 1


def test_pieces_are_verbatim_and_equal_ones_keep_their_places(record: AttentionRecord) -> None:
    layout = lines(kind_view(record, "cross", LANGUAGES), [(0, 0)], theme.LIGHT).layout
    assert list(layout.yaxis.ticktext) == ["Hund", "·e", "&lt;b&gt;", "·e", "&lt;EOS&gt;"]
    assert list(layout.yaxis2.ticktext) == [
        "&lt;SOS&gt;",
        "dog",
        "dog",
        "&lt;/s&gt;",
        "$x_1$",
        "2019",
        "<u>你</u>",
        "&lt;EOS&gt;",
    ]
    assert list(layout.yaxis2.tickvals) == list(range(8))
    assert layout.yaxis.range == layout.yaxis2.range == (7.5, -0.5)
    assert (layout.yaxis2.side, layout.yaxis2.title.text) == ("right", "key: English input")


def many(heads: int, length: int, label: str) -> KindView:
    axis = Axis("key", (label,) * length, (False,) * length)
    weights = np.random.default_rng(4).random((1, heads, length, length), dtype=np.float32)
    phrase = f"writing '{label}', having just read '{label}'"
    return KindView("cross", weights, axis, axis, (phrase,) * length)


def test_many_lines_stay_small_and_what_is_left_out_is_said() -> None:
    view = many(32, 30, "переводчик")
    figure = lines(view, [(0, head) for head in range(32)], theme.LIGHT, threshold=0.0)
    assert len(figure.to_json()) < 1_000_000
    total = int((view.weights > 0).sum())
    assert figure.layout.meta == {"lines": MOST_LINES, "left_out": total - MOST_LINES}
    assert f"The {MOST_LINES} strongest of {total} lines" in figure.layout.annotations[0].text
    weakest = np.sort(view.weights.ravel())[-MOST_LINES]
    for place, _ in handles(figure):
        if len(place) > 2:
            assert view.weights[0, place[4], place[1], place[2]] >= weakest


def test_the_focus_is_never_left_out() -> None:
    view = many(32, 30, "a")
    figure = lines(view, [(0, head) for head in range(32)], theme.LIGHT, threshold=0.0, focus=3)
    assert len([place for place, _ in handles(figure) if len(place) > 2]) >= int((view.weights[:, :, 3] > 0).sum())


def test_nothing_to_draw_is_said(record: AttentionRecord) -> None:
    figure = lines(kind_view(record, "cross", LANGUAGES), [(0, 0)], theme.LIGHT, threshold=1.1)
    assert figure.layout.annotations[0].text == "No weight reaches 1.1. Lower the threshold to see lines."
    assert handles(figure)[0][1] == "1. 'Hund' looks at nothing that is drawn"


def test_a_combined_map_can_be_given_its_name(record: AttentionRecord) -> None:
    figure = lines(kind_view(record, "cross", LANGUAGES), [(0, 0)], theme.LIGHT, names=["mean of 4 heads"])
    assert handles(figure)[0][1].startswith("mean of 4 heads<br>")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"heads": []}, "heads"),
        ({"side": "left"}, "side"),
        ({"focus": 5}, "focus"),
        ({"focus": 8, "side": "key"}, "focus"),
    ],
)
def test_mistakes_are_named(record: AttentionRecord, wrong: dict[str, Any], said: str) -> None:
    arguments: dict[str, Any] = {"heads": [(0, 0)], **wrong}
    with pytest.raises(InputError, match=said):
        lines(kind_view(record, "cross", LANGUAGES), colours=theme.LIGHT, **arguments)


@pytest.mark.parametrize("label", ["a", "Donaudampfschifffahrtsgesellschaft", "狗狗狗狗狗狗狗狗狗狗狗狗", "m" * 50])
def test_labels_and_the_titles_beside_them_have_room(label: str) -> None:
    axis = Axis("output, so far: a title", (label, "b"), (False, False))
    view = KindView("cross", np.full((1, 1, 2, 2), 0.5, dtype=np.float32), axis, axis, ("x", "y"))
    margin = lines(view, [(0, 0)], theme.LIGHT).layout.margin
    cells = len(label) + sum(letter == "狗" for letter in label)
    drawn = 0.6 * 12 * cells  # a monospace letter is 0.6 of its size wide
    two_lines = 8 + 2 * 17  # of a title, and what stands off
    assert margin.l == margin.r >= drawn + two_lines
