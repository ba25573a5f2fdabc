"""Short texts and lists of things among packed numbers; reading garbage is a ValueError and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_LENGTH: Final = struct.Struct("<B")
_COUNT: Final = struct.Struct("<H")
_MOST_TEXT: Final = 255  # bytes


def text(value: str) -> bytes:
    """A text, of which 255 bytes are kept."""
    encoded = value.encode(errors="replace")[:_MOST_TEXT]
    return _LENGTH.pack(len(encoded)) + encoded


def long_text(value: str, most: int) -> bytes:
    """A text, of which ``most`` bytes are kept: 65535 at most."""
    encoded = value.encode(errors="replace")[:most]
    return _COUNT.pack(len(encoded)) + encoded


def several(parts: Iterable[bytes], room: int) -> bytes:
    """A list of packed things, without the last ones where more than ``room`` bytes would be needed."""
    kept: list[bytes] = []
    left = room - _COUNT.size
    for part in parts:
        left -= len(part)
        if left < 0 or len(kept) == 0xFFFF:
            break
        kept.append(part)
    return _COUNT.pack(len(kept)) + b"".join(kept)


class Cursor:
    """Reads one thing after the other."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    def take(self, layout: struct.Struct) -> tuple[Any, ...]:
        """The next numbers. Raises ValueError at the end."""
        if self._at + layout.size > len(self._payload):
            raise ValueError("cut off")
        found = layout.unpack_from(self._payload, self._at)
        self._at += layout.size
        return found

    def text(self) -> str:
        (length,) = self.take(_LENGTH)
        return self._bytes(length).decode(errors="replace")

    def long_text(self) -> str:
        (length,) = self.take(_COUNT)
        return self._bytes(length).decode(errors="replace")

    def block(self, layout: struct.Struct) -> bytes:
        """A list of numbers, still packed."""
        (count,) = self.take(_COUNT)
        return self._bytes(count * layout.size)

    def several(self, one: Callable[[Cursor], T]) -> tuple[T, ...]:
        (count,) = self.take(_COUNT)
        return tuple(one(self) for _ in range(count))

    def _bytes(self, length: int) -> bytes:
        found = self._payload[self._at : self._at + length]
        if len(found) < length:
            raise ValueError("cut off")
        self._at += length
        return found
