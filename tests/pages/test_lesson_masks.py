"""The page /masks: it starts with any sentence and model, and its numbers are those of the library."""

from __future__ import annotations

import dataclasses
import html
import json
import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from pages_app import array, bodies, charts, notices, start
from streamlit.testing.v1 import AppTest

import transformer
from transformer.engine import Translator
from transformer.lessons import causality, crossing, padding
from transformer.plots.labels import percent
from transformer.webapp import resources
from transformer.webapp.lessons import masks

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lessons"))
from between_models import normalising_first  # noqa: E402

PLAIN = "Two dogs run through the snow."
SENTENCES = {
    "plain": PLAIN,
    "one token": "a",
    "markup": "<b>dogs</b> $x_1$ *st* `code` :red[x] </s>",
    "right to left and emoji": "مرحبا 😀",
    "long": "dog " * 20,
}
SHIPPED = [path.parent.name for path in sorted(ROOT.glob("checkpoints/*/config.json"))][:1]
CHARTS = 14

pytestmark = pytest.mark.usefixtures("in_workplace")


def page(**parameters: str) -> AppTest:
    app = start("masks", **parameters)
    assert not app.exception
    return app


@pytest.fixture
def tiny(workplace: Path) -> Translator:
    return transformer.load(workplace / "checkpoints" / "tiny")


@pytest.mark.parametrize("model", ["tiny", *SHIPPED])
@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_it_starts_with_any_sentence(model: str, sentence: str) -> None:
    app = page(sentence=sentence, model=model)
    shown = "".join(bodies(app))
    assert len(charts(app)) == CHARTS
    assert "<script" not in shown
    assert "✗" not in shown
    assert shown.count('<b class="good">✓') == 6
    assert shown.count("checks of these numbers hold") == 2
    assert [heading.value for heading in app.subheader] == [
        "Which part of the model reads what?",
        "What may it see while it writes a word?",
        "What happens without the causal mask?",
        "How do sentences of different lengths share a batch?",
        "What happens without the padding mask?",
        "How does a word of the output ask the input?",
    ]


def test_a_model_that_normalises_first(in_workplace: Path, tiny_tokenizer) -> None:
    folder = in_workplace / "checkpoints" / "first"
    try:
        normalising_first(tiny_tokenizer, folder)
        app = page(sentence=PLAIN, model="first")
    finally:
        shutil.rmtree(folder)
    assert len(charts(app)) == CHARTS
    assert "✗" not in "".join(bodies(app))


def test_a_target_of_one_piece_has_nothing_to_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = resources.translation

    def ends_at_once(translator, text, search):
        found = usual(translator, text, search)
        best = found.hypotheses[0]
        short = dataclasses.replace(best, ids=(3,), pieces=translator.tokenizer.target_pieces((3,)), log_probs=(-1.0,))
        return dataclasses.replace(found, hypotheses=(short,))

    monkeypatch.setattr(resources, "translation", ends_at_once)
    app = page(sentence=PLAIN)
    assert len(charts(app)) == CHARTS - 2
    assert "there is no piece to replace" in "".join(bodies(app))
    assert "nothing: there is one cell" in "".join(bodies(app))


