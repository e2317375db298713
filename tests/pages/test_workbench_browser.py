"""Every control of the attention page, used in a real browser: the picture changes as the numbers say it should."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pytest
import torch
from browser_app import (
    MARKS,
    cells,
    choose,
    click_at,
    eventually,
    figure,
    labels,
    only_here,
    pick,
    settled,
    wait_for_cells,
    wait_for_labels,
)
from PIL import Image

import transformer
from benchmarks.browser import chromium, serving
from transformer.analysis.maps import kind_view
from transformer.analysis.words import hidden_keys, hidden_queries, to_words
from transformer.checkpoint import save_checkpoint
from transformer.nn.model import Transformer
from transformer.plots.labels import visible
from transformer.plots.theme import DARK, LIGHT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from transformer.capture.record import AttentionRecord
    from transformer.config import ModelConfig
    from transformer.engine import Translator
    from transformer.text.tokenizer import Tokenizer

SENTENCE = "Two dogs run."
WINDOW = {"width": 1280, "height": 1000}
PICTURES = {
    "one head": ["large_map", "heads_overview"],
    "all heads": ["all_heads"],
    "lines": ["lines_picture"],
    "arithmetic": ["arithmetic"],
    "mask": ["mask", "scores_before", "scores_after"],
    "figures": [],
    "across layers": ["rollout_source", "rollout_target"],
}
"""What each view of a cross map draws."""
ODD = ("a", "dog dog dog", "2019 2020 7", "<b>dogs</b>", "</s> <EOS>", "$x_1$ *st* `code` :red[x]", "狗 & 😀")

pytestmark = MARKS


@pytest.fixture(scope="module")
def place(workplace: Path, tiny_model: Transformer, tiny_tokenizer: Tokenizer, tmp_path_factory: Any) -> Path:
    """A working directory with the tiny model, and one that has 6 encoder and 3 decoder layers."""
    folder: Path = tmp_path_factory.mktemp("workbench") / "place"
    shutil.copytree(workplace, folder)
    torch.manual_seed(8)
    config: ModelConfig = dataclasses.replace(tiny_model.config, encoder_layers=6, decoder_layers=3)
    card = json.loads((folder / "checkpoints" / "tiny" / "config.json").read_text(encoding="utf-8"))
    said = {name: card[name] for name in ("languages", "training", "data", "scores", "examples")}
    save_checkpoint(folder / "checkpoints" / "deep", Transformer(config), tiny_tokenizer, **said, dtype="float32")
    return folder


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[str]:
    """One server for all tests here: what happens on a fresh one is tested elsewhere."""
    with serving(place) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def context(browser: Browser) -> BrowserContext:
    """Tabs that share what they have loaded, but not their sessions."""
    return browser.new_context(viewport=WINDOW, accept_downloads=True)


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    with only_here(context) as tab:
        yield tab


@pytest.fixture(scope="module")
def model(place: Path) -> Translator:
    return transformer.load(place / "checkpoints" / "tiny")


@pytest.fixture(scope="module")
def record(model: Translator) -> AttentionRecord:
    """What the page shows of ``SENTENCE``."""
    return model.inspect(SENTENCE)


@pytest.fixture
def visit(page: Page, server: str) -> Callable[..., None]:
    """Go to the attention page with some choices; of ``SENTENCE`` and the tiny model, unless they say otherwise."""

    def go(**choices: object) -> None:
        chosen = {"model": "tiny", "sentence": SENTENCE, "kind": "cross", "layer": 2, "head": 1, **choices}
        page.goto(f"{server}/attention?" + "&".join(f"{name}={quote(str(value))}" for name, value in chosen.items()))
        page.get_by_text("Take it away", exact=True).wait_for()
        settled(page)

    return go


def written(record: AttentionRecord) -> list[str]:
    return [visible(piece.label) for piece in record.target_output]


def masked(record: AttentionRecord, layer: int, head: int) -> np.ndarray[Any, Any]:
    """The decoder's map as it is drawn: nothing above the diagonal."""
    return np.where(record.causal_mask, record.decoder[layer, head], np.nan)


def close(found: list[float], expected: np.ndarray[Any, Any]) -> bool:
    return len(found) == len(expected) and np.allclose(found, expected, atol=1e-5)


def wait_for_text(page: Page, text: str) -> None:
    page.get_by_text(text, exact=True).first.wait_for()


