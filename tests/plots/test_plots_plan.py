from __future__ import annotations

import dataclasses

import pytest

from transformer.errors import InputError
from transformer.plots import theme
from transformer.plots.plan import DECODER, ENCODER, MOST_LAYERS, Plan, assembly_plan, drawn_layers

PLAN = Plan(
    encoder_layers=3,
    decoder_layers=2,
    source=7,
    target=5,
    width=32,
    vocabulary=1234,
    heads=4,
    feed_forward=64,
    languages=("English", "<Nowhere>"),
)


def texts(figure) -> list[str]:
    return [note.text for note in figure.layout.annotations if note.text]


def boxes(figure, sides: tuple[float, float]) -> list:
    return [s for s in figure.layout.shapes if s.type == "rect" and (s.x0, s.x1) == sides]


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("chosen", ["encoder", "decoder", "cross"])
def test_every_part_is_drawn_with_its_numbers(chosen: str, colours: theme.Palette) -> None:
    figure = assembly_plan(PLAN, chosen, colours)
    said = texts(figure)
    assert said.count("self-attention · 4 heads") == 3
    assert said.count("masked self-attention · 4 heads") == said.count("cross-attention · 4 heads") == 2
    assert said.count("feed-forward · 64") == 5
    assert said.count("K, V") == 2
    for text in ("embedding and position: 7 × 32", "embedding and position: 5 × 32"):
        assert said.count(text) == 1
    assert "<b>encoder output 7 × 32</b>" in said
    assert "linear and softmax: 5 × 1,234" in said
    assert "5 pieces of the &lt;Nowhere&gt; output, shifted right" in said
    assert len(boxes(figure, ENCODER)) == 1 + 2 * 3 + 1
    assert len(boxes(figure, DECODER)) == 1 + 3 * 2 + 1
    full = [box for box in figure.layout.shapes if box.fillcolor == theme.kind_colour(chosen, colours)]
    assert len(full) == {"encoder": 3 + 1, "decoder": 2, "cross": 2}[chosen]  # and the encoder's output is always full


def test_an_arrow_leads_into_every_cross_attention() -> None:
    figure = assembly_plan(PLAN, "cross", theme.LIGHT)
    arrows = [note for note in figure.layout.annotations if note.showarrow and note.x == DECODER[0]]
    crossings = [(box.y0 + box.y1) / 2 for box in boxes(figure, DECODER) if box.fillcolor == theme.LIGHT.cross]
    assert sorted(arrow.y for arrow in arrows) == sorted(crossings)
    low, high = figure.layout.yaxis.range
    assert all(low <= shape.y0 and shape.y1 <= high for shape in figure.layout.shapes)


def test_boxes_say_what_they_read() -> None:
    figure = assembly_plan(PLAN, "cross", theme.LIGHT)
    said = set(figure.data[0].customdata)
    assert any("decoder layer 2: queries from the decoder, keys and values from the encoder" in one for one in said)
    assert any("encoder layer 3: queries, keys and values all come from this layer's input" in one for one in said)


def test_of_many_layers_a_few_are_drawn() -> None:
    assert drawn_layers(MOST_LAYERS) == list(range(MOST_LAYERS))
    assert drawn_layers(12) == [0, 1, 2, None, 10, 11]
    said = texts(assembly_plan(dataclasses.replace(PLAN, decoder_layers=12), "cross", theme.LIGHT))
    assert "… 7 more layers like these …" in said
    assert said.count("layer 12") == 1
    assert said.count("cross-attention · 4 heads") == 5


def test_another_part_is_refused() -> None:
    with pytest.raises(InputError, match="part must be one of"):
        assembly_plan(PLAN, "feed_forward", theme.LIGHT)
