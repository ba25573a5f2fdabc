"""The part of a rank's page in which it asks for commits and tells of checkpoints, and its agent answers.

One commit at a time is asked for, under a number that the answer repeats. What is only told goes into a ring of slots:
a rank may write some and end, its agent reads them all the same. Nothing here waits.
"""

from __future__ import annotations

import struct
from typing import Final

from elaunch.double_buffer import DoubleBuffer
from elaunch.packing import Cursor, long_text
from elaunch.reports import HIGHEST_STEP, MOST_PATH, MOST_TEXT, Commit

SIZE: Final = 28 << 10
SLOTS: Final = 16

_ASK_AT, _ANSWER_AT, _SLOTS_AT = slice(0, 8 << 10), slice(8 << 10, 12 << 10), slice(12 << 10, SIZE)
_SLOT = (16 << 10) // SLOTS
_ASKED, _ANSWERED, _TOLD, _HEARD = 16, 17, 18, 19  # cells, of which those below 16 are the page's own
_COMMIT = struct.Struct("<qqqdd")
_ANSWER = struct.Struct("<q?")
_LINE = struct.Struct("<q")


class ReportPage:
    """``view`` is the shared memory, ``cells`` the page's own."""

    def __init__(self, view: memoryview, cells: memoryview) -> None:
        self._view = view
        self._cells = cells
        self._ask = DoubleBuffer(view[_ASK_AT])
        self._answer = DoubleBuffer(view[_ANSWER_AT])
        slots = view[_SLOTS_AT]
        self._slots = [DoubleBuffer(slots[n * _SLOT : (n + 1) * _SLOT]) for n in range(SLOTS)]
        slots.release()

    # --- the rank's side ----------------------------------------------------------------------------------------

    def ask(self, commit: Commit) -> int:
        """Ask for a commit, whatever became of the one before; its number."""
        number = max(self._cells[_ASKED], 0) % HIGHEST_STEP + 1
        head = _COMMIT.pack(number, commit.step, commit.bytes, commit.seconds, commit.blocked)
        self._ask.write(head + long_text(commit.path, MOST_PATH) + long_text(commit.digest, 128))
        self._cells[_ASKED] = number
        return number

    def answer_to(self, number: int) -> tuple[bool, str] | None:
        """Whether the commit of this number was accepted, and why not; None while there is no answer."""
        if self._cells[_ANSWERED] != number:
            return None
        payload = self._answer.read()
        if payload is None:
            return None
        cursor = Cursor(payload)
        answered, accepted = cursor.take(_ANSWER)
        return (accepted, cursor.long_text()) if answered == number else None

    def tell(self, kind: str, step: int, text: str) -> bool:
        """Leave a line for the agent. False, and it is lost, while the agent has not read those before."""
        told, heard = self._cells[_TOLD], self._cells[_HEARD]
        if not 0 <= told - heard < SLOTS:
            return False
        self._slots[told % SLOTS].write(_LINE.pack(step) + long_text(kind, 64) + long_text(text, MOST_TEXT))
        self._cells[_TOLD] = told + 1
        return True

    # --- the agent's side ---------------------------------------------------------------------------------------

    @property
    def asked(self) -> int:
        """The number of the last commit that was asked for."""
        return int(self._cells[_ASKED])

    def commit(self, number: int) -> Commit:
        """What was asked for under this number. Raises ValueError where nothing that can be was."""
        cursor = Cursor(self._ask.read() or b"")
        asked, step, size, seconds, blocked = cursor.take(_COMMIT)
        if asked != number:
            raise ValueError(f"request {number} is not the one that stands in the page")
        return Commit(step, cursor.long_text(), cursor.long_text(), size, seconds, blocked)

    def answer(self, number: int, accepted: bool, text: str) -> None:
        """Answer the commit of this number."""
        self._answer.write(_ANSWER.pack(number, accepted) + long_text(text, MOST_TEXT))
        self._cells[_ANSWERED] = number

    def take(self) -> list[tuple[str, int, str]]:
        """Kind, step and text of the lines that have come since the last call; what cannot be read is left out."""
        told, heard = self._cells[_TOLD], self._cells[_HEARD]
        self._cells[_HEARD] = told
        if not 0 <= told - heard <= SLOTS:
            return []
        lines = (_parsed(self._slots[number % SLOTS].read()) for number in range(heard, told))
        return [line for line in lines if line is not None]

    def release(self) -> None:
        for buffer in (self._ask, self._answer, *self._slots):
            buffer.release()
        self._view.release()


def _parsed(payload: bytes | None) -> tuple[str, int, str] | None:
    try:
        cursor = Cursor(payload or b"")
        (step,) = cursor.take(_LINE)
        return cursor.long_text(), step, cursor.long_text()
    except ValueError:
        return None
