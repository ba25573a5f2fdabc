"""One rank's page of shared memory: what it tells its agent, and the few words that the agent tells it.

The agent makes the page, the rank maps it. It has cells, 8 bytes each that are stored in one go, and records
(``DoubleBuffer``). Whatever stands in a page, reading it yields a value or None: a program can write what it likes over
its own memory, and nothing but numbers and short texts is taken from there.
"""

from __future__ import annotations

import math
import mmap
import os
import signal
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from elaunch.beat_record import Beat, beat_in, packed_beat
from elaunch.double_buffer import DoubleBuffer
from elaunch.packing import Cursor, several, text
from elaunch.report_page import SIZE as REPORTS
from elaunch.report_page import ReportPage
from elaunch.start_record import StartRecord, packed, unpacked

T = TypeVar("T")

PAGE: Final = "ELAUNCH_PROGRESS_PAGE"
"""The variable that names the file of a rank's page."""
STACKS: Final = "ELAUNCH_STACKS"
"""The variable that names the file that a rank writes the stacks of its threads to."""
FLIGHT: Final = "ELAUNCH_FLIGHT_RECORD"
"""The variable that names the file that a rank writes torch's flight record to."""
STACKS_SIGNAL: Final = signal.SIGRTMAX - 5
"""Has a rank write its stacks, where its page says that there is a handler. Real-time signals are rarely used."""
_PROGRESS = 64 << 10
_START = 8 << 10
SIZE: Final = _PROGRESS + REPORTS + _START

_MAGIC = b"elaunch\x03"  # the last byte is the version of the layout
_CELLS = slice(0, 256)
_NOTICE_AT, _SECTIONS_AT, _BEAT_AT = slice(1 << 10, 2 << 10), slice(2 << 10, 16 << 10), slice(16 << 10, _PROGRESS)
_REPORTS_AT, _START_AT = slice(_PROGRESS, _PROGRESS + REPORTS), slice(_PROGRESS + REPORTS, SIZE)
_SECTION = struct.Struct("<Qd")
_DEADLINE = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class OpenSection:
    """A section of the program that has begun and not ended. No two have the same number; ``timeout`` in seconds."""

    number: int
    name: str
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """The program is to stop: until when, in seconds of CLOCK_MONOTONIC, and why."""

    deadline: float
    reason: str


class _Cell:
    def __init__(self, index: int) -> None:
        self._index = index

    def __get__(self, page: Page, owner: type) -> int:
        return page.cells[self._index]

    def __set__(self, page: Page, value: int) -> None:
        page.cells[self._index] = value


class Page:
    """A mapped page.

    ``signal`` makes the rank write its stacks, and is 0 while there is no handler for it. ``asked`` and ``answered``
    number the agent's requests for evidence and the rank's answers. ``step`` is -1 before the first. ``listens`` is 1
    once the program has asked whether it is to stop, ``noticed`` 1 while there is a notice, ``stopping`` 1 once the
    program has heard it. ``silent`` is 1 where nobody beats, though a process has claimed the page. ``reports`` is what
    it tells of checkpoints. ``starts`` counts the records of its start. The agent says who the rank is: ``rank``,
    ``world_size``, ``local_rank`` and ``local_world_size``.
    ``spared`` is 1 where SIGTERM does nothing to it, as notice comes in its place.
    """

    step = _Cell(1)
    stopping = _Cell(2)
    signal = _Cell(3)
    asked = _Cell(4)
    answered = _Cell(5)
    noticed = _Cell(6)
    listens = _Cell(7)
    silent = _Cell(8)
    starts = _Cell(9)
    rank = _Cell(10)
    world_size = _Cell(11)
    local_rank = _Cell(12)
    local_world_size = _Cell(13)
    spared = _Cell(14)

    def __init__(self, fd: int) -> None:
        """Map the page behind a descriptor. Raises OSError, and ValueError where it is none."""
        if os.fstat(fd).st_size != SIZE:
            raise ValueError("this is no page of elaunch: its size is another")
        self._memory = mmap.mmap(fd, SIZE)
        if self._memory[: len(_MAGIC)] != _MAGIC:
            self._memory.close()
            raise ValueError("this is no page of elaunch, or one of another version")
        self._view = memoryview(self._memory)
        self.cells = self._view[_CELLS].cast("q")
        self._notice = DoubleBuffer(self._view[_NOTICE_AT])
        self._sections = DoubleBuffer(self._view[_SECTIONS_AT])
        self._beat = DoubleBuffer(self._view[_BEAT_AT])
        self.reports = ReportPage(self._view[_REPORTS_AT], self.cells)
        self._start = DoubleBuffer(self._view[_START_AT])

    @classmethod
    def make(cls, fd: int) -> Page:
        """Make the empty file behind a descriptor a page. Raises OSError."""
        os.ftruncate(fd, SIZE)
        os.pwrite(fd, _MAGIC, 0)
        page = cls(fd)
        page.step = -1
        return page

    def write_beat(self, beat: Beat) -> None:
        """Groups that do not fit are left out, the last first."""
        self._beat.write(packed_beat(beat, self._beat.room))

    def beat(self) -> Beat | None:
        """The last beat; None before the first, and where it cannot be read."""
        return _parsed(self._beat, beat_in)

    def write_sections(self, sections: Sequence[OpenSection]) -> None:
        """The open sections, outermost first. Where not all fit, the innermost are left out."""
        packed = (_SECTION.pack(s.number, -1.0 if s.timeout is None else s.timeout) + text(s.name) for s in sections)
        self._sections.write(several(packed, self._sections.room))

    def sections(self) -> tuple[OpenSection, ...]:
        return _parsed(self._sections, lambda cursor: cursor.several(_section)) or ()

    def write_notice(self, notice: Notice | None) -> None:
        """Give the program notice; None takes it back."""
        self._notice.write(b"" if notice is None else _DEADLINE.pack(notice.deadline) + text(notice.reason))
        if notice is None:
            self.stopping = 0
        self.noticed = int(notice is not None)

    def notice(self) -> Notice | None:
        return _parsed(self._notice, _noticed)

    def write_start(self, record: StartRecord) -> None:
        """How the rank's start stands."""
        self._start.write(packed(record, self._start.room))
        self.starts += 1

    def start(self) -> StartRecord | None:
        """The last record of the rank's start; None before the first, and where it cannot be read."""
        try:
            return unpacked(self._start.read() or b"")
        except ValueError:
            return None

    def close(self) -> None:
        """Unmap it: nothing may be read or written after."""
        for record in (self._notice, self._sections, self._beat, self._start):
            record.release()
        self.reports.release()
        self.cells.release()
        self._view.release()
        self._memory.close()


def _parsed(record: DoubleBuffer, parse: Callable[[Cursor], T]) -> T | None:
    payload = record.read()
    if not payload:
        return None
    try:
        return parse(Cursor(payload))
    except ValueError:
        return None


def _section(cursor: Cursor) -> OpenSection:
    number, timeout = cursor.take(_SECTION)
    return OpenSection(number, cursor.text(), timeout if 0 <= timeout < math.inf else None)


def _noticed(cursor: Cursor) -> Notice:
    (deadline,) = cursor.take(_DEADLINE)
    return Notice(deadline, cursor.text())
