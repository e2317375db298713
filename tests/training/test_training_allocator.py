"""Freed memory is used again instead of being asked for anew."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import torch
from transformer.training.allocator import keep_memory

done = keep_memory(256 << 20) if sys.argv[1] == "keep" else False
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        blocks = [torch.ones(3 << 20) for _ in range(10)]  # as a forward pass holds them, until the backward pass
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(done, faults())
"""


def measured(how: str) -> tuple[str, int]:
    # Left to itself glibc learns in some runs to keep such blocks, by chance of where they lie; told a limit, never.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=120, check=True, env=environment
    )
    done, faults = ended.stdout.split()
    return done, int(faults)


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc", reason="only Linux's C library is told"
)
def test_pages_are_asked_for_once() -> None:
    assert measured("leave")[1] > 1000  # as it is without: every block has fresh pages
    done, faults = measured("keep")
    assert done == "True"
    assert faults < 100


def test_another_system_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformer.training.allocator import keep_memory

    monkeypatch.setattr(sys, "platform", "win32")
    assert keep_memory() is False


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    from transformer.training.allocator import keep_memory

    class Musl:
        def __init__(self, *_: object, **__: object) -> None:
            pass

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", Musl)
    assert keep_memory() is False
