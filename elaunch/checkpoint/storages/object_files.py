"""Objects as they are written, in parts, and read, by ranges: each request has its price, however little it brings."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections import deque
from typing import Any

from elaunch.checkpoint.storages.object_errors import as_os_errors

PART = 32 << 20  # of an upload: stores take 10 000 of them at most, so that a rank's file may have 300 GB
_WINDOW = 32 << 20  # what is read ahead
_WINDOWS = 8  # for that many objects at once: a rank may read from the files of hundreds
_REQUEST = 8 << 20  # requests of a window go out side by side
_NOTHING = (0, b"")


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
    """An object that is read by ranges. Where one read follows on another, what comes next is fetched with it.

    ``ahead`` are the sources of a storage that hold such a window; only so many may.
    """

    def __init__(self, fs: Any, path: str, size: int, ahead: deque[ObjectSource]) -> None:
        self.size = size
        self._fs = fs
        self._path = path
        self._ahead = ahead
        self._lock = threading.Lock()
        self._next = 0
        self._most = _WINDOW
        self._window = _NOTHING

    def read_into(self, offset: int, view: memoryview) -> None:
        if not len(view):
            return
        if offset + len(view) > self.size:
            raise OSError(errno.EIO, f"ends at byte {self.size}", self._path)
        with self._lock:
            follows, self._next = offset == self._next, offset + len(view)
            start, data = self._window  # another thread may take it away
            if follows and not start <= offset < start + len(data):
                start, data = self._look_ahead(offset, len(view))
        here = 0
        if start <= offset < start + len(data):
            at = offset - start
            here = min(len(view), len(data) - at)
            view[:here] = memoryview(data)[at : at + here]
        for piece in self._fetch(offset + here, len(view) - here):
            view[here : here + len(piece)] = piece
            here += len(piece)

    def close(self) -> None:
        self._drop()

    def _look_ahead(self, offset: int, length: int) -> tuple[int, bytes]:
        self._drop()  # first: two of them would be too many
        while len(self._ahead) >= _WINDOWS:
            with contextlib.suppress(IndexError):
                self._ahead[0]._lose()
        made = offset, b"".join(self._fetch(offset, min(max(self._most, length), self.size - offset)))
        self._window = made
        self._ahead.append(self)
        return made

    def _lose(self) -> None:
        """To one that needs it more; what was fetched in vain is less the next time."""
        self._most //= 2
        self._drop()

    def _drop(self) -> None:
        self._window = _NOTHING
        with contextlib.suppress(ValueError):
            self._ahead.remove(self)

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
