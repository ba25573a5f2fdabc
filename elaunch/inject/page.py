"""A small page between an agent and one rank: what the rank is to do to itself, and how far it is.

The agent makes it, the rank maps it: only in a job that was started with ``--allow-injection``.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import Final

from elaunch.inject.fault import Fault, decoded, encoded

INJECT: Final = "ELAUNCH_INJECT"
"""The variable that names the file of a rank's page."""
SIZE: Final = 4096
_MAGIC = b"elaunch\x46"
_LENGTH = struct.Struct("<H")
_FAULT, _NOTE = 64, 3072  # where a fault and what the rank says of it begin


class InjectPage:
    """``armed`` is the number of the newest fault, ``fired`` of that which has begun, ``done`` of what is over.

    ``released`` is the number of what has held the rank stopped at its point, and does not any more.
    """

    def __init__(self, fd: int) -> None:
        """Map the page behind ``fd``, which may be closed then. Raises OSError, ValueError."""
        self._map = mmap.mmap(fd, SIZE)
        if self._map[:8] != _MAGIC:
            self._map.close()
            raise ValueError("not a page for faults")
        self._cells = memoryview(self._map)[:_FAULT].cast("Q")

    @classmethod
    def make(cls) -> tuple[InjectPage, int]:
        """A new one, and its descriptor. Raises OSError."""
        fd = os.memfd_create("elaunch-inject", os.MFD_CLOEXEC)
        os.truncate(fd, SIZE)
        os.pwrite(fd, _MAGIC, 0)
        return cls(fd), fd

    @property
    def armed(self) -> int:
        return self._cells[1]

    @property
    def fired(self) -> int:
        return self._cells[2]

    @fired.setter
    def fired(self, number: int) -> None:
        self._cells[2] = number

    @property
    def done(self) -> int:
        return self._cells[3]

    @done.setter
    def done(self, number: int) -> None:
        self._cells[3] = number

    @property
    def released(self) -> int:
        return self._cells[4]

    @released.setter
    def released(self, number: int) -> None:
        self._cells[4] = number

    def arm(self, fault: Fault | None) -> int:
        """Have the rank do this from now on, and nothing else that it had not begun; its number."""
        self._write(_FAULT, encoded(fault) if fault is not None else b"")
        self._cells[1] += 1  # last, so that the rank finds the whole of it
        return self._cells[1]

    def fault(self) -> Fault | None:
        """What the rank is to do. Raises ValueError where that cannot be read."""
        value = self._read(_FAULT)
        return decoded(value) if value else None

    @property
    def note(self) -> str:
        """What the rank says of what it did."""
        return self._read(_NOTE).decode(errors="replace")

    @note.setter
    def note(self, text: str) -> None:
        self._write(_NOTE, text.encode(errors="replace")[:900])

    def close(self) -> None:
        self._cells.release()
        self._map.close()

    def _write(self, at: int, value: bytes) -> None:
        if len(value) > _NOTE - _FAULT - _LENGTH.size:
            raise ValueError(f"{len(value)} bytes are too many for a fault")
        self._map[at : at + _LENGTH.size + len(value)] = _LENGTH.pack(len(value)) + value

    def _read(self, at: int) -> bytes:
        (length,) = _LENGTH.unpack_from(self._map, at)
        start = at + _LENGTH.size
        return bytes(self._map[start : start + length]) if start + length <= SIZE else b""