def test_pictures_show_the_library_s_numbers(tiny: Translator) -> None:
    app = page(sentence=PLAIN)
    ids = tiny.translate(PLAIN).ids
    record = tiny.inspect(PLAIN, target_ids=ids)
    shown = "".join(bodies(app))
    row = len(ids) // 2

    scores = tiny.attention_scores(PLAIN, ids, "decoder", 1)
    heads = [causality.causal_head(scores[head], record.decoder[1, head], record.causal_mask) for head in range(4)]
    most = int(np.argmax([head.future.mean() for head in heads]))
    before, after, masked, opened, _ = _chart(app, "masks_row")["data"]
    np.testing.assert_allclose(_numbers(before["x"]), scores[most, row], rtol=1e-5)
    np.testing.assert_allclose(_numbers(after["x"]).astype(float)[: row + 1], scores[most, row, : row + 1], rtol=1e-5)
    np.testing.assert_allclose(_numbers(masked["x"]), record.decoder[1, most, row], atol=1e-5)
    np.testing.assert_allclose(_numbers(opened["x"]), heads[most].open_weights[row], atol=1e-6)
    assert f"would put {percent(float(heads[most].future[row]))} of the weight" in shown

    influence = causality.influence(tiny, PLAIN, ids)
    count = influence.masked.shape[0]
    on, off = (_numbers(_chart(app, f"masks_influence_{key}")["data"][0]["z"]) for key in ("on", "off"))
    np.testing.assert_allclose(np.nan_to_num(on.astype(float)), influence.masked, atol=1e-6)
    np.testing.assert_allclose(off, influence.unmasked, atol=1e-6)
    cells = count * (count - 1) // 2
    assert f"In the {cells} cells" in shown
    assert f"{cells} of these {cells} predictions move" in shown

    unmasked = causality.without_mask(tiny, PLAIN, ids)
    usual, changed = (_numbers(trace["y"]) for trace in _chart(app, "masks_leak")["data"])
    np.testing.assert_allclose(usual, np.exp(record.log_probs), rtol=1e-3)
    np.testing.assert_allclose(changed, np.exp(unmasked.changed.changed_log_probs), rtol=1e-3)
    assert html.escape(unmasked.free_text) in shown

    off = padding.without_padding_mask(tiny, PLAIN, ids, 8)
    encoder, cross = _chart(app, "masks_off_shares")["data"]
    np.testing.assert_allclose(_numbers(encoder["z"]), off.encoder_shares, atol=1e-6)
    np.testing.assert_allclose(_numbers(cross["z"]), off.cross_shares, atol=1e-6)
    layer, head = np.unravel_index(off.encoder_shares.argmax(), off.encoder_shares.shape)
    drawn = _numbers(_chart(app, "masks_off_off")["data"][0]["z"])
    np.testing.assert_allclose(drawn, off.encoder_maps[layer, head], atol=1e-6)
    hidden = _numbers(_chart(app, "masks_off_on")["data"][0]["z"]).astype(float)
    assert np.isnan(hidden[:, -8:]).all()
    np.testing.assert_allclose(hidden[:, :-8], record.encoder[layer, head], atol=1e-5)
    alone, sighted = (_numbers(trace["y"]) for trace in _chart(app, "masks_off_bars")["data"])
    np.testing.assert_allclose(alone, np.exp(record.log_probs), rtol=1e-3)
    np.testing.assert_allclose(sighted, np.exp(off.changed_log_probs), rtol=1e-3)

    words = record.cross[-1, :, row, 1:-1]
    head = int(words.max(axis=-1).argmax())
    numbers = tiny.arithmetic(PLAIN, ids, "cross", 1, head, row)
    np.testing.assert_allclose(_numbers(_chart(app, "masks_retrieval")["data"][1]["x"]), numbers.weights, atol=1e-6)
    np.testing.assert_allclose(
        _numbers(_chart(app, "masks_heads")["data"][0]["z"]), record.cross[-1, :, row], atol=1e-6
    )
    found = crossing.crossing(tiny, PLAIN, ids, 1, head)
    assert f"= {found.multiplications:,} multiplications, once" in shown
    assert f"{len(ids) * found.multiplications:,}" in shown
    assert "all of them read one and the same table" in shown


def test_the_table_of_shapes(tiny: Translator) -> None:
    app = page(sentence=PLAIN)
    source, target = len(tiny.tokenizer.encode(PLAIN)), len(tiny.translate(PLAIN).ids)
    shown = "".join(bodies(app)).replace(' class="number"', "").replace(' dir="auto"', "")
    rows = {
        "encoder self-attention": (3, source, source, source),
        "masked self-attention of the decoder": (2, target, target, target),
        "cross-attention": (2, target, source, source),
    }
    for name, (layers, queries, keys, columns) in rows.items():
        line = shown.split(f"<td>{name}</td>")[1].split("</tr>")[0]
        assert line.startswith(f"<td>{layers}</td>")
        assert f"<td>4 × {queries} × 8</td><td>4 × {keys} × 8</td><td>4 × {queries} × {columns}</td>" in line
    assert f"<td>{target * (target - 1) // 2:,} of {target**2:,} cells</td>" in shown
    app.button_group(key="masks_part").set_value("encoder self-attention").run()
    assert not app.exception


def test_choosing_another_row_and_head(tiny: Translator) -> None:
    app = page(sentence=PLAIN)
    ids = tiny.translate(PLAIN).ids
    app.selectbox(key="masks_causal_row").set_value(0)
    app.selectbox(key="masks_causal_layer").set_value(1)
    app.selectbox(key="masks_causal_head").set_value(3).run()
    assert not app.exception
    scores = tiny.attention_scores(PLAIN, ids, "decoder", 0)[2, 0]
    before, _, masked, *_ = _chart(app, "masks_row")["data"]
    np.testing.assert_allclose(_numbers(before["x"]), scores, rtol=1e-5)
    np.testing.assert_allclose(_numbers(masked["x"]), [1.0] + [0.0] * (len(ids) - 1))
    assert "it may see 1 piece, and not" in "".join(bodies(app))
    assert "kind=decoder&amp;view=mask&amp;layer=1&amp;head=3" in "".join(bodies(app))
    app.selectbox(key="masks_causal_row").set_value(len(ids) - 1).run()
    assert "This is the last position" in "".join(bodies(app))
    app.text_input(key="sentence").input("a").run()  # fewer positions than were chosen from
    assert not app.exception


def test_one_layer_without_the_mask(tiny: Translator) -> None:
    app = page(sentence=PLAIN)
    app.selectbox(key="masks_leak_layer").set_value(2).run()
    found = causality.without_mask(tiny, PLAIN, tiny.translate(PLAIN).ids, 1)
    _, changed = (_numbers(trace["y"]) for trace in _chart(app, "masks_leak")["data"])
    np.testing.assert_allclose(changed, np.exp(found.changed.changed_log_probs), rtol=1e-3)


