"""The training loop: epochs of updates, dev evaluations, saved states, and resuming from them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from transformer.catalogue import snapshot_of
from transformer.errors import TrainingError
from transformer.nn.model import Transformer
from transformer.text.batching import Batch, Example, fingerprint
from transformer.text.corpus import Pair
from transformer.text.sampling import Sampler
from transformer.text.tokenizer import Tokenizer
from transformer.training.averaging import check_weights, save_weights
from transformer.training.board import FOLDER as BOARD
from transformer.training.board import Board
from transformer.training.cost import batch_flops, mfu, peak_flops
from transformer.training.distributed import ALONE, World, agree, refuse_difference
from transformer.training.feed import Feed, Portion
from transformer.training.history import HISTORY, History
from transformer.training.interrupt import StopRequest
from transformer.training.memory import peak_memory
from transformer.training.progress import Progress, Window
from transformer.training.recipe import Recipe
from transformer.training.state import VERSION, write_state
from transformer.training.step import Stepper, Update
from transformer.training.telling import VOICE
from transformer.training.validation import validate


class Trainer:
    """One run in a folder: ``training/`` below it holds the state and the weights of evaluated epochs.

    With several processes each has a Trainer; the one of rank 0 alone writes, evaluates and speaks.
    """

    def __init__(
        self,
        recipe: Recipe,
        model: Transformer,
        tokenizer: Tokenizer,
        examples: Sequence[Example],
        train: Sequence[Pair],
        dev: Sequence[Pair],
        folder: Path,
        device: torch.device,
        world: World = ALONE,
    ) -> None:
        """``examples`` are the encoded ``train`` pairs without those that are too long."""
        self.recipe = recipe
        self.settings = settings = recipe.training
        self.world = world
        self.tokenizer = tokenizer
        self.examples = examples
        self.dev = list(dev[: settings.dev_sentences or None])
        held_out = [(tokenizer.encode(pair.source), tokenizer.encode_target(pair.target)) for pair in self.dev]
        self.corpus = fingerprint([*examples, *held_out])
        self.out = folder
        self.folder = folder / "training"
        self.progress = Progress()
        self.stepper = Stepper(model, settings, device, world)
        self.model = model
        sampling = recipe.data.subword_sampling
        self.sampler = Sampler(tokenizer, train, sampling) if sampling else None
        on_card = device.type == "cuda"
        self.feed = Feed(
            self._examples_of,
            settings.batch_tokens,
            settings.seed,
            settings.accumulate,
            world,
            multiple=8 if on_card else 1,  # what tensor cores like; and a compiled model meets fewer shapes
            pinned=on_card,
        )
        self.history = History(folder / HISTORY)
        self.board = Board(folder / BOARD) if settings.tensorboard and world.main else None
        name = torch.cuda.get_device_name(device) if on_card else "cpu"
        self.peak_flops = peak_flops(name, torch.bfloat16 if self.stepper.bfloat16 else torch.float32)
        self._saved_at = time.monotonic()
        self._last_named: set[int] = set()
        self._named: set[int] = set()

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.stepper.device

    def run(self, stop: StopRequest | None = None) -> Progress:
        """Train to the end of the recipe, from wherever the state stands, or until asked to stop.

        Args:
            stop: looked at after every update; when it is set in some process, the state is saved and
                ``progress.finished`` stays False.
        """
        settings = self.settings
        while not self.progress.finished and self.progress.epoch < settings.epochs:
            if not self._epoch(stop):
                self.save()
                return self.progress
            progress = self.progress
            if progress.epoch % settings.evaluate_every == 0 or progress.epoch == settings.epochs:
                self._evaluate()
            self.progress.finished = self.progress.finished or progress.epoch >= settings.epochs
            self.save()
            self._drop_weights()
        self.progress.finished = True  # also if the recipe now asks for fewer epochs than are done
        return self.progress

    def _examples_of(self, epoch: int) -> Sequence[Example]:
        """The pairs of an epoch in pieces: always the same, or segmented anew with subword sampling."""
        if not self.sampler:
            return self.examples
        # The seed differs from that of the batches, but follows from it.
        sampled = self.sampler.examples(self.settings.seed * 1_000_003 + epoch)
        longest = self.recipe.data.max_pieces
        return [(s, t) for s, t in sampled if len(s) <= longest and len(t) < longest]

    def _epoch(self, stop: StopRequest | None) -> bool:
        """The rest of the current epoch; False if it was broken off."""
        settings, progress = self.settings, self.progress
        shown = VOICE.isatty()
        count = self.feed.updates_in(progress.epoch)
        refuse_difference("updates in the epoch", count, self.world)
        portions = self.feed.portions(progress.epoch, progress.updates)
        if progress.epoch + 1 < settings.epochs:
            self.feed.plan(progress.epoch + 1)
        self.model.train()
        bar = tqdm(
            total=count,
            initial=progress.updates,
            desc=f"epoch {progress.epoch + 1}/{settings.epochs}",
            unit="update",
            mininterval=0.5 if shown else 30.0,  # a log file needs no animation
            maxinterval=10.0 if shown else 60.0,
            leave=False,
            dynamic_ncols=True,
            disable=not self.world.main,
            file=VOICE,
        )
        since = time.monotonic()
        try:
            with bar:
                for portion in portions:
                    place = f"epoch {progress.epoch + 1}, batch {progress.updates + 1}"
                    update = self.stepper.update(
                        portion.batches, portion.target_tokens, portion.fillers, bool(stop), place
                    )
                    now = time.monotonic()
                    self._count(update, portion, now - since)
                    since = now
                    bar.update()
                    if progress.step % settings.log_every == 0 or progress.updates == count:
                        line = self._log(update)
                        if self.world.main:
                            bar.set_postfix_str(f"{line}, {self._left(bar)} left in all", refresh=False)
                    self._snapshot()
                    if update.stopped:
                        return False
                    if time.monotonic() - self._saved_at > settings.save_minutes * 60:
                        self.save()
        finally:
            portions.close()
        progress.epoch += 1
        progress.updates = 0
        return True

    def _count(self, update: Update, portion: Portion, seconds: float) -> None:
        progress, window = self.progress, self.progress.window
        window.loss += update.loss * update.target_tokens
        window.likelihood += update.likelihood * update.target_tokens
        window.pieces += update.target_tokens
        window.seconds += seconds
        window.flops += self.world.size * sum(self._flops(batch, update.passes) for batch in portion.batches)
        progress.updates += 1
        progress.step += 1
        progress.seconds += seconds

    def _flops(self, batch: Batch, passes: int) -> float:
        rows, source = batch.source.shape
        return batch_flops(self.model.config, passes * rows, source, batch.target_input.size(1))

    def _log(self, update: Update) -> str:
        """Write the means of the window to the history, begin a new window, and say them in short."""
        progress, window = self.progress, self.progress.window
        progress.window = Window()
        seconds = max(window.seconds, 1e-9)
        speed = window.pieces / seconds
        share = mfu(window.flops, seconds, self.world.size * self.peak_flops) if self.peak_flops else None
        memory = peak_memory(self.device)
        if self.world.main:
            self._record(
                kind="train",
                step=progress.step,
                epoch=progress.epoch + 1,
                loss=window.loss / window.pieces,
                nll=window.likelihood / window.pieces,
                lr=self.stepper.rate,
                gradient_norm=update.gradient_norm,
                tokens_per_second=round(speed),
                **({} if share is None else {"mfu": share}),
                memory_mb=round(memory / 1e6),
                seconds=round(progress.seconds, 1),
            )
        used = "" if share is None else f"{share:.1%} MFU, "
        return f"loss {window.loss / window.pieces:.3f}, {speed:,.0f} tokens/s, {used}{memory / 1e9:.1f} GB"

    def _record(self, **values: Any) -> None:
        line = self.history.append(**values)
        if self.board:
            self.board.add(line)

    def _left(self, bar: Any) -> str:
        figures = bar.format_dict  # its own rate is missing until the bar was drawn for the second time
        rate = figures["rate"] or (figures["n"] - figures["initial"]) / max(figures["elapsed"], 1e-9)
        if rate <= 0:
            return "?"
        updates = bar.total * (self.settings.epochs - self.progress.epoch) - self.progress.updates
        return str(tqdm.format_interval(updates / rate))

    def _snapshot(self) -> None:
        """Keep the weights as they are, small, if the recipe wants them after this update."""
        step = self.progress.step
        if self.world.main and step in self.recipe.checkpoint.snapshots:
            path = snapshot_of(self.out, step)
            path.parent.mkdir(exist_ok=True)
            save_weights(self.model, path, torch.float16, step=step)

    def _evaluate(self) -> None:
        """Judge the model on dev, in the process of rank 0, and let all know what came of it."""
        if self.world.main:
            self._judge()
        self.progress = agree(self.progress, self.world)

    def _judge(self) -> None:
        settings, progress = self.settings, self.progress
        started = time.monotonic()
        figures = validate(self.model, self.tokenizer, self.dev, settings)
        progress.seconds += time.monotonic() - started
        figure = {"bleu": figures.bleu, "exact": figures.exact, "loss": -figures.loss}[settings.select]
        better = figure > progress.best or not progress.best_epoch
        self._record(
            kind="dev",
            step=progress.step,
            epoch=progress.epoch,
            **figures.to_dict(),
            best=better,
            seconds=round(progress.seconds, 1),
        )
        tqdm.write(
            f"epoch {progress.epoch}: dev loss {figures.loss:.3f}, BLEU {figures.bleu:.2f}, chrF {figures.chrf:.1f}, "
            f"exact {figures.exact:.1f} %{', best so far' if better else ''}",
            file=VOICE,
        )
        if better:
            progress.best, progress.best_epoch, progress.without_gain = figure, progress.epoch, 0
        else:
            progress.without_gain += 1
        save_weights(self.model, self.weights_of(progress.epoch))
        progress.evaluated[progress.epoch] = figure
        keep = {*self._averaged(), progress.best_epoch, progress.epoch}
        progress.evaluated = {epoch: value for epoch, value in progress.evaluated.items() if epoch in keep}
        progress.finished = self._stopped()

    def _averaged(self) -> list[int]:
        """The epochs whose mean is the result: the last or the best ``average`` evaluated ones; of 1, the best."""
        settings, evaluated = self.settings, self.progress.evaluated
        if settings.average_of == "last" and settings.average > 1:
            return sorted(evaluated)[-settings.average :]
        # Of two equal figures the earlier epoch counts as the better one, as for ``best_epoch``.
        return sorted(sorted(evaluated, key=lambda epoch: (-evaluated[epoch], epoch))[: settings.average])

    def _drop_weights(self) -> None:
        """Remove weights that neither of the two saved states names."""
        if not self.world.main:
            return
        named = {self.weights_of(epoch) for epoch in self._named}
        for path in self.folder.glob("epoch-*.safetensors"):
            if path not in named:
                path.unlink(missing_ok=True)

    def weights_of(self, epoch: int) -> Path:
        """Where the weights of an evaluated epoch are."""
        return self.folder / f"epoch-{epoch:03d}.safetensors"

    def final_weights(self) -> list[Path]:
        """The files whose mean is the result."""
        return [self.weights_of(epoch) for epoch in self._averaged()]

    def save(self) -> None:
        """Write the state, atomically: everything that the next update depends on.

        Random draws are no part of it: they follow from the seed and the number of the update (see ``Stepper``).
        """
        self._saved_at = time.monotonic()
        if not self.world.main:
            return
        progress = self.progress
        content = {
            "version": VERSION,
            "progress": {**vars(progress), "window": vars(progress.window)},
            "model": {name: value.detach().clone() for name, value in self.model.named_parameters()},
            "optimizer": self.stepper.optimizer.state_dict(),
            "recipe": self.recipe.to_dict(),
            "tokenizer": self.tokenizer.fingerprint,
            "corpus": self.corpus,
            "batches_an_update": self.settings.accumulate * self.world.size,
        }
        write_state(self.folder, content)
        self._named = {*self._last_named, *progress.evaluated}
        self._last_named = set(progress.evaluated)

    def resume(self, content: dict[str, Any]) -> None:
        """Go back to a saved state, as ``read_state`` gives it.

        Raises:
            TrainingError: the state was made with another tokenizer, corpus or number of processes.
        """
        if content["tokenizer"] != self.tokenizer.fingerprint:
            raise TrainingError(
                "--resume must continue with the tokenizer of the run, but tokenizer.model is another one: restore it, "
                "or name another --out."
            )
        if content["corpus"] != self.corpus:
            raise TrainingError(
                "--resume must continue with the corpus of the run, but the training or dev pairs are others: restore "
                "the files, or name another --out."
            )
        before, now = content["batches_an_update"], self.settings.accumulate * self.world.size
        if before != now:
            raise TrainingError(
                f"--resume must continue with as many batches an update, but training.accumulate x processes was "
                f"{before} and is {now}: set training.accumulate, or start as many processes, so that it is {before}."
            )
        self.progress = Progress.from_dict(content["progress"])
        if self.world.main:
            for epoch in self.progress.evaluated:  # rather now than when all is trained and they are to be averaged
                check_weights(self.weights_of(epoch))
        self.stepper.steps = self.progress.step
        self._last_named = self._named = set(self.progress.evaluated)
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(content["model"][name])
        self.stepper.optimizer.load_state_dict(content["optimizer"])
        if self.world.main:
            self.history.cut_after(self.progress.step, self.progress.epoch)
        if self.board:
            self.board.resume_after(self.progress.step)
        if self.progress.epoch < self.settings.epochs and not self._stopped():
            self.progress.finished = False  # the recipe may ask for more epochs than before

    def _stopped(self) -> bool:
        settings, progress = self.settings, self.progress
        reached = settings.stop_at and settings.select != "loss" and progress.best >= settings.stop_at
        return bool(reached or (settings.patience and progress.without_gain >= settings.patience))
