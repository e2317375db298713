"""On what, and with which state of this program, a model was trained."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import torch


def hardware(device: torch.device) -> str:
    """What a run computes on, as its card names it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    processor = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    threads = torch.get_num_threads()
    return f"{processor}, {threads} thread{'' if threads == 1 else 's'}"


def commit() -> str:
    """The commit of this program, "unknown" outside a repository; "+" behind it if files were changed since."""
    here = Path(__file__).resolve().parent
    try:
        found, changes = (
            subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=10, check=True).stdout
            for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.strip() + ("+" if changes.strip() else "")
