"""Files as they are written, at their end, and read, by position."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from elaunch.checkpoint.storages import writeback

_ONE_WRITE = 1 << 30  # the kernel takes 2 GiB at most


class PosixSink:
    """A new file, written at its end."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._end = 0

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._fd, view[:_ONE_WRITE])
            writeback.start(self._fd, self._end, written)
            view, self._end = view[written:], self._end + written

    def finish(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class PosixSource:
    """A file that is read by position."""

    def __init__(self, path: Path) -> None:
        self._fd = opened(path)
        self._path = path
        self.size = os.fstat(self._fd).st_size

    def read_into(self, offset: int, view: memoryview) -> None:
        while view:
            got = os.preadv(self._fd, [view], offset)
            if not got:
                raise OSError(errno.EIO, f"ends at byte {offset}", str(self._path))
            view, offset = view[got:], offset + got

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def opened(path: Path) -> int:
    """Open a file to read. Raises OSError for a pipe or a device, which would be waited for, or never end."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, "is no regular file", str(path))
    return fd
