"""How much memory a run has needed."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import torch


def peak_memory(device: torch.device) -> int:
    """The most bytes so far: allocated on the GPU, or resident in this process; 0 where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0
    with contextlib.suppress(OSError, StopIteration):  # Linux; its ru_maxrss counts the process that started this one
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
