"""Which arithmetic a training step uses."""

from __future__ import annotations

import torch

from transformer.errors import TrainingError, problem

_BFLOAT16 = ("avx512_bf16", "amx_bf16")
"""Names that ``torch.cpu.get_capabilities`` has for it. It knows some for ARM too; whether they pay is not measured."""


def native_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 in hardware; elsewhere it would be emulated and slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    try:
        capabilities = torch.cpu.get_capabilities()
    except (AttributeError, RuntimeError):  # a PyTorch that cannot tell: float32 is right everywhere
        return False
    return device.type == "cpu" and any(capabilities.get(name) is True for name in _BFLOAT16)


def use_bfloat16(precision: str, device: torch.device) -> bool:
    """Decide a recipe's ``precision`` ("auto", "float32", "bfloat16") for a device."""
    return precision == "bfloat16" or (precision == "auto" and native_bfloat16(device))


def use_tensor_float(precision: str, device: torch.device) -> None:
    """Let float32 products on a GPU use its TensorFloat-32 units, but for a recipe that asks for "float32".

    A setting of the whole process; on a CPU it is left alone.
    """
    if device.type == "cuda":
        torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """A recipe's ``device``: "auto" is CUDA when there is one; of several cards each process takes its own.

    Raises:
        TrainingError: CUDA is asked for, and there is none.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise TrainingError(
            problem("training.device", "must be a device that PyTorch finds here", name, "use auto or cpu")
        )
    if name == "cuda" or (name == "auto" and torch.cuda.is_available()):
        return torch.device("cuda", local_rank)
    return torch.device("cpu")
