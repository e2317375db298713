"""One update of the weights: forward, loss, backward, clipping, Adam. No files, no logs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transformer.config import PAD_ID
from transformer.errors import TrainingError, problem
from transformer.nn.model import Transformer
from transformer.text.batching import Batch
from transformer.training.distributed import ALONE, World, sum_tensor
from transformer.training.loss import ROWS, smoothed_cross_entropy
from transformer.training.precision import use_bfloat16, use_tensor_float
from transformer.training.regularise import r_drop_cross_entropy, word_dropout
from transformer.training.schedule import learning_rate, paper_peak
from transformer.training.sections import TrainingSection

EXPLODED = 3.0
"""A negative log-likelihood is an explosion above so many times ln V, what guessing costs, plus sqrt(D): a fresh model
with tied embeddings prefers the piece that it has just read, and is wrong by a margin that grows with its width."""
_ROWS_ON_GPU = 8192
"""Rows of logits that the loss holds at a time there: as many as keep it busy."""


@dataclass(frozen=True)
class Update:
    """What came of one update, over all its micro-batches on all processes."""

    loss: float
    """Smoothed loss, in nats per target piece."""
    likelihood: float
    """Negative log-likelihood, in nats per target piece."""
    gradient_norm: float
    """Before clipping."""
    target_tokens: int
    stopped: bool
    """Whether some process was asked to stop."""
    passes: int = 1
    """How often each batch went through the model: twice under R-Drop."""


class Objective(nn.Module):
    """The model with its loss on top, as one module, because that is what DistributedDataParallel wraps."""

    def __init__(self, model: Transformer, settings: TrainingSection, mixed: bool) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self.mixed = mixed
        self.r_drop = settings.r_drop
        """alpha of R-Drop in the updates to come."""
        hidden: Callable[[Tensor, Tensor], Tensor] = model.training_hidden
        # The compiled function shares the weights; the model itself stays as it is, for evaluation and saving.
        self.hidden = torch.compile(hidden, dynamic=True) if settings.compile else hidden

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(smoothed loss, negative log-likelihood), both summed over the real target pieces."""
        settings, model = self.settings, self.model
        source = word_dropout(batch.source, settings.source_word_dropout)
        target = word_dropout(batch.target_input, settings.target_word_dropout)
        if self.r_drop:
            source, target = torch.cat((source, source)), torch.cat((target, target))
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.mixed):
            hidden = self.hidden(source, target)
        labels = batch.target_output.flatten()
        real = (labels != PAD_ID).nonzero().squeeze(1)
        weight, precise = model.projection.weight, not self.mixed
        chunk = ROWS if source.device.type == "cpu" else _ROWS_ON_GPU
        if not self.r_drop:
            rows = hidden.flatten(0, 1).index_select(0, real)
            return smoothed_cross_entropy(
                rows, weight, labels.index_select(0, real), settings.label_smoothing, chunk, precise
            )
        first, second = (half.flatten(0, 1).index_select(0, real) for half in hidden.chunk(2))
        return r_drop_cross_entropy(
            first,
            second,
            weight,
            labels.index_select(0, real),
            settings.label_smoothing,
            self.r_drop,
            chunk // 2,
            precise,
        )


