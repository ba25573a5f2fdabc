"""A terminal that is drawn on as a whole, and given back as it was, however the drawing ends."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Sequence
from types import TracebackType
from typing import Any

# The other screen, no cursor, no wrapping; and all of that back.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
# What is between the two appears at once, where the terminal knows of that.
_TAKE_WITHIN = 2.0  # seconds for a terminal that does not block writers; what it then has not taken is drawn anew
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


class Terminal:
    """Standard output as a screen, and the keys of standard input where that is the terminal."""

    def __init__(self) -> None:
        self._in = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else -1
        self._out = sys.stdout.fileno()
        self._before: list[Any] | None = None
        self._frame: tuple[str, ...] = ()
        self._entered = False

    def __enter__(self) -> Terminal:
        self.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.leave()

    @property
    def keys(self) -> int:
        """Where keys can be read; -1 where there is no keyboard."""
        return self._in

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as of now."""
        size = shutil.get_terminal_size() if not self._entered else os.get_terminal_size(self._out)
        return max(1, size.columns), max(1, size.lines)

    def enter(self) -> None:
        """Take the screen."""
        if self._in >= 0:
            self._before = termios.tcgetattr(self._in)
            tty.setcbreak(self._in, termios.TCSADRAIN)
        self._entered = True
        self._frame = ()
        self._write(_ENTER)

    def leave(self) -> None:
        """Give it back. Twice is once."""
        if not self._entered:
            return
        self._entered = False
        with contextlib.suppress(OSError):  # the terminal is gone
            self._write(_LEAVE)
        if self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._in, termios.TCSADRAIN, self._before)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines and nothing else. Nothing is cleared before: what stays as it is does not flicker."""
        frame = tuple(lines)
        if frame == self._frame or not self._entered:
            return
        self._frame = frame
        body = "\x1b[K\r\n".join(frame)
        self._write(f"{_BEGIN}\x1b[H{body}\x1b[K\x1b[J{_END}")

    def forget(self) -> None:
        """The terminal has another size, say: the next drawing draws all of it."""
        self._frame = ()

    def _write(self, text: str) -> None:
        data = memoryview(text.encode(errors="replace"))
        deadline = time.monotonic() + _TAKE_WITHIN
        while data:
            try:
                data = data[os.write(self._out, data) :]
            except BlockingIOError:  # another program that shares the terminal has made it so
                if (left := deadline - time.monotonic()) <= 0:
                    self._frame = ()
                    return
                select.select((), (self._out,), (), left)
