"""A rank whose output goes to a file outlasts a full disk: what does not fit is lost, and the program goes on.

A print that raises would end the training for want of a line of its log. The agent tells of the disk.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from typing import Any

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ESTALE)


class Lossy(io.FileIO):
    """A file to which a write never fails for want of room."""

    def write(self, data: Any) -> int:
        """The number of bytes that are written, or lost."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            return memoryview(data).nbytes


def outlast() -> None:
    """Have this process's standard output and error be so, where they are files and still as Python opened them."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__") and type(stream) is io.TextIOWrapper and _is_file(fd):
            lossy = _wrapped(stream, fd)
            setattr(sys, name, lossy)
            setattr(sys, f"__{name}__", lossy)


def _wrapped(stream: io.TextIOWrapper, fd: int) -> io.TextIOWrapper:
    stream.flush()
    raw = Lossy(fd, "wb", closefd=False)
    raw.name = stream.name
    text = io.TextIOWrapper(
        raw if isinstance(stream.buffer, io.FileIO) else io.BufferedWriter(raw),  # type: ignore[arg-type,unused-ignore]
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    text.mode = "w"  # type: ignore[misc,unused-ignore]
    return text


def _is_file(fd: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return False
