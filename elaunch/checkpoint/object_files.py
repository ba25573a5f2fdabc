"""Objects as they are written, in parts, and read, by ranges: each request has its price, however little it brings."""

from __future__ import annotations

import contextlib
import errno
import threading
from typing import Any

from elaunch.checkpoint.object_errors import as_os_errors

PART = 32 << 20  # of an upload: stores take 10 000 of them at most, so that a rank's file may have 300 GB
_WINDOW = 32 << 20  # what is read ahead
_REQUEST = 8 << 20  # requests of a window go out side by side


class ObjectSink:
    """A new object, there as a whole once it is finished, or not at all."""

    def __init__(self, fs: Any, path: str) -> None:
        self._fs = fs
        self._path = path
        self._over = False
        with as_os_errors(path):
            self._file = fs.open(path, "wb", block_size=PART, autocommit=False)

    def write(self, data: bytes | memoryview) -> None:
        with as_os_errors(self._path):
            self._file.write(data)

    def finish(self) -> None:
        with as_os_errors(self._path):
            self._file.close()
            if hasattr(self._file, "commit"):  # of other files closing is that
                self._file.commit()
        self._over = True

    def close(self) -> None:
        """What was uploaded of an object that was not finished is taken back."""
        if self._over:
            return
        self._over = True
        with as_os_errors(self._path):
            if hasattr(self._file, "discard"):
                self._file.discard()
            if hasattr(self._file, "forced"):  # else it would be uploaded when it is collected as garbage
                self._file.closed = True
            with contextlib.suppress(FileNotFoundError):  # in some file systems it is seen as soon as it is opened
                self._fs.rm_file(self._path)


class ObjectSource:
    """An object that is read by ranges. Where one read follows on another, what comes next is fetched with it."""

    def __init__(self, fs: Any, path: str, size: int) -> None:
        self.size = size
        self._fs = fs
        self._path = path
        self._lock = threading.Lock()
        self._next = 0
        self._start = 0
        self._window = b""

    def read_into(self, offset: int, view: memoryview) -> None:
        if not len(view):
            return
        if offset + len(view) > self.size:
            raise OSError(errno.EIO, f"ends at byte {self.size}", self._path)
        with self._lock:
            follows, self._next = offset == self._next, offset + len(view)
            if follows and not self._has(offset, 1):
                self._window = b""  # first: two of them would be too many
                self._window = b"".join(self._fetch(offset, min(max(_WINDOW, len(view)), self.size - offset)))
                self._start = offset
            here = min(len(view), len(self._window) - (offset - self._start)) if self._has(offset, 1) else 0
            if here:
                at = offset - self._start
                view[:here] = memoryview(self._window)[at : at + here]
        for piece in self._fetch(offset + here, len(view) - here):
            view[here : here + len(piece)] = piece
            here += len(piece)

    def close(self) -> None:
        self._window = b""

    def _has(self, offset: int, length: int) -> bool:
        return self._start <= offset and offset + length <= self._start + len(self._window)

    def _fetch(self, offset: int, length: int) -> list[bytes]:
        """The bytes from ``offset`` on, in pieces. Raises OSError."""
        if not length:
            return []
        starts = list(range(offset, offset + length, _REQUEST))
        ends = [min(start + _REQUEST, offset + length) for start in starts]
        with as_os_errors(self._path):
            pieces: list[bytes] = self._fs.cat_ranges([self._path] * len(starts), starts, ends, on_error="raise")
        for start, end, piece in zip(starts, ends, pieces, strict=True):
            if len(piece) != end - start:
                raise OSError(errno.EIO, f"ends at byte {start + len(piece)}", self._path)
        return pieces
