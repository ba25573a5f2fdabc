"""Standard output and error as they are in the field: closed, full, without a reader, or one that does not read."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import ClassVar, Protocol, TextIO

_PIECE = select.PIPE_BUF  # a pipe that polls as writable takes so many bytes at once
_MOST_HELD = 1 << 18  # bytes
_PATIENCE = 0.2  # seconds for a reader that is slow; one that was too slow once gets none until it reads again


class Writable(Protocol):
    """What lines are written to."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...

    def isatty(self) -> bool: ...


class Console:
    """Text to a file descriptor, with no buffer and no lock that could hold up the end of the process.

    What cannot be written is lost, and nothing else follows from it. With ``patience`` in seconds a write gives up
    on a reader that does not read; None waits for as long as it takes. What is given up on for now is kept, so much of
    it as there is room for, and written before what comes next: a reader that is only slow, under a flood of what
    ranks print, misses nothing of it.
    """

    _held: ClassVar[dict[int, bytes]] = {}

    def __init__(self, fd: int, patience: float | None = None) -> None:
        self._fd = fd
        self._patience = patience
        self._stuck = False

    def write(self, text: str) -> None:
        """Write it, or as much as is taken."""
        data = memoryview(self._held.pop(self._fd, b"") + text.encode(errors="backslashreplace"))
        while data and self._writable():
            try:
                data = data[os.write(self._fd, data[:_PIECE]) :]
            except BlockingIOError:
                self._stuck = self._patience is not None
            except OSError:
                return  # closed, full, or its reader is gone
        if data:
            self._held[self._fd] = bytes(data[:_MOST_HELD])  # what came first tells most

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def _writable(self) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        if self._patience is None:
            poll.poll()
            return True
        end = time.monotonic() + (0.0 if self._stuck else self._patience)
        self._stuck = not poll.poll(max(0.0, end - time.monotonic()) * 1000)
        return not self._stuck


def own_words(patience: float = _PATIENCE) -> Writable:
    """Standard error for what elaunch itself says: the agent is never held up by it for long."""
    return _of(sys.stderr, 2, patience)


def shown(stream: TextIO | None, fd: int) -> Writable:
    """Standard output or error for what the ranks say, which may wait for its reader."""
    return _of(stream, fd, None)


def _of(stream: TextIO | None, fd: int, patience: float | None) -> Writable:
    """A stream that somebody has put in the place of the standard one is used as it is."""
    original = sys.__stdout__ if fd == 1 else sys.__stderr__
    return Console(fd, patience) if stream is None or stream is original else stream


def hold_standard_streams() -> None:
    """Put /dev/null in the place of standard streams that are closed.

    Else the next file or socket that is opened would be standard output.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, and so this one
            os.set_inheritable(fd, True)
