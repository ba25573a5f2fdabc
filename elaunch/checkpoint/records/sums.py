"""Checksums by block: a reader of any part checks what it reads, and nothing has to be read twice.

A file is cut in blocks of ``BLOCK`` bytes; each has an XXH3 sum of 64 bits (https://xxhash.com), which finds accidental
damage. It is no defence against a forger: what is read is never executed, whatever its sums say.
"""

from __future__ import annotations

from collections.abc import Iterator

import xxhash

BLOCK = 4 << 20
WIDTH = 8


def digest(data: bytes | bytearray | memoryview) -> bytes:
    """The sum of one block, ``WIDTH`` bytes. Lets other threads run meanwhile."""
    return xxhash.xxh3_64_digest(data)


def whole(data: bytes | bytearray | memoryview) -> str:
    """The sum of a small file as a whole, 128 bits in hexadecimal."""
    return xxhash.xxh3_128_hexdigest(data)


def spans(size: int) -> Iterator[tuple[int, int]]:
    """(start, end) of every block of a file of ``size`` bytes."""
    for start in range(0, size, BLOCK):
        yield start, min(start + BLOCK, size)


def count(size: int) -> int:
    """How many blocks a file of ``size`` bytes has."""
    return -(-size // BLOCK)
