"""The model card that lies beside a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformer.config import ModelConfig
from transformer.training.recipe import names


def _cell(text: str) -> str:
    """Text within a cell: a bar would end it, even in code."""
    return text.replace("|", "\\|")


def _names(averaged: Sequence[str]) -> str:
    """The averaged weights; if there are many in a row, only the first and the last."""
    numbers = [int(name.rpartition("-")[2]) for name in averaged]
    in_a_row = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return f"{averaged[0]} to {averaged[-1]}" if in_a_row and len(averaged) > 2 else ", ".join(averaged)


def _chosen(tried: Sequence[Sequence[float]]) -> str:
    """Which length penalties were tried on dev, and how well each did."""
    if not tried:
        return ""
    figures = ", ".join(f"{alpha:g} ({figure:.2f})" for alpha, figure in tried)
    return f", with the length penalty that does best on dev; tried were {figures}"


def model_card(
    name: str,
    config: ModelConfig,
    training: Mapping[str, Any],
    data: Mapping[str, Any],
    scores: Sequence[Mapping[str, Any]],
) -> str:
    """Markdown that says what the model is, what it learned from and under which terms, and how good it is.

    Args:
        name: of the checkpoint.
        config: its shape.
        training: as in ``config.json``.
        data: as in ``config.json``.
        scores: as in ``config.json``.
    """
    recipe = training["recipe"]
    section = recipe["data"]
    settings = recipe["training"]
    rows = "\n".join(
        f"| {score['part']} | {score['name']} | {score['value']} | {score['sentences']:,} "
        f"| `{_cell(score['signature'])}` |"
        for score in scores
    )
    peak = settings["learning_rate"] or "the paper's"
    kind = data.get("about") or "the kind of sentence that it was trained on"
    return f"""# {name}

An encoder-decoder Transformer, {section["source_language"]} to {section["target_language"]}, trained by the trainer of
this repository.

## Model

{config.encoder_layers} encoder and {config.decoder_layers} decoder layers, d_model {config.d_model}, \
{config.heads} heads, feed-forward {config.feed_forward}, {config.vocab_size:,} joint \
{recipe["tokenizer"]["model_type"]} pieces, \
{"pre" if config.norm_first else "post"}-norm, {config.positions} positions, embeddings tied: {config.tie_embeddings}. \
Stored as {recipe["checkpoint"]["dtype"]}.

## Data

{data["dataset"]}: {data["pairs"]:,} pairs ({data["cleaning"]}). {data["terms"]}

## Training

Recipe `{recipe["name"]}`, seed {settings["seed"]}: {training["epochs"]} epochs, {training["steps"]:,} steps of up to \
{settings["batch_tokens"]:,} tokens, peak learning rate {peak} after {settings["warmup_steps"]:,} steps, dropout \
{config.dropout}, label smoothing {settings["label_smoothing"]}. Weights: mean of {len(training["averaged"])} \
({_names(training["averaged"])}). {training["precision"]}, {training["hardware"]}, torch {training["torch"]}, \
{training["seconds"] / 60:.1f} minutes, commit {training["commit"]}, {training["date"]}.

    python -m transformer train {recipe["name"]}{"" if recipe["name"] in names() else ".toml"} --out runs/{name}

All values of the recipe, also those that were set on the command line, are in `config.json` under `training.recipe`.

## Scores

Of the weights as stored{_chosen(training.get("length_penalties", []))}.

| part | figure | value | sentences | signature |
|---|---|---|---|---|
{rows}

## Limits

It knows {kind} and little else; a text of another kind is translated badly and
confidently. Not for any use where a wrong translation matters.
"""
