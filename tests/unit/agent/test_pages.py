"""Huge pages for the memory of the process itself."""

from __future__ import annotations

import mmap
from pathlib import Path

from elaunch.agent.pages import gathering


def anonymous() -> int:
    """KiB of memory that is no file's."""
    (line,) = [x for x in Path("/proc/self/smaps_rollup").read_text().splitlines() if x.startswith("Anonymous:")]
    return int(line.split()[1])


def test_gathering_changes_no_content_and_fills_no_gaps() -> None:
    with mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE) as full, mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE) as sparse:
        for n in range(0, 64 << 20, mmap.PAGESIZE):
            full[n : n + 4] = n.to_bytes(4, "big")
        for n in range(0, 64 << 20, 1 << 20):
            sparse[n] = 1
        before = anonymous()
        steps = len(list(gathering()))
        assert steps == 0 or steps > 60
        assert anonymous() < before + (16 << 10)
        assert all(full[n : n + 4] == n.to_bytes(4, "big") for n in range(0, 64 << 20, mmap.PAGESIZE))
        assert sum(sparse[:]) == 64
