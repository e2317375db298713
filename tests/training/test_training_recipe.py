"""Recipes: what is read, what is refused, and in which words."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from transformer.errors import ConfigError
from transformer.training.recipe import Recipe, load_recipe, names, recipe_from, save_recipe

OWN = {"source": "a.en", "target": "a.de"}


def made(**sections: dict[str, Any]) -> Recipe:
    return recipe_from({"data": OWN, **sections})


@pytest.mark.parametrize("name", names())
def test_every_recipe_that_comes_with_the_package_is_valid(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.checkpoint.examples
    assert recipe.checkpoint.terms
    assert recipe.model_config(recipe.tokenizer.vocab_size).vocab_size == recipe.tokenizer.vocab_size


def test_the_known_recipes_are_there() -> None:
    assert {"reverse", "multi30k-en-de"} <= set(names())


def test_values_are_taken_and_the_rest_is_default() -> None:
    recipe = made(
        training={"epochs": 3, "learning_rate": 1},
        checkpoint={"examples": ["One.", "Two."], "length_penalties": [1, 1.4]},
    )
    assert recipe.training.epochs == 3
    assert [(value, type(value)) for value in recipe.checkpoint.length_penalties] == [(1.0, float), (1.4, float)]
    assert recipe.training.learning_rate == 1.0
    assert isinstance(recipe.training.learning_rate, float)
    assert recipe.checkpoint.examples == ("One.", "Two.")
    assert (recipe.training.beta1, recipe.training.beta2, recipe.training.epsilon) == (0.9, 0.98, 1e-9)
    assert recipe.training.label_smoothing == 0.1


def test_the_model_section_changes_the_preset() -> None:
    config = made(model={"preset": "base", "dropout": 0.2, "norm_first": True}).model_config(1000)
    assert (config.d_model, config.dropout, config.norm_first, config.vocab_size) == (512, 0.2, True, 1000)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"training": {"epoch": 3}}, "did you mean epochs"),
        ({"training": {"warmup": 3}}, "did you mean warmup_steps"),
        ({"data": {**OWN, "max_peices": 3}}, "did you mean max_pieces"),
        ({"model": {"d_modell": 3}}, "did you mean d_model"),
        ({"model": {"vocab_size": 300}}, "no key of .model. called 'vocab_size'"),
        ({"trainings": {"epochs": 3}}, "did you mean training"),
        ({"optimiser": {"x": 3}}, "known are data, tokenizer, training, checkpoint, model"),
        ({"training": 3}, "must be a table of values"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_from({"data": OWN, **sections})


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("training", "epochs", "3", "must be a whole number"),
        ("training", "epochs", 3.0, "must be a whole number"),
        ("training", "epochs", True, "must be a whole number"),
        ("training", "learning_rate", "fast", "must be a number"),
        ("training", "learning_rate", True, "must be a number"),
        ("training", "select", 1, "must be text"),
        ("checkpoint", "default", 1, "must be true or false"),
        ("checkpoint", "examples", "One.", "must be a list of texts"),
        ("checkpoint", "examples", ["One.", 2], "must be a list of texts"),
        ("checkpoint", "length_penalties", 0.6, "must be a list of numbers"),
        ("checkpoint", "length_penalties", [0.6, "1"], "must be a list of numbers"),
        ("checkpoint", "length_penalties", [0.6, True], "must be a list of numbers"),
        ("checkpoint", "length_penalties", [], "one number or several, from 0 to 10"),
        ("checkpoint", "length_penalties", [0.6, -1], "one number or several, from 0 to 10"),
        ("checkpoint", "length_penalties", [math.nan], "one number or several, from 0 to 10"),
        ("training", "epochs", 0, "at least 1"),
        ("training", "average", 0, "at least 1"),
        ("training", "seed", -1, "at least 0"),
        ("training", "save_minutes", -0.5, "at least 0"),
        ("training", "clip_norm", -1.0, "at least 0"),
        ("training", "learning_rate", 2.0, "from 0.0 to 1.0"),
        ("training", "learning_rate", float("nan"), "from 0.0 to 1.0"),
        ("training", "save_minutes", float("nan"), "at least 0"),
        ("training", "label_smoothing", 1.0, "from 0.0 to 0.99"),
        ("training", "stop_at", 101, "from 0.0 to 100.0"),
        ("training", "precision", "float16", "one of auto, float32, bfloat16"),
        ("training", "device", "tpu", "one of auto, cpu, cuda"),
        ("training", "select", "chrf", "one of bleu, exact, loss"),
        ("checkpoint", "dtype", "int8", "one of float16, bfloat16, float32"),
        ("model", "preset", "huge", "one of tiny, small, base, big"),
        ("model", "heads", 3, "heads must divide d_model = 128"),
        ("model", "dropout", "0.1", "dropout must be at least 0 and below 1"),
        ("tokenizer", "vocab_size", 4, "at least 5"),
        ("training", "clip_norm", math.inf, "must be a finite number"),
        ("training", "save_minutes", math.inf, "must be a finite number"),
        ("data", "max_ratio", math.inf, "must be a finite number"),
        ("tokenizer", "character_coverage", math.nan, "must be a finite number"),
        ("training", "seed", 2**63, "must be at most 9223372036854775807"),
        ("training", "threads", 1025, "must be at most 1024"),
        ("training", "warmup_steps", 10**7 + 1, "must be at most 10000000"),
        ("model", "d_model", 65538, "must be at most 65536"),
        ("model", "feed_forward", 65537, "must be at most 65536"),
        ("model", "encoder_layers", 10**9, "must be at most 1000"),
        ("data", "source", "a\0.en", "UTF-8 text without NUL"),
        ("data", "source", "a\udcff.en", "UTF-8 text without NUL"),
        ("checkpoint", "examples", ["a\0"], "UTF-8 text without NUL"),
    ],
)
def test_a_wrong_value_is_named(section: str, key: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        made(**{section: {key: value}})
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_number_too_long_to_be_shown_is_refused() -> None:
    for section, key in (("training", "clip_norm"), ("training", "epochs"), ("model", "d_model")):
        with pytest.raises(ConfigError, match=f"{section}.{key} must be .*a number of 39997 bits"):
            made(**{section: {key: 16**9999}})


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"data": {}}, "exactly one of them"),
        ({"data": {**OWN, "dataset": "multi30k"}}, "exactly one of them"),
        ({"data": {**OWN, "tsv": "a.tsv"}}, "exactly one of them"),
        ({"data": {"source": "a.en"}}, "both source and target"),
        ({"data": {"target": "a.de"}}, "both source and target"),
        ({"data": {**OWN, "dev_source": "b.en"}}, "both dev_source and dev_target"),
        ({"data": {"dataset": "multi30k", "dev_source": "b.en", "dev_target": "b.de"}}, "has a dev set"),
        ({"training": {"select": "loss", "stop_at": 30.0}}, "stop_at must be 0 with select = loss"),
        ({"model": {"max_length": 100}}, "max_pieces must be at most model.max_length = 100"),
    ],
)
def test_contradictions_are_refused(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_from({"data": OWN, **sections})


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("training.epochs=7", "training", "epochs", 7),
        ("training.learning_rate=1e-3", "training", "learning_rate", 0.001),
        ("training.learning_rate = 1", "training", "learning_rate", 1.0),
        ("training.select=bleu", "training", "select", "bleu"),
        ('training.select="bleu"', "training", "select", "bleu"),
        ("checkpoint.default=true", "checkpoint", "default", True),
        ("checkpoint.default=false", "checkpoint", "default", False),
        ('checkpoint.examples=["a b", "c"]', "checkpoint", "examples", ("a b", "c")),
        ("checkpoint.terms=Free, a=b.", "checkpoint", "terms", "Free, a=b."),
        ("checkpoint.terms=", "checkpoint", "terms", ""),
    ],
)
def test_set_replaces_a_value(override: str, section: str, key: str, value: object) -> None:
    recipe = load_recipe("reverse", [override])
    assert getattr(getattr(recipe, section), key) == value


def test_set_reaches_the_model_and_the_last_one_counts() -> None:
    recipe = load_recipe("reverse", ["model.d_model=32", "model.norm_first=true", "model.d_model=48"])
    assert recipe.model_config(45).d_model == 48
    assert recipe.model_config(45).norm_first is True


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.epochs", "section.key=value"),
        ("epochs=3", "section.key=value"),
        ("training.epoch=3", "did you mean epochs"),
        ("trainning.epochs=3", "did you mean training"),
        ("training.epochs=three", "must be a whole number"),
        ("checkpoint.default=yes", "must be true or false"),
        ("checkpoint.examples=[1, 2]", "must be a list of texts"),
        ("checkpoint.examples=" + "[" * 100_000, "must be valid TOML"),
        ("training.epochs=" + "9" * 5000, "must be a whole number"),
    ],
)
def test_a_set_that_cannot_be_read_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe("reverse", [override])


def test_a_recipe_can_be_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[data]\nsource = "a.en"\ntarget = "a.de"\n', encoding="utf-8")
    assert load_recipe(str(path)).name == "mine"
    path.write_text("[data\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"recipe mine\.toml must be valid TOML.*line 1"):
        load_recipe(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[data]\nsource = '\xff'\n", r"recipe mine\.toml, line 2, must be UTF-8 text"),
        (b"a = " + b"[" * 100_000, r"recipe mine\.toml must be valid TOML.*nested too deeply"),
        (b"[training]\nepochs = " + b"9" * 5000, r"recipe mine\.toml must be valid TOML"),
        (None, r"must be a readable file.*Is a directory"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "mine.toml"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_recipe(str(path))


@pytest.mark.parametrize("name", ["none", "none.toml", "reverse.toml/none.toml", "a\0", ""])
def test_a_recipe_that_does_not_exist_names_those_that_do(name: str) -> None:
    with pytest.raises(ConfigError, match=r"known are .*multi30k-en-de.*reverse"):
        load_recipe(name)


def test_a_saved_recipe_reads_back_the_same(tmp_path: Path) -> None:
    recipe = load_recipe("reverse")
    save_recipe(recipe, tmp_path / "recipe.json")
    assert recipe_from(json.loads((tmp_path / "recipe.json").read_text(encoding="utf-8"))) == recipe
