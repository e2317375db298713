"""Memory from the C library that a training step need not ask the system for again and again."""

from __future__ import annotations

import ctypes
import sys

_TRIM, _PAD, _MAP = -1, -2, -3
"""Numbers of the options of glibc's mallopt(3): M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD."""
_LARGEST_MAPPING = 32 << 20
"""The most that M_MMAP_THRESHOLD may be."""
_HUGE = 2 << 20
"""Bytes of a huge page."""
_HUGEPAGE = 14
"""MADV_HUGEPAGE of madvise(2)."""
_BLOCK = 16 << 20


def keep_memory(reserve: int = 3 << 29) -> bool:
    """Let freed memory be kept and used again, and ask for huge pages for the first ``reserve`` bytes of it.

    By default glibc gives large blocks back to the system when they are freed, so every step pays for fresh pages, and
    for their translation at every pass over them. Only addresses are reserved: a page takes memory once it is written.
    On anything but Linux with glibc nothing is done.

    Args:
        reserve: less than 2 GiB, the largest amount that glibc can be told to keep.

    Returns:
        Whether it was done, as far as the C library tells.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        library = ctypes.CDLL(None, use_errno=True)
        options = ((_MAP, _LARGEST_MAPPING), (_TRIM, 2**31 - 1), (_PAD, 64 << 20))
        if not all(library.mallopt(option, value) for option, value in options):
            return False
        library.sbrk.restype, library.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
        library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        library.free.argtypes = [ctypes.c_void_p]
        library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        blocks = [library.malloc(_BLOCK) for _ in range(reserve // _BLOCK)]  # a NULL is None, and free takes it
        for block in blocks:
            library.free(block)
        top = library.sbrk(0)
        if all(blocks) and max(blocks) < top and top - min(blocks) < 2 * reserve:  # they lie in the heap
            start = -(-min(blocks) // _HUGE) * _HUGE
            library.madvise(start, (top - start) // _HUGE * _HUGE, _HUGEPAGE)
    except (OSError, AttributeError):  # another C library
        return False
    return True
