"""Gather the memory of the warm process in huge pages, while nothing else is to be done.

A fork copies the page tables and the end of a child takes them down: with huge pages both take a fraction of the
time. What children write to is still copied by pages of 4 KiB.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator

_HUGE = 2 << 20
_MADV_COLLAPSE = 25  # Linux 6.1

_libc = ctypes.CDLL(None)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def gathering() -> Iterator[None]:
    """Each step looks at 2 MiB, and takes a few milliseconds at most. None where huge pages are switched off."""
    if not _allowed():
        return
    for begin, end in list(_heap()):
        for address in range(-(-begin // _HUGE) * _HUGE, end - _HUGE + 1, _HUGE):
            if _present(address) >= _HUGE // mmap.PAGESIZE // 2:  # what is missing would be filled with zeros
                _libc.madvise(address, _HUGE, _MADV_COLLAPSE)  # it may be in vain, where memory is short
            yield


def _allowed() -> bool:
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
            return "[never]" not in file.read()
    except OSError:
        return False


def _present(address: int) -> int:
    """How many of the pages of 2 MiB are in memory."""
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        file.seek(address // mmap.PAGESIZE * 8)
        entries = file.read(_HUGE // mmap.PAGESIZE * 8)
    return sum(entry >> 7 for entry in entries[7::8])  # the highest bit of each 8 bytes


def _heap() -> Iterator[tuple[int, int]]:
    """Begin and end of the private writable memory that is no file's."""
    with open("/proc/self/maps") as file:
        for line in file:
            span, access, _, _, inode, *name = line.split()
            if access == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
                begin, end = (int(part, 16) for part in span.split("-"))
                yield begin, end
