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
from functools import lru_cache
from typing import Final, TypeVar

from elaunch.double_buffer import DoubleBuffer
from elaunch.packing import Cursor, several, text
from elaunch.progress import GroupProgress
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
_BEAT = struct.Struct("<QQdd")
_GROUP = struct.Struct("<IQQ")
_RUN = struct.Struct("<III")
_SECTION = struct.Struct("<Qd")
_DEADLINE = struct.Struct("<d")
_MOST_RANKS = 1 << 20


@dataclass(frozen=True, slots=True)
class Beat:
    """What the rank's thread saw at its last beat. ``moves`` counts how often the main thread's place had changed."""

    beats: int
    moves: int = 0
    own_seconds: float = 0.0
    waited_seconds: float = 0.0
    where: str = ""
    groups: tuple[GroupProgress, ...] = ()


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
        head = _BEAT.pack(beat.beats, beat.moves, beat.own_seconds, beat.waited_seconds) + text(beat.where)
        self._beat.write(head + several(map(_packed_group, beat.groups), self._beat.room - len(head)))

    def beat(self) -> Beat | None:
        """The last beat; None before the first, and where it cannot be read."""
        return _parsed(self._beat, _beat)

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


def _beat(cursor: Cursor) -> Beat:
    beats, moves, own, waited = cursor.take(_BEAT)
    if not (math.isfinite(own) and math.isfinite(waited)):
        raise ValueError("no number of seconds")
    return Beat(beats, moves, own, waited, cursor.text(), cursor.several(_group))


def _section(cursor: Cursor) -> OpenSection:
    number, timeout = cursor.take(_SECTION)
    return OpenSection(number, cursor.text(), timeout if 0 <= timeout < math.inf else None)


def _noticed(cursor: Cursor) -> Notice:
    (deadline,) = cursor.take(_DEADLINE)
    return Notice(deadline, cursor.text())


def _packed_group(group: GroupProgress) -> bytes:
    head = _GROUP.pack(group.size, group.started, group.finished) + text(group.name) + text(group.collective)
    return head + _packed_ranks(group.ranks)


def _group(cursor: Cursor) -> GroupProgress:
    size, started, finished = cursor.take(_GROUP)
    name, collective = cursor.text(), cursor.text()
    return GroupProgress(name, size, started, finished, collective, _ranks(cursor.block(_RUN)))


@lru_cache(maxsize=256)
def _packed_ranks(ranks: tuple[int, ...]) -> bytes:
    return several([_RUN.pack(*run) for run in _runs(ranks)], 1 << 16)


@lru_cache(maxsize=1024)
def _ranks(packed: bytes) -> tuple[int, ...]:
    runs = list(_RUN.iter_unpack(packed))
    if sum(count for _, _, count in runs) > _MOST_RANKS:
        raise ValueError("more ranks than there can be")
    return tuple(first + step * n for first, step, count in runs for n in range(count))


def _runs(ranks: Sequence[int]) -> list[tuple[int, int, int]]:
    """Ranks as (first, step, count): the groups of a mesh are one run each."""
    runs: list[tuple[int, int, int]] = []
    for rank in ranks:
        if runs:
            first, step, count = runs[-1]
            if count == 1 and rank > first:
                runs[-1] = (first, rank - first, 2)
                continue
            if rank == first + step * count and count > 1:
                runs[-1] = (first, step, count + 1)
                continue
        runs.append((rank, 1, 1))
    return runs