def open_choices(page: Page) -> None:
    page.get_by_role("button", name="Words, norms, hiding, several heads").click()


def click_tile(page: Page, key: str, index: int) -> None:
    """Click in the middle of one of the small maps of a picture."""
    page.wait_for_selector(f".st-key-{key} .heatmaplayer image")
    settled(page)
    tile = (figure(page, key) or {})["shapes"][index]
    click_at(page, key, (tile["x0"] + tile["x1"]) / 2, (tile["y0"] + tile["y1"]) / 2)


# The seven views


def test_the_seven_views(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit()
    count, heads = record.cross.shape[:2]
    for view, pictures in reversed(PICTURES.items()):
        choose(page, "view", view)
        for key in pictures:
            page.wait_for_selector(f".st-key-{key} .main-svg")
        settled(page)
        others = {key for keys in PICTURES.values() for key in keys} - set(pictures)
        left = lambda: [key for key in others if page.locator(f".st-key-{key}").count()]  # noqa: B023, E731
        eventually(page, lambda: left() == [], lambda: f"{left()} of another view")  # noqa: B023
        named = view != "one head"  # the usual one is left out
        eventually(page, lambda: ("view=" in page.url) == named, lambda: page.url)  # noqa: B023
        if view == "all heads":
            titles = page.locator(".st-key-all_heads .annotation-text").all_text_contents()
            assert titles == [f"layer {layer} · head {head}" for layer in (1, 2) for head in (1, 2, 3, 4)]
            assert len(titles) == count * heads
        if view == "figures":
            page.wait_for_selector(".st-key-figures_table canvas")
    wait_for_cells(page, "large_map", record.cross[1, 0])


def test_kind_layer_and_head(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit()
    wait_for_cells(page, "large_map", record.cross[1, 0])
    choose(page, "head", "3")
    wait_for_cells(page, "large_map", record.cross[1, 2])
    choose(page, "layer", "1")
    wait_for_cells(page, "large_map", record.cross[0, 2])
    choose(page, "kind", "decoder")
    wait_for_cells(page, "large_map", masked(record, 0, 2))
    choose(page, "kind", "encoder")
    wait_for_cells(page, "large_map", record.encoder[0, 2])
    choose(page, "layer", "3")
    wait_for_cells(page, "large_map", record.encoder[2, 2])
    wait_for_labels(page, "y", record.source_tokens)
    wait_for_text(page, "encoder attention · layer 3 · head 3")


def test_a_map_of_the_layer_is_chosen_by_click(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit()
    click_tile(page, "heads_overview", 2)
    wait_for_cells(page, "large_map", record.cross[1, 2])


def test_a_map_of_all_heads_is_chosen_by_click(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit(view="all heads", kind="encoder", layer=3)

    def outlined() -> list[int]:
        tiles = (figure(page, "all_heads") or {"shapes": []})["shapes"]
        return [index for index, tile in enumerate(tiles) if tile["width"] == 3]

    eventually(page, lambda: outlined() == [8], outlined)
    click_tile(page, "all_heads", 5)
    eventually(page, lambda: outlined() == [5], outlined)
    page.wait_for_url("**layer=2*")
    choose(page, "view", "one head")
    wait_for_cells(page, "large_map", record.encoder[1, 1])


def test_rows_and_columns_are_followed(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit()
    rows, columns = record.cross.shape[2:]

    def boxes() -> list[tuple[float, ...]]:
        return [(b["x0"], b["x1"], b["y0"], b["y1"]) for b in (figure(page, "large_map") or {"shapes": []})["shapes"]]

    def bars() -> list[float]:
        drawn = figure(page, "followed_rows")
        return drawn["data"][0]["y"] if drawn else []

    outlined = []
    for row in (0, 2):
        pick(page, f"follow_rows_cross_{rows}", f"{row + 1}. {written(record)[row]}")
        page.keyboard.press("Escape")
        outlined.append((-0.5, columns - 0.5, row - 0.5, row + 0.5))
        eventually(page, lambda: boxes() == outlined, boxes)
    total = record.cross[1, 0, [0, 2]].sum(axis=0)
    eventually(page, lambda: close(bars(), total), bars)
    pick(page, f"follow_columns_cross_{columns}", f"2. {record.source_tokens[1]}")
    page.keyboard.press("Escape")
    outlined.append((0.5, 1.5, -0.5, rows - 0.5))
    eventually(page, lambda: boxes() == outlined, boxes)


# The choices behind the first button


def test_words(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit()
    open_choices(page)
    choose(page, "level", "words")
    words = to_words(kind_view(record, "cross", {"source": "English", "target": "German"}), record)
    wait_for_cells(page, "large_map", words.weights[1, 0])
    wait_for_labels(page, "x", [visible(label) for label in words.columns.labels])
    assert {"Two", "dogs"} <= set(labels(page, "x"))
    wait_for_text(page, "Shown: word by word.")
    choose(page, "level", "pieces")
    wait_for_cells(page, "large_map", record.cross[1, 0])


def test_norms_and_stretched_colours(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit()
    open_choices(page)
    choose(page, "quantity", "norms")
    taken = record.cross[1, 0] * record.value_norms["cross"][1, 0]
    shares = taken / taken.sum(axis=1, keepdims=True)
    wait_for_cells(page, "large_map", shares)
    strong = {"0 to 1": 1.0, "stretched": float(shares.max())}

    def brightest() -> float:
        return float((figure(page, "large_map") or {"data": [{"zmax": 0}]})["data"][0]["zmax"])

    for scale in ("stretched", "0 to 1"):
        choose(page, "scale", scale)
        eventually(page, lambda: brightest() == pytest.approx(strong[scale]), brightest)  # noqa: B023


def test_hiding(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit()
    open_choices(page)
    for choice, punctuation in (("specials", False), ("specials and punctuation", True)):
        pick(page, "hide", choice)
        columns = ~hidden_keys(record, "cross", True, punctuation)
        rows = ~hidden_queries(record, "cross", True, punctuation)
        assert columns.sum() == len(record.source) - 2 - punctuation  # the full stop
        left = record.cross[1, 0][rows][:, columns]
        wait_for_cells(page, "large_map", left / left.sum(axis=1, keepdims=True))
        wait_for_labels(page, "x", [piece.label for piece, kept in zip(record.source, columns, strict=True) if kept])
        wait_for_labels(page, "y2", [f"{share:.2f}" for share in 1 - left.sum(axis=1)])
    pick(page, "hide", "nothing")
    wait_for_cells(page, "large_map", record.cross[1, 0])


def test_several_heads_as_one(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit()
    open_choices(page)
    expected = {
        "mean of layer": record.cross[1].mean(axis=0),
        "maximum of layer": record.cross[1].max(axis=0),
        "mean of all": record.cross.mean(axis=(0, 1)),
        "maximum of all": record.cross.max(axis=(0, 1)),
        "one head": record.cross[1, 0],
    }
    for choice, weights in expected.items():
        pick(page, "combine", choice)
        wait_for_cells(page, "large_map", weights)


# Another translation


def test_another_hypothesis(page: Page, visit: Callable[..., None], model: Translator) -> None:
    visit()
    translations = [model.inspect(SENTENCE, target_ids=one.ids) for one in model.translate(SENTENCE).hypotheses]
    assert len({tuple(written(one)) for one in translations}) == len(translations) > 1
    page.get_by_role("button", name="Another translation").click()
    for rank in (2, 1):
        pick(page, "hypothesis", str(rank))
        wait_for_labels(page, "y", written(translations[rank - 1]))
        wait_for_cells(page, "large_map", translations[rank - 1].cross[1, 0])


def test_a_target_of_ones_own(
    page: Page, visit: Callable[..., None], model: Translator, record: AttentionRecord
) -> None:
    visit()
    target = "Zwei Hunde rennen."
    forced = model.inspect(SENTENCE, target=target)
    page.get_by_role("button", name="Another translation").click()
    box = page.get_by_label("or of a target of your own")
    box.fill(target)
    box.press("Enter")
    wait_for_labels(page, "y", written(forced))
    wait_for_cells(page, "large_map", forced.cross[1, 0])
    page.get_by_text(f"your target: log-probability {forced.total_log_prob:.2f}").wait_for()
    box.fill("")
    box.press("Enter")
    wait_for_labels(page, "y", written(record))
    assert page.get_by_text("your target: log-probability").count() == 0


# Lines


def painted_lines(page: Page, strong: bool = False) -> int:
    """How many lines are painted; only those that do not stand back for others, if they must be ``strong``."""
    found: int = page.evaluate(
        """strong => [...document.querySelectorAll(".st-key-lines_picture .scatterlayer .trace")]
        .filter(trace => !strong || trace.style.opacity === "" || Number(trace.style.opacity) > 0.1)
        .flatMap(trace => [...trace.querySelectorAll("path.js-line")])
        .reduce((count, path) => count + path.getAttribute("d").split("M").length - 1, 0)""",
        strong,
    )
    return found


def test_the_threshold_of_lines(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit(view="lines")
    weights = record.cross[1, 0]
    for key, threshold in (("", 0.1), ("ArrowRight", 0.15), ("ArrowRight", 0.2), ("Home", 0.01)):
        if key:
            page.locator(".st-key-threshold input").focus()
            page.keyboard.press(key)
        expected = int((weights >= threshold).sum())
        eventually(
            page,
            lambda: painted_lines(page) == expected,  # noqa: B023
            lambda: f"{painted_lines(page)} lines from {threshold}, not {expected}",  # noqa: B023
        )
    wait_for_labels(page, "y", written(record), "lines_picture")
    wait_for_labels(page, "y2", record.source_tokens, "lines_picture")


def test_a_token_is_followed_by_picker_and_by_click(
    page: Page, visit: Callable[..., None], record: AttentionRecord
) -> None:
    visit(view="lines", head=2)
    weights = record.cross[1, 1]
    everything = int((weights >= 0.1).sum())

    def named() -> str:
        picker = page.locator(".st-key-line_focus input").first
        return picker.input_value() or picker.get_attribute("placeholder") or ""

    def followed(name: str, lines: int) -> None:
        eventually(page, lambda: painted_lines(page, strong=True) == lines, lambda: painted_lines(page, strong=True))
        eventually(page, lambda: named() == name, lambda: f"the picker says {named()}, not {name}")
        eventually(page, lambda: painted_lines(page) == everything, lambda: painted_lines(page))

    row, column = 1, int(weights.mean(axis=0).argmax())
    names = f"query {row + 1}. {written(record)[row]}", f"key {column + 1}. {record.source_tokens[column]}"
    of_row, of_column = int((weights[row] >= 0.1).sum()), int((weights[:, column] >= 0.1).sum())
    followed("all", everything)
    pick(page, "line_focus", names[0])
    followed(names[0], of_row)
    click_at(page, "lines_picture", 1.0, column)
    followed(names[1], of_column)
    click_at(page, "lines_picture", 0.0, row)
    followed(names[0], of_row)
    click_at(page, "lines_picture", 0.0, row)  # once more, and it is let go
    followed("all", everything)


def test_lines_of_several_heads(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit(view="lines")
    pick(page, "beside_cross_2_4", "layer 1 · head 3")
    page.keyboard.press("Escape")
    expected = int((record.cross[1, 0] >= 0.1).sum() + (record.cross[0, 2] >= 0.1).sum())
    eventually(page, lambda: painted_lines(page) == expected, lambda: f"{painted_lines(page)}, not {expected}")
    named = page.locator(".st-key-lines_picture .legendtext").all_text_contents()
    assert named == ["layer 2 · head 1", "layer 1 · head 3"]


# Arithmetic, mask, figures, layers


def test_the_arithmetic_of_a_query(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit(view="arithmetic")
    maps = kind_view(record, "cross", {"source": "English", "target": "German"})
    rows = len(maps.rows.labels)

    def weights() -> list[float]:
        drawn = figure(page, "arithmetic")
        return drawn["data"][-2]["x"] if drawn else []

    for row in (0, 2):
        if row:
            pick(page, f"query_cross_{rows}", f"{row + 1}. {maps.phrases[row]}")
        eventually(page, lambda: close(weights(), record.cross[1, 0, row]), weights)  # noqa: B023
    settled(page)
    last = page.locator("table.figures").first.locator("tbody td:last-child").all_text_contents()[1:]  # after q itself
    np.testing.assert_allclose([float(number) for number in last], record.cross[1, 0, 2], atol=1e-4)
    wait_for_labels(page, "y", record.source_tokens, "arithmetic")


def test_the_mask(page: Page, visit: Callable[..., None], model: Translator, record: AttentionRecord) -> None:
    visit(view="mask", kind="decoder", head=2)
    scores = model.attention_scores(SENTENCE, [piece.id for piece in record.target_output], "decoder", 1)[1]
    length = len(scores)
    wait_for_cells(page, "mask", np.tril(np.ones((length, length))))
    wait_for_cells(page, "scores_before", scores)
    wait_for_cells(page, "scores_after", np.where(np.tril(np.ones((length, length))) > 0, scores, np.nan))
    choose(page, "kind", "encoder")
    wait_for_cells(page, "mask", np.ones(record.encoder.shape[2:]))


@pytest.mark.parametrize("ordered", [False, True], ids=["as it comes", "sorted"])
def test_a_row_of_figures_opens_its_head(
    ordered: bool, page: Page, visit: Callable[..., None], record: AttentionRecord
) -> None:
    visit(view="figures")
    table = page.locator(".st-key-figures_table canvas").first
    table.wait_for()
    page.wait_for_timeout(500)  # for its drawing
    box = table.bounding_box()
    assert box
    row, kind, layer, head, maps = 6, "encoder", 2, 3, record.encoder
    if ordered:  # by kind: cross comes first
        page.mouse.click(box["x"] + 70, box["y"] + 17)
        page.wait_for_timeout(500)
        row, kind, layer, head, maps = 1, "cross", 1, 2, record.cross
    page.mouse.click(box["x"] + 15, box["y"] + 35 * (row + 1) + 17)
    wait_for_text(page, f"{kind} attention · layer {layer} · head {head}")
    wait_for_cells(page, "large_map", maps[layer - 1, head - 1])


def test_layers_come_together(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit(view="across layers", kind="encoder", layer=1)
    same = np.eye(len(record.source))
    steps = {}
    for name, kept in (("measured", record.kept_shares["encoder"]), ("one half", np.full((3, len(same)), 0.5))):
        stays = kept[:2, :, None]
        steps[name] = stays * same + (1 - stays) * record.encoder[:2].mean(axis=1)
    wait_for_cells(page, "rollout_encoder", steps["measured"][0])
    choose(page, "layer", "2")
    wait_for_cells(page, "rollout_encoder", steps["measured"][1] @ steps["measured"][0])
    choose(page, "residual", "one half")
    wait_for_cells(page, "rollout_encoder", steps["one half"][1] @ steps["one half"][0])
    choose(page, "kind", "cross")
    page.wait_for_selector(".st-key-rollout_target .heatmaplayer image")
    both = np.nansum(cells(page, "rollout_source"), axis=1) + np.nansum(cells(page, "rollout_target"), axis=1)
    np.testing.assert_allclose(both, 1.0, atol=1e-5)
    wait_for_labels(page, "x", record.source_tokens, "rollout_source")
    wait_for_labels(page, "x", record.target_tokens, "rollout_target")


# Take it away


def test_pictures_are_saved_as_png_and_svg(page: Page, visit: Callable[..., None], record: AttentionRecord) -> None:
    visit()

    def saved(ending: str) -> bytes:
        page.locator(".st-key-large_map .main-svg").first.hover()
        with page.expect_download() as download:
            page.locator(".st-key-large_map .modebar-btn").click()
        assert download.value.suggested_filename == f"tiny-cross-attention-layer-2-head-1.{ending}"
        return Path(download.value.path()).read_bytes()

    picture = saved("png")
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert min(Image.open(io.BytesIO(picture)).size) > 400
    page.get_by_text("Take it away", exact=True).click()
    choose(page, "picture_format", "svg")
    settled(page)
    drawing = saved("svg").decode("utf-8")
    assert drawing.startswith("<svg")
    for piece in record.source:
        assert piece.special or piece.label in drawing


def test_records_are_taken_away(
    page: Page, context: BrowserContext, visit: Callable[..., None], record: AttentionRecord, tmp_path: Path
) -> None:
    visit()
    page.get_by_text("Take it away", exact=True).click()

    def taken(button: str) -> Path:
        with page.expect_download() as download:
            page.get_by_role("button", name=button, exact=True).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    with np.load(taken("NPZ"), allow_pickle=False) as arrays:
        np.testing.assert_allclose(arrays["cross"], record.cross, atol=1e-6)
        assert arrays["source_tokens"].tolist() == record.source_tokens
    plain = json.loads(taken("JSON").read_text(encoding="utf-8"))
    np.testing.assert_allclose(plain["decoder"], record.decoder, atol=1e-6)
    path = taken("BertViz")
    assert path.name.endswith(".bertviz.npz")
    with np.load(path, allow_pickle=False) as arrays:
        np.testing.assert_allclose(arrays["encoder_attention"], record.encoder[:, None], atol=1e-6)
    file = taken("HTML, opens offline")
    with only_here(context) as tab:
        tab.goto(file.as_uri())
        tab.wait_for_selector("#map .heatmaplayer image")
        ticks = tab.locator("#map .xtick text").all_text_contents()
        assert ticks == record.source_tokens
        assert SENTENCE in (tab.locator("h1").text_content() or "")


# Windows, themes, sentences, models


def test_a_narrow_window(browser: Browser, server: str, model: Translator) -> None:
    sentence = "A man is standing on a ladder."
    long = model.inspect(sentence)
    with only_here(browser, viewport={"width": 400, "height": 800}) as page:
        page.goto(f"{server}/attention?model=tiny&sentence={quote(sentence)}&kind=encoder&layer=1")
        wait_for_cells(page, "large_map", long.encoder[0, 0])
        choose(page, "head", "2")
        wait_for_cells(page, "large_map", long.encoder[0, 1])
        for view in PICTURES:
            choose(page, "view", view)
            settled(page)
            page.wait_for_timeout(200)
            wide = page.evaluate("(m => [m.scrollWidth, m.clientWidth])(document.querySelector('.stMain'))")
            assert wide[0] <= wide[1], f"{view} makes the page {wide[0]} pixels wide"
        choose(page, "view", "all heads")
        page.wait_for_selector(".st-key-all_heads .heatmaplayer image")
        frame = page.evaluate(
            "(f => [f.scrollWidth, f.clientWidth])(document.querySelector('.st-key-scroll_all_heads'))"
        )
        assert frame[0] > frame[1]  # the picture scrolls inside its frame


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_light_and_dark(browser: Browser, server: str, colours: Any) -> None:
    options = {"viewport": WINDOW, "color_scheme": colours.name}
    with only_here(browser, **options) as page:
        page.goto(f"{server}/attention?model=tiny&sentence={quote(SENTENCE)}&view=all heads")
        page.wait_for_selector(".st-key-all_heads .heatmaplayer image")
        settled(page)
        assert (figure(page, "all_heads") or {})["paper"].lower() == colours.background.lower()
        red, green, blue = (int(colours.background[place : place + 2], 16) for place in (1, 3, 5))
        shade = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
        assert shade == f"rgb({red}, {green}, {blue})"


def test_odd_sentences_stand_verbatim(page: Page, visit: Callable[..., None], model: Translator) -> None:
    visit()
    box = page.get_by_label("Sentence", exact=True)
    for sentence in ODD:
        record = model.inspect(sentence)
        source = [visible(piece.label) for piece in record.source]
        box.fill(sentence)
        box.press("Enter")
        wait_for_cells(page, "large_map", record.cross[1, 0])
        wait_for_labels(page, "x", source)
        wait_for_labels(page, "y", written(record))
        choose(page, "view", "lines")
        wait_for_labels(page, "y", written(record), "lines_picture")
        wait_for_labels(page, "y2", source, "lines_picture")
        choose(page, "kind", "encoder")
        wait_for_labels(page, "y", source, "lines_picture")
        choose(page, "view", "one head")
        wait_for_cells(page, "large_map", record.encoder[1, 0])
        wait_for_labels(page, "y", source)
        choose(page, "kind", "cross")


def test_six_encoder_and_three_decoder_layers(page: Page, visit: Callable[..., None], place: Path) -> None:
    record = transformer.load(place / "checkpoints" / "deep").inspect(SENTENCE)
    assert (len(record.encoder), len(record.decoder), len(record.cross)) == (6, 3, 3)
    visit(model="deep", kind="encoder", layer=6, head=4)
    wait_for_cells(page, "large_map", record.encoder[5, 3])
    choose(page, "kind", "cross")  # which has no sixth layer
    wait_for_cells(page, "large_map", record.cross[2, 3])
    settled(page)
    assert page.locator(".notice-warning, .notice-error").all_text_contents() == []
    choose(page, "view", "all heads")
    page.wait_for_selector(".st-key-all_heads .heatmaplayer image")
    titles = page.locator(".st-key-all_heads .annotation-text")
    eventually(page, lambda: titles.count() == 12, titles.count)
    choose(page, "kind", "encoder")
    eventually(page, lambda: titles.count() == 24, titles.count)
    for view in ("lines", "arithmetic", "mask", "figures", "across layers"):
        choose(page, "view", view)
        for kind in ("cross", "encoder"):
            choose(page, "kind", kind)
            settled(page)
            assert page.locator(".stException").count() == 0
            assert page.locator(".notice-warning, .notice-error").all_text_contents() == []
