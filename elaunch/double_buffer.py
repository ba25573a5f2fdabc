"""A record in shared memory that is read whole or not at all, with one writer and no lock."""

from __future__ import annotations

import struct
import zlib
from typing import Final

_HEAD: Final = struct.Struct("<QII")  # number, length, checksum
_HIGHEST: Final = (1 << 62) - 1


class DoubleBuffer:
    """Two places that are written in turns, each with a number and a checksum.

    A reader takes the newest that is whole, so it never sees half of one, though the writer was killed in the middle of
    it. ``view`` is the shared memory, of which each place gets half.
    """

    def __init__(self, view: memoryview) -> None:
        half = len(view) // 2
        self._view = view
        self._places = (view[:half], view[half:])
        self._number = min(max(_HEAD.unpack_from(place)[0] for place in self._places), _HIGHEST)
        self.room: Final = half - _HEAD.size

    def write(self, payload: bytes) -> None:
        """Replace what the record says. Raises ValueError where it does not fit."""
        if len(payload) > self.room:
            raise ValueError(f"{len(payload)} bytes do not fit into {self.room}")
        self._number += 1
        place = self._places[self._number % 2]
        place[_HEAD.size : _HEAD.size + len(payload)] = payload
        _HEAD.pack_into(place, 0, self._number, len(payload), _checksum(self._number, payload))

    def read(self) -> bytes | None:
        """The newest that is whole; None where there is none."""
        heads = [_HEAD.unpack_from(place) for place in self._places]
        for which in sorted((0, 1), key=lambda i: -heads[i][0]):
            number, length, checksum = heads[which]
            payload = bytes(self._places[which][_HEAD.size : _HEAD.size + min(length, self.room)])
            if number and _checksum(number, payload) == checksum:
                return payload
        return None

    def release(self) -> None:
        for view in (*self._places, self._view):
            view.release()


def _checksum(number: int, payload: bytes) -> int:
    return zlib.crc32(payload, number & 0xFFFFFFFF)
