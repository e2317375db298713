"""A whole run: recipe to corpus, tokenizer, model, training, and a finished checkpoint."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from transformer.catalogue import CONFIG, SNAPSHOTS, TOKENIZER, WEIGHTS
from transformer.checkpoint import PRECISIONS, save_checkpoint
from transformer.decoding.options import SearchOptions
from transformer.errors import ConfigError, DataError, TrainingError, problem
from transformer.files import remove_leftovers, write_atomically
from transformer.nn.model import Transformer
from transformer.text.batching import Example
from transformer.text.corpus import Pair
from transformer.text.tokenizer import Tokenizer, train_tokenizer
from transformer.text.vocabulary import choose_vocab_size
from transformer.training.allocator import keep_memory
from transformer.training.averaging import load_weights, mean_of
from transformer.training.card import model_card
from transformer.training.distributed import (
    World,
    agree,
    join_world,
    naming_dead_ranks,
    refuse_difference,
    together,
    wait,
)
from transformer.training.dry_run import describe
from transformer.training.evaluate import translate_pairs
from transformer.training.feed import Feed
from transformer.training.history import HISTORY
from transformer.training.interrupt import stop_on_signals
from transformer.training.lock import only_one
from transformer.training.loop import Trainer
from transformer.training.material import Material, load_material, to_examples
from transformer.training.precision import choose_device
from transformer.training.progress import Progress
from transformer.training.provenance import commit, hardware
from transformer.training.recipe import Recipe, load_recipe, save_recipe
from transformer.training.scores import best_options, score_all, scored_sets
from transformer.training.sections import TrainingSection
from transformer.training.state import exists, read_state
from transformer.training.step import Stepper, out_of_memory
from transformer.training.telling import say_nothing, tell
from transformer.training.writing import writing

RECIPE, CARD = "recipe.json", "README.md"
FEW_DEV = 50
"""Dev sentences below which a run warns that its scores mean little."""


def train_command(
    recipe: str, out: Path | None, overrides: Sequence[str], resume: bool, data_dir: Path | None, dry_run: bool = False
) -> int:
    """``python -m transformer train``: train a recipe into a folder, which becomes a checkpoint.

    Started by ``torchrun``, it is one of several processes that train one model together.

    Args:
        recipe: the name of a recipe, or a path to a TOML file.
        out: the run's folder; afterwards also a checkpoint that every command and the app can open. Not needed for a
            dry run.
        overrides: ``section.key=value``.
        resume: go on from the state in ``out``.
        data_dir: where named corpora lie; ``data`` by default.
        dry_run: say what the run would be and take, and write nothing.

    Raises:
        TransformerError: whatever a user can put right.
    """
    chosen = load_recipe(recipe, overrides)
    keep_memory()
    try:
        return _start(chosen, None if dry_run else out, resume, data_dir or Path("data"))
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise TrainingError(
            "Memory ran out outside a training step: choose a smaller model.preset, or lower training.batch_tokens or "
            "data.max_pieces; what was saved before can be resumed."
        ) from error


def _start(chosen: Recipe, out: Path | None, resume: bool, folder: Path) -> int:
    if out is None:
        return _describe(chosen, folder)
    with join_world(chosen.training.device) as world, naming_dead_ranks(world), contextlib.ExitStack() as held:
        state = together(world, lambda: _open(chosen, out, resume, held) if world.main else None)
        return _train(chosen, out, agree(state, world), folder, world)


def _open(chosen: Recipe, out: Path, resume: bool, held: contextlib.ExitStack) -> dict[str, Any] | None:
    """Take hold of the run's folder; the saved state, if the run is to go on from it."""
    _refuse_taken(out, resume)
    if resume and not exists(out / "training"):
        raise TrainingError(problem("--resume", "needs a saved state", str(out), "start without --resume"))
    try:
        (out / "training").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError(
            problem("--out", "must be a folder that can be written", str(out), f"choose another ({error.strerror})")
        ) from error
    held.enter_context(only_one(out / "training"))
    for folder in (out, out / "training", out / SNAPSHOTS):
        remove_leftovers(folder)  # of a run that was killed while it wrote
    return read_state(out / "training", chosen, tell) if resume else None


