"""Whether a process reads or writes in earnest: a long copy or save is work, though it is one line of its program."""

from __future__ import annotations

import os
from dataclasses import dataclass

LEAST = 1 << 20  # bytes a second: what a rank's own thread and its logging come to is far below


@dataclass(slots=True)
class Traffic:
    """What one process has read and written, as /proc/PID/io counts it, by any means and to any file system."""

    bursts: int = 0
    _pid: int = 0
    _bytes: int = 0
    _at: float = 0.0

    def look(self, pid: int, now: float) -> int:
        """A number that grows whenever as much as ``LEAST`` was moved since the last look; ``now`` in seconds."""
        moved = _bytes_of(pid)
        if moved is None:
            return self.bursts
        if pid == self._pid and moved - self._bytes >= LEAST * max(now - self._at, 0.0) and moved > self._bytes:
            self.bursts += 1
        self._pid, self._bytes, self._at = pid, moved, now
        return self.bursts


def _bytes_of(pid: int) -> int | None:
    """None where the process is gone, or is not ours to look at."""
    try:
        fd = os.open(f"/proc/{pid}/io", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        lines = os.read(fd, 512).split()
    except OSError:
        return None
    finally:
        os.close(fd)
    return int(lines[1]) + int(lines[3])  # rchar, wchar