class Stepper:
    """A model, its optimizer, and how many updates they have seen.

    Every random draw of a micro-batch comes from a seed made of the run's seed, the update and the place of the
    micro-batch in it. So a resumed run draws what the uninterrupted one draws, and four processes draw what one process
    with four micro-batches an update draws.
    """

    def __init__(
        self, model: Transformer, settings: TrainingSection, device: torch.device, world: World = ALONE
    ) -> None:
        self.settings = settings
        self.device = device
        self.world = world
        self.model = model.to(device).train()
        self.bfloat16 = use_bfloat16(settings.precision, device)
        use_tensor_float(settings.precision, device)
        self._loss = Objective(self.model, settings, self.bfloat16)
        self.objective: nn.Module = self._loss
        if world.size > 1:
            on_card = [device.index] if device.type == "cuda" else None
            self.objective = DistributedDataParallel(
                self.objective, device_ids=on_card, gradient_as_bucket_view=True, forward_sync_buffers=False
            )
        self.peak = settings.learning_rate or paper_peak(model.config.d_model, settings.warmup_steps)
        self.optimizer = torch.optim.Adam(
            model.parameters(),
            lr=self.peak,
            betas=(settings.beta1, settings.beta2),
            eps=settings.epsilon,
            fused=True,
        )
        self.steps = 0
        """Updates made."""

    @property
    def rate(self) -> float:
        """The learning rate of the latest update."""
        return learning_rate(max(self.steps, 1), self.settings.warmup_steps, self.peak)

    def update(
        self,
        batches: Sequence[Batch],
        target_tokens: int = 0,
        fillers: int = 0,
        stop: bool = False,
        place: str = "",
    ) -> Update:
        """Update the weights by the gradient of the mean loss per target piece of all micro-batches of all processes.

        Args:
            batches: the micro-batches of this process; as many on every process.
            target_tokens: real target pieces of the whole update, on all processes; 0: those of ``batches``.
            fillers: how many of the last ``batches`` only keep step with other processes and count for nothing.
            stop: this process was asked to stop; ``Update.stopped`` tells all of them after the same update.
            place: where in the data this is, for messages.

        Raises:
            TrainingError: the loss or the gradient is not finite, or the loss exploded, and the weights stay as they
                were before the update; or memory ran out.
        """
        pieces = target_tokens or sum(batch.target_tokens for batch in batches)
        place = f"step {self.steps + 1}{f' ({place})' if place else ''}"
        self._loss.r_drop = self.settings.r_drop if self.steps >= self.settings.r_drop_after else 0.0
        try:
            sums = self._gradients(batches, pieces, fillers)
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm or math.inf)
            report = torch.cat((sums, sums.new_tensor([float(stop)])))
            total, likelihood, stopped = sum_tensor(report, self.world).tolist()
            passes = 2 if self._loss.r_drop else 1
            update = Update(total / pieces, likelihood / pieces, float(norm), pieces, stopped > 0, passes)
            self._refuse_unsound(update, place)
            self.steps += 1
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate
            self.optimizer.step()
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            raise self._needs_memory(batches, place) from error
        finally:
            self.optimizer.zero_grad(set_to_none=True)
        return update

    def _gradients(self, batches: Sequence[Batch], pieces: int, fillers: int) -> Tensor:
        """Add up the gradients of the micro-batches; their [loss, negative log-likelihood], summed, in float64."""
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        for index, batch in enumerate(batches):
            counts = index < len(batches) - fillers
            self._seed(index * self.world.size + self.world.rank)
            with self._without_exchange(index < len(batches) - 1):  # around the forward pass too: it sets this up
                loss, likelihood = self.objective(batch.to(self.device))
                # Processes average their gradients; a sum over all pieces, divided by their number, is wanted.
                (loss * (self.world.size / pieces if counts else 0.0)).backward()
            if counts:
                sums += torch.stack((loss.detach(), likelihood)).double()
        return sums

    def _seed(self, index: int) -> None:
        seed = np.random.SeedSequence((self.settings.seed, self.steps, index)).generate_state(1)[0]
        torch.manual_seed(int(seed))

    @contextlib.contextmanager
    def _without_exchange(self, wanted: bool) -> Iterator[None]:
        if wanted and isinstance(self.objective, DistributedDataParallel):
            with self.objective.no_sync():
                yield
        else:
            yield

    def _refuse_unsound(self, update: Update, place: str) -> None:
        most = EXPLODED * math.log(self.model.config.vocab_size) + math.sqrt(self.model.config.d_model)
        for name, value, sound, rule in (
            ("loss", update.loss, math.isfinite(update.loss), "must stay finite"),
            ("gradient norm", update.gradient_norm, math.isfinite(update.gradient_norm), "must stay finite"),
            (
                "negative log-likelihood",
                update.likelihood,
                update.likelihood <= most,
                f"must stay below {most:.1f}, far above that of guessing",
            ),
        ):
            if not sound:
                remedy = (
                    "start anew with a lower training.learning_rate or more training.warmup_steps; "
                    "the last good state is kept"
                )
                raise TrainingError(problem(f"{name} at {place}", rule, value, remedy))

    def _needs_memory(self, batches: Sequence[Batch], place: str) -> TrainingError:
        rows, length = max((tuple(batch.target_input.shape) for batch in batches), key=lambda shape: math.prod(shape))
        settings = self.settings
        return TrainingError(
            f"Memory of the {self.device.type} ran out at {place}, with {rows:,} x {length:,} target positions in a "
            f"batch: lower training.batch_tokens (now {settings.batch_tokens:,}; raise training.accumulate, now "
            f"{settings.accumulate}, by as much to keep the updates as they are) or data.max_pieces, or choose a "
            "smaller model.preset."
        )


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that there was too little memory, on a GPU or not."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return "can't allocate memory" in str(error) or "not enough memory" in str(error)
