"""A sink that keeps copies of what chosen probes saw."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Recorder:
    """Copies the values of the named probes into numpy arrays and changes nothing in the computation.

    A probe that fires more than once (step by step decoding) leaves its last value.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self.values: dict[str, NDArray[np.generic]] = {}
        """By probe name, with the batch axis: float32, or bool for masks."""

    def wants(self, name: str) -> bool:
        """Whether ``name`` was asked for."""
        return name in self._names

    def receive(self, name: str, value: Tensor) -> None:
        """Keep a copy of ``value``; a view could still change after the hook."""
        self.values[name] = to_numpy(value)


def to_numpy(value: Tensor) -> NDArray[np.generic]:
    """A copy on the CPU, float32 if the tensor holds floats, with memory of its own."""
    kind = torch.float32 if value.is_floating_point() else value.dtype
    array: NDArray[np.generic] = value.detach().to(device="cpu", dtype=kind, copy=True).contiguous().numpy()
    return array