def _train(chosen: Recipe, out: Path, state: dict[str, Any] | None, folder: Path, world: World) -> int:
    say = tell if world.main else say_nothing
    settings = chosen.training
    if settings.threads:
        torch.set_num_threads(settings.threads)
    device = _device(settings, world.local_rank)
    material = together(world, lambda: load_material(chosen.data, folder))
    say(f"Corpus: {material.report}; {len(material.dev):,} dev, {len(material.test):,} test.")
    if world.main and state is None:
        save_recipe(chosen, out / "training" / RECIPE)
        (out / HISTORY).unlink(missing_ok=True)  # of a run that stopped before it saved anything
    tokenizer = _shared_tokenizer(chosen, material, out, state is not None, world)
    train, examples = _examples(chosen, material, tokenizer, say)
    torch.manual_seed(settings.seed)
    model = Transformer(chosen.model_config(tokenizer.vocab_size))
    _check_dev(material, tokenizer, model.config.max_length)
    trainer = Trainer(chosen, model, tokenizer, examples, train, material.dev, out, device, world)
    refuse_difference("training pairs", trainer.corpus, world)
    _announce(trainer, say)
    if state is not None:
        trainer.resume(state)
        say(f"Resumed after {trainer.progress.epoch} epochs and {trainer.progress.step:,} steps.")
    if world.main:
        save_recipe(chosen, out / "training" / RECIPE)
    try:
        with stop_on_signals(patient=world.size > 1) as stop:
            progress = trainer.run(stop)
    except KeyboardInterrupt:
        say(f"Stopped at step {trainer.progress.step:,}; the last saved state can be resumed with --resume.")
        raise
    if not progress.finished:
        say(f"Stopped and saved at step {progress.step:,}; the same command with --resume goes on from there.")
        wait(world)  # rank 0 may still be writing
        return stop.exit_status if stop else 128 + signal.SIGTERM  # it may be another process that was asked
    if agree(bool(stop), world):  # asked in the last epoch: scoring takes minutes, and can be done later
        say("Stopped after the last epoch; the same command with --resume scores the model and writes the checkpoint.")
        return stop.exit_status if stop else 128 + signal.SIGTERM
    if world.main:
        finish(chosen, trainer, material, progress, out, folder)
    wait(world)
    return 0


def _device(settings: TrainingSection, local_rank: int) -> torch.device:
    device = choose_device(settings.device, local_rank)
    if settings.compile and device.type == "cpu":  # seen: minutes of compiling for batch after batch
        rule = "must be false on a CPU, where compiling takes minutes and gains nothing"
        raise ConfigError(problem("training.compile", rule, True, "set it to false"))
    return device


def _check_dev(material: Material, tokenizer: Tokenizer, longest: int) -> None:
    """Refuse a dev set that cannot be judged by before anything is trained."""
    for pair in material.dev:
        if len(tokenizer.encode(pair.source)) <= longest and len(tokenizer.encode(pair.target)) <= longest:
            return
    rule = f"must hold pairs of at most {longest} pieces (model.max_length)"
    remedy = "name others in data.dev_source and data.dev_target, or raise model.max_length"
    raise DataError(problem("dev set", rule, f"none among {len(material.dev)}", remedy))


def _examples(
    chosen: Recipe, material: Material, tokenizer: Tokenizer, say: Callable[[str], None]
) -> tuple[list[Pair], list[Example]]:
    """The training pairs that are short enough, as text and as pieces."""
    longest = chosen.data.max_pieces
    pairs, examples = to_examples(material.train, tokenizer, longest)
    if left_out := len(material.train) - len(examples):
        say(f"Left out {left_out:,} pairs with more than {longest} pieces on a side.")
    if not examples:
        raise DataError(
            problem("data.max_pieces", "must let some pairs through", longest, "raise it, or check the files")
        )
    return pairs, examples


def _announce(trainer: Trainer, say: Callable[[str], None]) -> None:
    model, world = trainer.model, trainer.world
    parameters = sum(p.numel() for p in model.parameters())
    processes = f"{world.size} processes, " if world.size > 1 else ""
    say(
        f"Model: {parameters:,} parameters, {trainer.tokenizer.vocab_size:,} pieces; "
        f"{'bfloat16 autocast' if trainer.stepper.bfloat16 else 'float32'} on {trainer.device}, "
        f"{processes}{torch.get_num_threads()} threads."
    )
    for warning in _warnings(trainer.recipe, trainer.feed.updates_in(0), len(trainer.dev)):
        say(warning)


def _warnings(recipe: Recipe, updates: int, dev: int) -> list[str]:
    """What will likely disappoint, before it does."""
    settings, found = recipe.training, []
    steps = updates * settings.epochs
    if steps < 2 * settings.warmup_steps:
        found.append(
            f"Only about {steps:,} steps in all, but the learning rate grows over {settings.warmup_steps:,} "
            "(training.warmup_steps): lower it, train for more epochs, or make batches smaller (training.batch_tokens)."
        )
    if dev < FEW_DEV:
        found.append(
            f"Only {dev} sentences to judge by: their scores, and which epoch is best, mean little. Name more in "
            "data.dev_source and data.dev_target, or give more pairs."
        )
    return found


def _describe(chosen: Recipe, folder: Path) -> int:
    settings = chosen.training
    if settings.threads:
        torch.set_num_threads(settings.threads)
    material = load_material(chosen.data, folder)
    tokenizer = new_tokenizer(chosen, material)
    _, examples = _examples(chosen, material, tokenizer, tell)
    torch.manual_seed(chosen.training.seed)
    model = Transformer(chosen.model_config(tokenizer.vocab_size))
    _check_dev(material, tokenizer, model.config.max_length)
    dearest = dataclasses.replace(settings, r_drop_after=0)
    stepper = Stepper(model, dearest, _device(settings, 0))
    print(f"corpus               {material.report}; {len(material.dev):,} dev, {len(material.test):,} test")
    for line in describe(chosen, model, tokenizer, examples, stepper):
        print(line)
    updates = Feed(lambda _: examples, settings.batch_tokens, settings.seed, settings.accumulate).updates_in(0)
    for warning in _warnings(chosen, updates, len(material.dev[: settings.dev_sentences or None])):
        tell(warning)
    return 0


