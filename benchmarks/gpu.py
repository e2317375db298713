"""Training on a GPU: speed of the paper's two sizes, and whether a step there does what it does on the CPU.

First the check: one update on the GPU and one on the CPU from the same weights and the same batch, without dropout,
must agree: closely in float32 (TF32 off), and within the rounding of bfloat16. Then presets base and big (37,000
pieces) train for --seconds each, in bfloat16, on made-up pairs of about the lengths of news, through the trainer's own
feed and step. The model FLOPs utilisation (MFU) counts a padded batch whole, as the trainer's log does; "mfu_real"
counts real pieces only. The paper's own base run had 29 to 31 %.

Needs a GPU with CUDA that PyTorch finds. Exit status 1 if the check fails.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the product, from whatever folder this is run

from benchmarks.common import count, emit, leave, other_cpu, parser, read_usage, tell, wait_until_quiet
from benchmarks.pairs import NEWS, synthetic
from benchmarks.same_step import check
from transformer.config import ModelConfig
from transformer.errors import TransformerError
from transformer.nn.model import Transformer
from transformer.training.cost import batch_flops, mfu, peak_flops
from transformer.training.feed import Feed, Portion
from transformer.training.memory import peak_memory
from transformer.training.recipe import TrainingSection
from transformer.training.step import Stepper

PRESETS = ("base", "big")
VOCABULARY = 37_000
"""The paper's, for English and German (Section 5.1)."""
PAIRS = 60_000
WARM_UP = 20
"""Updates before anything is measured."""


@dataclass
class Pace:
    """What was trained in some time."""

    seconds: float = 0.0
    updates: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    positions: int = 0
    """Of both sides, padding included."""
    flops: float = 0.0
    """Of the padded batches."""
    real_flops: float = 0.0
    """Of the pieces in them."""


def train_for(
    stepper: Stepper, portions: Iterable[Portion], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> Pace:
    """Update by one portion after the other until the time is over."""
    pace, started = Pace(), clock()
    for portion in portions:
        stepper.update(portion.batches, portion.target_tokens, portion.fillers)
        for batch in portion.batches:
            rows, length = batch.source.shape
            real_lengths = batch.source_tokens / rows, batch.target_tokens / rows
            pace.flops += batch_flops(stepper.model.config, rows, length, batch.target_input.size(1))
            pace.real_flops += batch_flops(stepper.model.config, rows, *real_lengths)
            pace.source_tokens += batch.source_tokens
            pace.target_tokens += batch.target_tokens
            pace.positions += batch.source.numel() + batch.target_output.numel()
        pace.updates += 1
        pace.seconds = clock() - started  # an update returns numbers: the GPU is done but for the last step of Adam
        if pace.seconds >= seconds:
            break
    return pace


def endless(feed: Feed) -> Generator[Portion, None, None]:
    """Epoch after epoch."""
    for epoch in itertools.count():
        yield from feed.portions(epoch)


def measure(
    name: str, config: ModelConfig, settings: TrainingSection, device: torch.device, seconds: float
) -> float | None:
    """Train one size and print its line; the MFU, None for a device whose peak is not known."""
    on_card = device.type == "cuda"
    card = torch.cuda.get_device_name(device) if on_card else "cpu"
    if on_card:
        torch.cuda.reset_peak_memory_stats(device)
    torch.manual_seed(1)
    stepper = Stepper(Transformer(config), settings, device)
    examples = synthetic(PAIRS, config.vocab_size, NEWS)
    multiple = 8 if on_card else 1  # as the trainer pads
    feed = Feed(lambda _: examples, settings.batch_tokens, settings.seed, multiple=multiple, pinned=on_card)
    with contextlib.closing(endless(feed)) as portions:
        for portion in itertools.islice(portions, WARM_UP):
            stepper.update(portion.batches, portion.target_tokens, portion.fillers)
        before = read_usage()
        pace = train_for(stepper, portions, seconds)
        others = other_cpu(before, read_usage())
    peak = peak_flops(card, torch.bfloat16 if stepper.bfloat16 else torch.float32)
    share, real_share = (
        round(mfu(flops, pace.seconds, peak), 4) if peak else None for flops in (pace.flops, pace.real_flops)
    )
    tokens = pace.source_tokens + pace.target_tokens
    emit(
        benchmark="gpu",
        system="ours",
        preset=name,
        value=round(tokens / pace.seconds),
        unit="source and target tokens/s",
        threads=torch.get_num_threads(),
        other_cpu=others,
        target_tokens_per_second=round(pace.target_tokens / pace.seconds),
        mfu=share,
        mfu_real=real_share,
        peak_memory_gib=round(peak_memory(device) / 2**30, 2),
        device=card,
        precision="bfloat16" if stepper.bfloat16 else "float32",
        compile=settings.compile,
        padding=round(1.0 - tokens / pace.positions, 4),
        batch_tokens=settings.batch_tokens,
        updates=pace.updates,
        seconds=round(pace.seconds, 1),
        torch=torch.__version__,
    )
    return share


def require_cuda() -> None:
    """Go on only where there is a GPU.

    Raises:
        TransformerError: there is none; the sentence names what is missing.
    """
    if torch.cuda.is_available():
        return
    if torch.version.cuda is None:
        missing = f"a PyTorch built for CUDA, but it was {torch.__version__}: install one from pytorch.org"
    else:
        missing = "a GPU that PyTorch finds, but there is none: see nvidia-smi for the driver, and CUDA_VISIBLE_DEVICES"
    raise TransformerError(f"benchmarks/gpu.py needs {missing}.")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; the exit status."""
    options = parser(__doc__)
    options.add_argument("--preset", nargs="+", choices=PRESETS, default=list(PRESETS))
    options.add_argument("--seconds", type=count, default=30, help="of training, for each preset (30)")
    options.add_argument("--batch-tokens", type=count, default=25_000, help="on either side (25,000: Section 5.1)")
    options.add_argument("--compile", action="store_true", help="train with torch.compile")
    chosen = options.parse_args(arguments)
    require_cuda()
    wait_until_quiet(chosen.patience, chosen.noisy)
    device = torch.device("cuda", torch.cuda.current_device())
    agreed = check(ModelConfig.preset("base", VOCABULARY, dropout=0.0), device, "base")
    settings = TrainingSection(
        device="cuda", precision="bfloat16", batch_tokens=chosen.batch_tokens, compile=chosen.compile
    )
    shares = {}
    for name in dict.fromkeys(chosen.preset):
        shares[name] = {"mfu": measure(name, ModelConfig.preset(name, VOCABULARY), settings, device, chosen.seconds)}
        torch.cuda.empty_cache()
    emit(ratios=shares)
    if not agreed:
        tell("A step on this GPU differs from the CPU's by more than rounding: see the lines of gpu-check.")
    return 0 if agreed else 1


if __name__ == "__main__":
    leave(main)
