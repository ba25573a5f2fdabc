"""Write the image of a rank's file: each block is summed while it goes out, and the whole is durable at the end."""

from __future__ import annotations

from collections.abc import Sequence

from elaunch.checkpoint.records import sums
from elaunch.checkpoint.records.manifest import FileSum
from elaunch.checkpoint.storages.storage import Storage


def write_file(storage: Storage, path: str, parts: Sequence[memoryview]) -> FileSum:
    """Write a new file from its parts; returns once it is durable. Raises OSError."""
    size = sum(len(part) for part in parts)
    sink = storage.sink(path)
    digests = bytearray()
    try:
        for start, end in sums.spans(size):
            block = _cut(parts, start, end)
            digests += sums.digest(block)
            sink.write(block)
        sink.finish()
    finally:
        sink.close()
    return FileSum(size, bytes(digests))


def _cut(parts: Sequence[memoryview], start: int, end: int) -> memoryview:
    """The bytes from ``start`` to ``end``; copied only where they lie in several parts."""
    pieces: list[memoryview] = []
    at = 0
    for part in parts:
        piece = part[max(start - at, 0) : max(end - at, 0)]
        at += len(part)
        if len(piece):
            pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
