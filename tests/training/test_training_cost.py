"""Costs against the model itself, PyTorch's own counter, the paper, and arithmetic on data sheets."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer.config import ModelConfig
from transformer.nn.model import Transformer
from transformer.text.batching import collate
from transformer.training.cost import (
    batch_flops,
    forward_flops,
    mfu,
    parameter_count,
    peak_flops,
    training_flops,
    training_memory,
)
from transformer.training.recipe import TrainingSection
from transformer.training.step import Stepper

SMALL = ModelConfig(
    vocab_size=53, d_model=24, heads=3, encoder_layers=3, decoder_layers=2, feed_forward=40, max_length=40
)
VARIANTS = {
    "paper": {},
    "gelu": {"activation": "gelu"},
    "norm first": {"norm_first": True},
    "two matrices": {"tie_embeddings": "target"},
    "three matrices": {"tie_embeddings": "none", "norm_first": True},
    "learned positions": {"positions": "learned"},
    "no positions": {"positions": "none", "encoder_layers": 1},
    "one head": {"heads": 1, "d_model": 10, "decoder_layers": 4},
    "every dropout": {"dropout": 0.3, "attention_dropout": 0.1, "activation_dropout": 0.2},
    "no dropout": {"dropout": 0.0},
}


@pytest.fixture(params=VARIANTS)
def config(request: pytest.FixtureRequest) -> ModelConfig:
    return dataclasses.replace(SMALL, **VARIANTS[request.param])


def ids(config: ModelConfig, rows: int, length: int) -> torch.Tensor:
    return torch.randint(4, config.vocab_size, (rows, length))


def test_parameters_are_those_of_the_model(config: ModelConfig) -> None:
    assert parameter_count(config) == sum(parameter.numel() for parameter in Transformer(config).parameters())


@pytest.mark.parametrize(("preset", "millions"), [("base", 63.1), ("big", 214.2)])
def test_parameters_of_the_paper(preset: str, millions: float) -> None:
    assert round(parameter_count(ModelConfig.preset(preset, 37_000)) / 1e6, 1) == millions


@pytest.mark.parametrize(("source", "target"), [(1, 1), (7, 5), (4, 9)])
def test_operations_are_those_that_pytorch_counts(config: ModelConfig, source: int, target: int) -> None:
    model, rows = Transformer(config).train(), 3
    with FlopCounterMode(display=False) as forward:
        logits = model.project(model.training_hidden(ids(config, rows, source), ids(config, rows, target)))
    assert forward.get_total_flops() == rows * forward_flops(config, source, target)
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    both = forward.get_total_flops() + backward.get_total_flops()
    assert both == rows * training_flops(config, source, target) == batch_flops(config, rows, source, target)


@pytest.mark.parametrize("rows", [3, 600])  # one chunk of the loss, and several
def test_an_update_does_what_is_counted_for_its_batch(rows: int) -> None:
    batch = collate([([2, 5, 6, 7, 3], [8, 9])] * rows, range(rows))
    stepper = Stepper(Transformer(SMALL), TrainingSection(precision="float32"), torch.device("cpu"))
    with FlopCounterMode(display=False) as counter:
        stepper.update([batch])
    assert counter.get_total_flops() == batch_flops(SMALL, rows, 5, 3)


def test_a_long_pair_costs_more_than_its_pieces_in_short_ones() -> None:
    assert training_flops(SMALL, 40, 40) > 4 * training_flops(SMALL, 10, 10)
    mean = batch_flops(SMALL, 2, 15, 15)
    real = training_flops(SMALL, 10, 10) + training_flops(SMALL, 20, 20)
    assert 0.9 * real < mean < real
    assert real < batch_flops(SMALL, 2, 20, 20)


def test_utilisation_is_a_share() -> None:
    assert mfu(3e14, 2.0, 3e14) == pytest.approx(0.5)
    assert mfu(0.0, 0.0, 3e14) == 0.0


@pytest.mark.parametrize(
    ("name", "multiprocessors", "per_clock", "gigahertz"),
    [
        # Operations that a multiprocessor's tensor cores do in a clock with 16-bit factors, and the boost clock.
        ("Tesla V100-SXM2-16GB", 80, 1024, 1.53),
        ("Tesla T4", 40, 1024, 1.59),
        ("NVIDIA A10", 72, 1024, 1.695),
        ("NVIDIA A100-SXM4-80GB", 108, 2048, 1.41),
        ("NVIDIA A100 80GB PCIe", 108, 2048, 1.41),
        ("NVIDIA GeForce RTX 3090", 82, 512, 1.695),
        ("NVIDIA L4", 58, 1024, 2.04),
        ("NVIDIA L40S", 142, 1024, 2.52),
        ("NVIDIA GeForce RTX 4090", 128, 512, 2.52),
        ("NVIDIA H100 80GB HBM3", 132, 4096, 1.83),
        ("NVIDIA H100 PCIe", 114, 4096, 1.62),
        ("NVIDIA H200", 132, 4096, 1.83),
        ("NVIDIA B200", 148, 8192, 1.85),
    ],
)
def test_peaks_follow_from_the_data_sheets(name: str, multiprocessors: int, per_clock: int, gigahertz: float) -> None:
    peak = peak_flops(name, torch.float16)
    assert peak == pytest.approx(multiprocessors * per_clock * gigahertz * 1e9, rel=0.02)
    older = "V100" in name or "T4" in name
    assert peak_flops(name, torch.bfloat16) == (None if older else peak)
    single, tensor = (peak_flops(name, torch.float32, tensor_float=on) for on in (False, True))
    assert single is not None
    assert tensor is not None
    assert single <= tensor < peak
    assert (single == tensor) == (older or "GeForce" in name)


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        "",
        "NVIDIA A10G",
        "NVIDIA GeForce GTX 1080",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "GRID A100-10C",
        "NVIDIA GB200",
        "AMD Instinct MI300X",
    ],
)
def test_no_peak_is_better_than_a_wrong_one(name: str) -> None:
    assert peak_flops(name, torch.bfloat16) is None
    assert peak_flops(name, torch.float32) is None


def test_float32_follows_the_setting_of_pytorch() -> None:
    before = torch.get_float32_matmul_precision()
    try:
        for setting, tensor_float in (("highest", False), ("high", True)):
            torch.set_float32_matmul_precision(setting)
            assert peak_flops("NVIDIA A100", torch.float32) == peak_flops("NVIDIA A100", torch.float32, tensor_float)
    finally:
        torch.set_float32_matmul_precision(before)
    assert peak_flops("NVIDIA A100", torch.float64) is None


def kept_bytes(config: ModelConfig, rows: int, source: int, target: int, bfloat16: bool) -> int:
    """What autograd keeps of a forward pass, each storage counted once, parameters and buffers left out."""
    model = Transformer(config).train()
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=bfloat16),
    ):
        model.training_hidden(ids(config, rows, source), ids(config, rows, target)).sum()
    return sum(storage.nbytes() for address, storage in kept.items() if address not in own)


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize(("source", "target"), [(30, 20), (12, 36)])
def test_activations_are_what_autograd_keeps(config: ModelConfig, source: int, target: int, bfloat16: bool) -> None:
    rows = 8
    estimate = training_memory(config, rows * max(source, target), source, target, bfloat16)
    assert estimate.activations == pytest.approx(kept_bytes(config, rows, source, target, bfloat16), rel=0.02)


def test_memory_has_its_parts() -> None:
    config = ModelConfig.preset("base", 37_000)
    memory = training_memory(config, 4096, 32, 32)
    assert memory.weights == memory.gradients == 4 * parameter_count(config)
    assert memory.moments == 2 * memory.weights
    assert memory.total == sum(dataclasses.asdict(memory).values())
    assert training_memory(config, 4096, 32, 32, bfloat16=True).total < memory.total
    assert training_memory(config, 8192, 32, 32).activations > 1.9 * memory.activations
    on_gpu = training_memory(config, 4096, 128, 128, on_gpu=True)
    assert on_gpu.activations < training_memory(config, 4096, 128, 128).activations
    assert on_gpu.holes == on_gpu.kernels == 0
    several = training_memory(config, 4096, 32, 32, bfloat16=True, shapes=50)
    assert several.kernels > training_memory(config, 4096, 32, 32, bfloat16=True, shapes=1).kernels == 0
    assert training_memory(config, 4096, 32, 32, shapes=50).kernels == 0
    dropped = dataclasses.replace(config, attention_dropout=0.1)  # for which the fused kernel is not used
    pattern = 4 * 32 * 8 * 18 * 128 * 128
    assert training_memory(dropped, 4096, 128, 128, on_gpu=True).activations > on_gpu.activations + pattern


MEASURE = """
import json, sys, torch
from transformer.config import ModelConfig
from transformer.nn.model import Transformer
from transformer.text.batching import collate
from transformer.training.recipe import TrainingSection
from transformer.training.step import Stepper

