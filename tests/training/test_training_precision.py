"""Which arithmetic is chosen, whatever the machine is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from transformer.errors import TrainingError
from transformer.training.precision import choose_device, native_bfloat16, use_bfloat16, use_tensor_float

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("capabilities", "native"),
    [
        ({"architecture": "x86_64", "avx512_bf16": True}, True),
        ({"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": True}, True),
        ({"architecture": "x86_64", "avx2": True, "avx512_bf16": False}, False),
        ({"architecture": "arm64", "neon": True}, False),
        ({}, False),
    ],
)
def test_a_processor_that_says_so_computes_in_bfloat16(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, Any], native: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert native_bfloat16(CPU) is native
    assert use_bfloat16("auto", CPU) is native
    assert use_bfloat16("bfloat16", CPU) is True
    assert use_bfloat16("float32", CPU) is False


def test_a_pytorch_that_cannot_tell_means_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert native_bfloat16(CPU) is False


def test_on_cuda_the_card_is_asked_and_emulation_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def supported(including_emulation: bool = True) -> bool:
        asked.append(including_emulation)
        return True

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    assert native_bfloat16(CUDA) is True
    assert asked == [False]


@pytest.mark.parametrize(("there", "chosen"), [(True, "cuda"), (False, "cpu")])
def test_auto_takes_cuda_when_there_is_one(monkeypatch: pytest.MonkeyPatch, there: bool, chosen: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert choose_device("auto").type == chosen
    assert choose_device("cpu").type == "cpu"


def test_cuda_where_there_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(TrainingError, match=r"training\.device .*use auto or cpu"):
        choose_device("cuda")


def test_each_process_takes_the_card_of_its_own_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto", 3) == choose_device("cuda", 3) == torch.device("cuda", 3)
    assert choose_device("cpu", 3) == CPU


@pytest.mark.parametrize(
    ("precision", "device", "asked"),
    [("auto", CUDA, ["high"]), ("bfloat16", CUDA, ["high"]), ("float32", CUDA, ["highest"]), ("auto", CPU, [])],
)
def test_tensorfloat_on_a_card_unless_float32_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, precision: str, device: torch.device, asked: list[str]
) -> None:
    found: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", found.append)
    use_tensor_float(precision, device)
    assert found == asked
