"""Which arithmetic a training step uses."""

from __future__ import annotations

import torch


def native_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 in hardware; elsewhere it would be emulated and slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported())


def use_bfloat16(precision: str, device: torch.device) -> bool:
    """Decide a recipe's ``precision`` ("auto", "float32", "bfloat16") for a device."""
    return precision == "bfloat16" or (precision == "auto" and native_bfloat16(device))


def choose_device(name: str) -> torch.device:
    """A recipe's ``device``: "auto" is CUDA when there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)