def finish(recipe: Recipe, trainer: Trainer, material: Material, progress: Progress, out: Path, data_dir: Path) -> None:
    """Average, score on dev and test with the final weights as they are stored, and write the checkpoint."""
    load_weights(trainer.model, mean_of(trainer.final_weights()))
    if recipe.checkpoint.dtype != "float32":  # what is scored is what is stored
        with torch.no_grad():
            for parameter in trainer.model.parameters():
                parameter.copy_(parameter.to(PRECISIONS[recipe.checkpoint.dtype]))

    def translate(pairs: list[Pair], options: SearchOptions) -> list[str]:
        return translate_pairs(trainer.model, trainer.tokenizer, pairs, options)

    options, tried = best_options(recipe.checkpoint.length_penalties, trainer.dev, translate, recipe.training.select)
    for alpha, figure in tried:
        tell(f"dev, length penalty {alpha:g}: {figure:.2f}")
    scores = score_all(
        scored_sets(recipe.data, dataclasses.replace(material, dev=trainer.dev), data_dir),
        lambda pairs: translate(pairs, options),
        recipe.data,
        options,
    )
    for score in scores:
        tell(f"{score['part']}: {score['name']} {score['value']:.2f} ({score['signature']})")
    training = {
        "recipe": recipe.to_dict(),
        "epochs": progress.epoch,
        "steps": progress.step,
        "seconds": round(progress.seconds),
        "length_penalties": [[alpha, round(figure, 2)] for alpha, figure in tried],
        "averaged": [path.stem for path in trainer.final_weights()],
        "precision": "bfloat16 autocast" if trainer.stepper.bfloat16 else "float32",
        "hardware": hardware(trainer.device),
        "torch": torch.__version__,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }
    data = {
        "dataset": recipe.data.dataset or "own files",
        "about": recipe.checkpoint.about,
        "terms": recipe.checkpoint.terms,
        "pairs": len(trainer.examples),
        "cleaning": material.report,
    }
    codes = recipe.data
    save_checkpoint(
        out,
        trainer.model,
        trainer.tokenizer,
        languages={
            "source": codes.source_language,
            "target": codes.target_language,
            "source_code": codes.source_code,
            "target_code": codes.target_code,
        },
        training=training,
        data=data,
        scores=scores,
        examples=list(recipe.checkpoint.examples) or [pair.source for pair in material.dev[:4]],
        dtype=recipe.checkpoint.dtype,
        default=recipe.checkpoint.default,
        length_penalty=options.length_penalty,
    )
    card = model_card(out.resolve().name, trainer.model.config, training, data, scores)
    with writing("model card", out / CARD):
        write_atomically(out / CARD, card.encode())
    tell(f"Checkpoint written to {out}.")


def _refuse_taken(out: Path, resume: bool) -> None:
    if resume:
        return
    if exists(out / "training"):
        raise TrainingError(
            problem(
                "--out", "must not hold another run", str(out), "add --resume to go on with it, or name a new folder"
            )
        )
    if (out / CONFIG).is_file():
        raise TrainingError(problem("--out", "must not hold a checkpoint", str(out), "name a new folder"))
    if not (out / "training" / RECIPE).is_file():
        for name in (WEIGHTS, TOKENIZER, HISTORY, CARD):
            if (out / name).exists():
                raise TrainingError(
                    problem("--out", "must not hold files that a run writes", name, "name a new folder")
                )


def new_tokenizer(recipe: Recipe, material: Material) -> Tokenizer:
    """Train the recipe's tokenizer on the training pairs, of a size that fits them if the recipe names none."""
    settings = recipe.tokenizer
    lines = [text for pair in material.train for text in (pair.source, pair.target)]
    size = settings.vocab_size or choose_vocab_size(lines, settings.character_coverage, settings.model_type)
    return train_tokenizer(lines, size, settings.model_type, settings.character_coverage)


def _shared_tokenizer(recipe: Recipe, material: Material, out: Path, resume: bool, world: World) -> Tokenizer:
    """The run's tokenizer, read or trained by rank 0 and given to all."""

    def make() -> bytes:
        if not world.main:
            return b""
        path = out / TOKENIZER
        if resume and path.is_file():
            return Tokenizer.load(path).to_bytes()
        data = new_tokenizer(recipe, material).to_bytes()
        with writing("tokenizer", path, "start again"):
            write_atomically(path, data)
        return data

    return Tokenizer.from_bytes(agree(together(world, make), world))
