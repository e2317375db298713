"""The training loop: steps, dev evaluations, saved states, and resuming from them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from transformer.decoding.options import SearchOptions
from transformer.errors import TrainingError, problem
from transformer.nn.model import Transformer
from transformer.text.batching import Batch, Example, collate, fingerprint, make_batches
from transformer.text.corpus import Pair
from transformer.text.tokenizer import Tokenizer
from transformer.training.averaging import save_weights
from transformer.training.evaluate import bleu, dev_loss, exact_match, translate_pairs
from transformer.training.history import HISTORY, History
from transformer.training.interrupt import StopRequest
from transformer.training.loss import smoothed_cross_entropy
from transformer.training.precision import choose_device, use_bfloat16
from transformer.training.recipe import Recipe
from transformer.training.schedule import learning_rate, paper_peak
from transformer.training.state import write_state


@dataclass
class Progress:
    """Where a run stands; saved with every state."""

    epoch: int = 0
    """Epochs that are complete."""
    batch: int = 0
    """Batches of the current epoch that are complete."""
    step: int = 0
    seconds: float = 0.0
    """Time spent training, over all resumptions."""
    best: float = -math.inf
    best_epoch: int = 0
    evaluated: list[int] = field(default_factory=list)
    """Epochs whose weights are kept, oldest first."""
    without_gain: int = 0
    finished: bool = False
    window: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0, 0.0])
    """Since the last "train" line of the history: loss, negative log-likelihood, target pieces, seconds, all summed."""


class Trainer:
    """One run in a folder: ``training/`` below it holds the state and the weights of evaluated epochs."""

    def __init__(
        self,
        recipe: Recipe,
        model: Transformer,
        tokenizer: Tokenizer,
        examples: Sequence[Example],
        dev: Sequence[Pair],
        folder: Path,
    ) -> None:
        self.recipe = recipe
        self.settings = recipe.training
        self.device = choose_device(self.settings.device)
        self.model = model.to(self.device)
        self.tokenizer = tokenizer
        self.examples = examples
        self.dev = list(dev[: self.settings.dev_sentences or None])
        self.dev_examples = [(tokenizer.encode(p.source), tokenizer.encode_target(p.target)) for p in self.dev]
        self.corpus = fingerprint(examples)
        self.folder = folder / "training"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.history = History(folder / HISTORY)
        self.progress = Progress()
        self.bfloat16 = use_bfloat16(self.settings.precision, self.device)
        self.peak = self.settings.learning_rate or paper_peak(model.config.d_model, self.settings.warmup_steps)
        self.optimizer = torch.optim.Adam(
            model.parameters(),
            lr=self.peak,
            betas=(self.settings.beta1, self.settings.beta2),
            eps=self.settings.epsilon,
            fused=True,
        )
        self._saved_at = time.monotonic()
        self._last_named: set[int] = set()
        self._named: set[int] = set()

    def run(self, stop: StopRequest | None = None) -> Progress:
        """Train to the end of the recipe, from wherever the state stands, or until asked to stop.

        Args:
            stop: looked at after every step; when it is set, the state is saved and ``progress.finished`` stays False.
        """
        settings, progress = self.settings, self.progress
        while not progress.finished and progress.epoch < settings.epochs:
            if not self._epoch(stop):
                self.save()
                return progress
            if progress.epoch % settings.evaluate_every == 0 or progress.epoch == settings.epochs:
                self._evaluate()
            progress.finished = progress.finished or progress.epoch >= settings.epochs
            self.save()
            self._drop_weights()
        progress.finished = True  # also if the recipe now asks for fewer epochs than are done
        return progress

    def steps_in_epoch(self) -> int:
        """Updates in the first epoch; later ones may differ by a few."""
        return len(make_batches(self.examples, self.settings.batch_tokens, self.settings.seed, 0))

    def step(self, batch: Batch) -> tuple[float, float, float]:
        """One update: (smoothed loss, negative log-likelihood, gradient norm), the first two in nats per piece.

        Raises:
            TrainingError: the loss or the gradient is no longer finite.
        """
        settings, progress = self.settings, self.progress
        rate = learning_rate(progress.step + 1, settings.warmup_steps, self.peak)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            hidden = self.model.hidden(batch.source, batch.target_input)
        real = (batch.target_output != 0).flatten().nonzero().squeeze(1)
        total, likelihood = smoothed_cross_entropy(
            hidden.flatten(0, 1).index_select(0, real),
            self.model.projection.weight,
            batch.target_output.flatten().index_select(0, real),
            settings.label_smoothing,
            precise=not self.bfloat16,
        )
        loss = total / batch.target_tokens
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm or math.inf)
        if not torch.isfinite(norm) or not torch.isfinite(loss):
            raise TrainingError(
                problem(
                    f"{'gradient norm' if torch.isfinite(loss) else 'loss'} at step {progress.step + 1} "
                    f"(epoch {progress.epoch + 1}, batch {progress.batch + 1})",
                    "must stay finite",
                    float((norm if torch.isfinite(loss) else loss).detach()),
                    "start anew with a lower training.learning_rate or more training.warmup_steps",
                )
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.step += 1
        return float(loss.detach()), float(likelihood) / batch.target_tokens, float(norm)

    def _epoch(self, stop: StopRequest | None) -> bool:
        """The rest of the current epoch; False if it was broken off."""
        settings, progress = self.settings, self.progress
        shown = sys.stderr.isatty()
        batches = make_batches(self.examples, settings.batch_tokens, settings.seed, progress.epoch)
        self.model.train()
        bar = tqdm(
            total=len(batches),
            initial=progress.batch,
            desc=f"epoch {progress.epoch + 1}/{settings.epochs}",
            unit="batch",
            mininterval=0.5 if shown else 30.0,  # a log file needs no animation
            maxinterval=10.0 if shown else 60.0,
            leave=False,
            dynamic_ncols=True,
        )
        with bar:
            for indices in batches[progress.batch :]:
                started = time.monotonic()
                batch = collate(self.examples, indices).to(self.device)
                loss, likelihood, norm = self.step(batch)
                seconds = time.monotonic() - started
                pieces = batch.target_tokens
                for index, value in enumerate((loss * pieces, likelihood * pieces, pieces, seconds)):
                    progress.window[index] += value
                progress.batch += 1
                progress.seconds += seconds
                bar.update()
                if progress.step % settings.log_every == 0 or progress.batch == len(batches):
                    line = self._log(norm)
                    bar.set_postfix_str(f"{line}, {self._left(bar)} left in all", refresh=False)
                if stop:
                    return False
                if time.monotonic() - self._saved_at > settings.save_minutes * 60:
                    self.save()
        progress.epoch += 1
        progress.batch = 0
        return True

    def _log(self, norm: float) -> str:
        """Write the means of the window to the history, begin a new window, and say them in short."""
        progress = self.progress
        loss, likelihood, pieces, seconds = progress.window
        progress.window = [0.0, 0.0, 0.0, 0.0]
        speed = pieces / max(seconds, 1e-9)
        self.history.append(
            kind="train",
            step=progress.step,
            epoch=progress.epoch + 1,
            loss=loss / pieces,
            nll=likelihood / pieces,
            lr=self.optimizer.param_groups[0]["lr"],
            gradient_norm=norm,
            tokens_per_second=round(speed),
            seconds=round(progress.seconds, 1),
        )
        return f"loss {loss / pieces:.3f}, {speed:,.0f} tokens/s"

    def _left(self, bar: Any) -> str:
        figures = bar.format_dict  # its own rate is missing until the bar was drawn for the second time
        rate = figures["rate"] or (figures["n"] - figures["initial"]) / max(figures["elapsed"], 1e-9)
        if rate <= 0:
            return "?"
        batches = bar.total * (self.settings.epochs - self.progress.epoch) - self.progress.batch
        return str(tqdm.format_interval(batches / rate))

    def _evaluate(self) -> None:
        settings, progress = self.settings, self.progress
        started = time.monotonic()
        loss = dev_loss(self.model, self.dev_examples, settings.batch_tokens)
        outputs = translate_pairs(self.model, self.tokenizer, self.dev, SearchOptions(beam_size=1, max_extra=20))
        references = [pair.target for pair in self.dev]
        score, exact = bleu(outputs, [references]), exact_match(outputs, references)
        progress.seconds += time.monotonic() - started
        figure = {"bleu": score.value, "exact": exact.value, "loss": -loss}[settings.select]
        better = figure > progress.best or not progress.best_epoch
        self.history.append(
            kind="dev",
            step=progress.step,
            epoch=progress.epoch,
            dev_loss=loss,
            dev_bleu=round(score.value, 2),
            dev_exact=round(exact.value, 2),
            signature=score.signature + "|beam:1",
            best=better,
            seconds=round(progress.seconds, 1),
            sample=outputs[0],
        )
        tqdm.write(
            f"epoch {progress.epoch}: dev loss {loss:.3f}, BLEU {score.value:.2f}, exact {exact.value:.1f} %"
            f"{', best so far' if better else ''}",
            file=sys.stderr,
        )
        if better:
            progress.best, progress.best_epoch, progress.without_gain = figure, progress.epoch, 0
        else:
            progress.without_gain += 1
        save_weights(self.model, self.weights_of(progress.epoch))
        progress.evaluated.append(progress.epoch)
        keep = {*progress.evaluated[-settings.average :], progress.best_epoch}
        progress.evaluated = [epoch for epoch in progress.evaluated if epoch in keep]
        progress.finished = self._stopped()

    def _drop_weights(self) -> None:
        """Remove weights that neither of the two saved states names."""
        named = {self.weights_of(epoch) for epoch in self._named}
        for path in self.folder.glob("epoch-*.safetensors"):
            if path not in named:
                path.unlink(missing_ok=True)

    def weights_of(self, epoch: int) -> Path:
        """Where the weights of an evaluated epoch are."""
        return self.folder / f"epoch-{epoch:03d}.safetensors"

    def final_weights(self) -> list[Path]:
        """The files whose mean is the result: the last ``average`` evaluated epochs, or the best one."""
        epochs = self.progress.evaluated[-self.settings.average :]
        return [self.weights_of(e) for e in (epochs if self.settings.average > 1 else [self.progress.best_epoch])]

    def save(self) -> None:
        """Write the state, atomically: everything that the next step depends on."""
        content = {
            "progress": vars(self.progress).copy(),
            "model": {name: value.detach().clone() for name, value in self.model.named_parameters()},
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "cuda_random": torch.cuda.get_rng_state_all() if self.device.type == "cuda" else [],
            "recipe": self.recipe.to_dict(),
            "tokenizer": self.tokenizer.fingerprint,
            "corpus": self.corpus,
        }
        write_state(self.folder, content)
        self._named = {*self._last_named, *self.progress.evaluated}
        self._last_named = set(self.progress.evaluated)
        self._saved_at = time.monotonic()

    def resume(self, content: dict[str, Any]) -> None:
        """Go back to a saved state, as ``read_state`` gives it.

        Raises:
            TrainingError: the state was made with another tokenizer or corpus.
        """
        if content["tokenizer"] != self.tokenizer.fingerprint:
            raise TrainingError(
                "--resume must continue with the tokenizer of the run, but tokenizer.model is another one: restore it, "
                "or name another --out."
            )
        if content.get("corpus", self.corpus) != self.corpus:  # older states do not say
            raise TrainingError(
                "--resume must continue with the corpus of the run, but the training pairs are others: restore the "
                "files, or name another --out."
            )
        self.progress = Progress(**content["progress"])
        self._last_named = self._named = set(self.progress.evaluated)
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(content["model"][name])
        self.optimizer.load_state_dict(content["optimizer"])
        torch.set_rng_state(content["random"])
        if content["cuda_random"]:
            torch.cuda.set_rng_state_all(content["cuda_random"])
        self.history.cut_after(self.progress.step, self.progress.epoch)
        if self.progress.epoch < self.settings.epochs and not self._stopped():
            self.progress.finished = False  # the recipe may ask for more epochs than before

    def _stopped(self) -> bool:
        settings, progress = self.settings, self.progress
        reached = settings.stop_at and settings.select != "loss" and progress.best >= settings.stop_at
        return bool(reached or (settings.patience and progress.without_gain >= settings.patience))