preset, pieces, rows, length, precision = json.loads(sys.argv[1])
torch.set_num_threads(1)

def train(config, rows, length, steps):
    stepper = Stepper(Transformer(config), TrainingSection(precision=precision), torch.device("cpu"))
    pair = ([2] + [5] * (length - 2) + [3], [6] * (length - 1))
    for _ in range(steps):
        stepper.update([collate([pair] * rows, range(rows))])

train(ModelConfig(20, d_model=8, heads=2, encoder_layers=1, decoder_layers=1, feed_forward=8), 2, 4, 1)  # loads kernels
def kilobytes(name):
    # not ru_maxrss, in which the memory of the process that started this one counts too
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))

before = kilobytes("VmRSS")
train(ModelConfig.preset(preset, pieces), rows, length, 4)
print((kilobytes("VmHWM") - before) * 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("preset", "pieces", "rows", "length", "precision"),
    [("tiny", 4000, 64, 32, "float32"), ("small", 4000, 32, 24, "bfloat16")],
)
def test_the_whole_is_what_a_process_takes(preset: str, pieces: int, rows: int, length: int, precision: str) -> None:
    chosen = json.dumps([preset, pieces, rows, length, precision])
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-c", MEASURE, chosen],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    estimate = training_memory(
        ModelConfig.preset(preset, pieces), rows * length, length, length, precision == "bfloat16"
    )
    assert estimate.total / 1.5 < int(result.stdout) < 1.5 * estimate.total
