"""Let the kernel begin to write to the disk while a file is still being made, so that fsync finds little left to do."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

_WRITE = 2  # SYNC_FILE_RANGE_WRITE of linux/fs.h: begin, and do not wait


def _found() -> Callable[[int, int, int, int], int] | None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if function is None:  # not Linux
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return function  # type: ignore[no-any-return]


_sync_file_range = _found()


def start(fd: int, offset: int, length: int) -> None:
    """Begin to write these bytes of a file. Only a hint: a file system that cannot do it loses nothing."""
    if _sync_file_range is not None:
        _sync_file_range(fd, offset, length, _WRITE)
