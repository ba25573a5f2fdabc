"""Sets of CPUs as the kernel writes them: lists (``0-3,8``) and masks (``00ff,ffffffff``)."""

from __future__ import annotations

import re
from collections.abc import Iterable

CpuSet = tuple[int, ...]
"""CPU numbers, ascending, each once."""

MOST = 65_536
"""No machine has more CPUs: a number beyond is damage, and is refused before it is expanded."""

_RANGE = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")
_WORDS = re.compile(r"(?:0x)?[0-9a-fA-F]{1,8}(?:,(?:(?:0x)?[0-9a-fA-F]{1,8})?)*")


def cpu_set(numbers: Iterable[int]) -> CpuSet:
    return tuple(sorted(set(numbers)))


def parse_list(text: str) -> CpuSet:
    """``0-3,8`` as a set; empty text is the empty set. Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first or last >= MOST:
            raise ValueError(f"{part[:40]!r} is no range of CPUs (expected one like 0-3)")
        found.update(range(first, last + 1))
    return cpu_set(found)


def parse_mask(text: str) -> CpuSet:
    """A mask of 32-bit words, highest first, as a set; a word left out between commas is 0. Raises ValueError."""
    mask = text.strip()
    if not _WORDS.fullmatch(mask) or len(mask) > MOST // 2:
        raise ValueError(f"{mask[:40]!r} is no mask of CPUs (expected one like 00ff,ffffffff)")
    bits = 0
    for word in mask.split(","):
        bits = bits << 32 | int(word or "0", 16)
    found = tuple(n for n, bit in enumerate(reversed(f"{bits:b}")) if bit == "1")
    if found and found[-1] >= MOST:
        raise ValueError(f"{mask[:40]!r}...: no machine has {found[-1] + 1} CPUs")
    return found


def format_list(cpus: Iterable[int]) -> str:
    """The shortest list: ``0-3,8``."""
    ranges: list[list[int]] = []
    for cpu in cpu_set(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
