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


def choose_device(name: str) -> torch.device:
    """A recipe's ``device``: "auto" is CUDA when there is one.

    Raises:
        TrainingError: CUDA is asked for, and there is none.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise TrainingError(
            problem("training.device", "must be a device that PyTorch finds here", name, "use auto or cpu")
        )
    return torch.device(name)