def test_a_batch_that_is_typed(tiny: Translator) -> None:
    app = page(sentence="Two dogs.")
    assert app.text_area(key="masks_batch").value.splitlines()[0] == "Two dogs."
    assert len(app.text_area(key="masks_batch").value.splitlines()) == 3  # the sentence and both examples
    app.text_input(key="sentence").input("A cat.").run()
    assert app.text_area(key="masks_batch").value.splitlines()[0] == "A cat."  # nothing was typed: it follows
    lines = ["a", "<b>dogs</b> run", "Two dogs run through the snow.", "", "dog " * 90]
    app.text_area(key="masks_batch").input("\n".join(lines)).run()
    assert not app.exception
    assert [said for said in notices(app) if said.startswith("1 of 4 lines are left out")]
    lengths = [len(tiny.tokenizer.encode(line)) for line in lines[:3]]
    app.button_group(key="masks_size").set_value(2)
    app.button_group(key="masks_way").set_value("batches by length").run()
    made = padding.padded_to_longest(lengths, 2, by_length=True)
    drawn = _numbers(_chart(app, "masks_padding")["data"][0]["z"]).astype(float)
    assert np.nansum(drawn) == sum(lengths)
    assert (drawn == 0.0).sum() == made.positions - sum(lengths)
    positions, scores = (_numbers(trace["x"]) for trace in _chart(app, "masks_waste")["data"])
    ways = [
        padding.padded_to(lengths, 64),
        padding.padded_to_longest(lengths),
        padding.padded_to_longest(lengths, 2),
        made,
    ]
    np.testing.assert_allclose(positions, [100 * way.wasted_positions for way in ways])
    np.testing.assert_allclose(scores, [100 * way.wasted_scores for way in ways])
    ids = "".join(bodies(app)).split("Batch 1:")[1].split("</table>")[0]
    assert ids.count("&lt;PAD&gt;") == made.widths[0] * 2 - sum(lengths[index] for index in made.batches[0])
    app.text_input(key="sentence").input("Two dogs.").run()
    assert app.text_area(key="masks_batch").value.splitlines()[0] == "a"  # what was typed stays
    app.text_area(key="masks_batch").input("   ").run()
    assert not app.exception
    assert [said for said in notices(app) if said.startswith("No line holds a sentence")]


def test_padding_in_one_place_only(tiny: Translator) -> None:
    app = page(sentence=PLAIN)
    app.selectbox(key="masks_off_columns").set_value(2)
    app.selectbox(key="masks_off_place").set_value("cross-attention").run()
    found = padding.without_padding_mask(tiny, PLAIN, tiny.translate(PLAIN).ids, 2, "cross-attention")
    encoder, cross = _chart(app, "masks_off_shares")["data"]
    assert not _numbers(encoder["z"]).any()
    np.testing.assert_allclose(_numbers(cross["z"]), found.cross_shares, atol=1e-6)
    app.button_group(key="masks_off_kind").set_value("cross").run()
    assert not app.exception
    assert _numbers(_chart(app, "masks_off_off")["data"][0]["z"]).shape == found.cross_maps.shape[2:]


def test_a_sentence_that_fills_the_model_has_no_room_for_padding(tiny: Translator) -> None:
    text = "a"
    while len(tiny.tokenizer.encode(f"{text} a")) <= 64:
        text += " a"
    assert len(tiny.tokenizer.encode(text)) == 64
    app = page(sentence=text)
    assert [said for said in notices(app) if "there is no room for padding" in said]


def _chart(app: AppTest, key: str) -> dict:
    """The picture with a key; its id ends with it."""
    (found,) = [chart for chart in app.get("plotly_chart") if chart.proto.id.endswith(f"-{key}")]
    return json.loads(found.proto.spec)


def _numbers(value: object) -> np.ndarray:
    if isinstance(value, dict):  # one axis has no shape
        return array({"shape": "-1", **value})
    return np.array(value)


def test_a_long_sentence_is_cut_and_the_page_says_it() -> None:
    app = page(sentence="dog " * 15, model="tiny")
    shown = "".join(bodies(app))
    assert "✗" not in shown
    found = transformer.load(Path("checkpoints/tiny")).translate("dog " * 15)
    steps = len(found.ids)
    assert steps > 40  # otherwise nothing is cut
    assert f"takes {steps} steps; its first 40 were taken here" in shown
    assert "greedy translations are compared over their first 40 pieces at most" in shown


def test_the_sections_that_compute_longest_come_last() -> None:
    assert set(masks.SLOW) < set(masks.SECTIONS)
    drawn: list[object] = []

    class Noting:
        def live(self, draw: partial[None]) -> None:
            drawn.append(draw.func)

    masks.show(Noting())  # type: ignore[arg-type]
    assert tuple(drawn[-2:]) == masks.SLOW
    assert set(drawn) == set(masks.SECTIONS)
