"""How far something is that reads or writes many bytes: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from elaunch.cli.ckpt_show import size
from elaunch.cli.table import plain

_WIDTH = 24
_EVERY = 0.1  # seconds between two drawings


def bar(part: float, width: int = _WIDTH) -> str:
    """``[######......]`` for a part of the whole, from 0 to 1: the one look of all long work."""
    filled = int(min(max(part, 0.0), 1.0) * width)
    return f"[{'#' * filled}{'.' * (width - filled)}]"


class ProgressBar:
    """Counts up to ``whole`` bytes. To be used in ``with``: the bar is wiped away in the end."""

    def __init__(self, stream: TextIO, name: str, whole: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._shown = stream.isatty()
        self._name = plain(name)
        self._whole = whole
        self._clock = clock
        self._began = self._drawn = clock()
        self._done = 0
        self._length = 0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._length:
            self._write("")
            self._write("")

    def advance(self, number: int) -> None:
        """So many bytes more are done."""
        self._done += number
        if self._shown and self._clock() - self._drawn >= _EVERY:
            self._drawn = self._clock()
            self._write(self._line())

    def _line(self) -> str:
        part = min(self._done / self._whole, 1.0) if self._whole else 1.0
        rate = self._done / max(self._drawn - self._began, 1e-9)
        return f"{self._name} {bar(part)} {part:4.0%}  {size(self._done)} of {size(self._whole)}, {size(rate)}/s"

    def _write(self, line: str) -> None:
        self._stream.write("\r" + line.ljust(self._length))
        self._stream.flush()
        self._length = len(line)
