"""A page of shared memory holds the lease's deadline for the dead-man's switch in the spawner process."""

from __future__ import annotations

import math
import mmap
import os

_SIZE = mmap.PAGESIZE


class DeadlinePage:
    """When the ranks must be dead unless it has been moved: seconds of CLOCK_MONOTONIC, inf while not set.

    One writer, one reader. The value is one aligned double, stored in one go, so that no reader sees half of
    it.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._page = mmap.mmap(fd, _SIZE)
        self._cell = memoryview(self._page).cast("d")

    @classmethod
    def create(cls) -> DeadlinePage:
        """A new page without a deadline. Its descriptor is handed to the spawner process."""
        fd = os.memfd_create("elaunch-deadline")
        os.ftruncate(fd, _SIZE)
        page = cls(fd)
        page.clear()
        return page

    def set(self, deadline: float) -> None:
        """Move the deadline."""
        self._cell[0] = deadline

    def clear(self) -> None:
        """Take the deadline away."""
        self._cell[0] = math.inf

    def get(self) -> float:
        return self._cell[0]

    def close(self) -> None:
        self._cell.release()
        self._page.close()
        os.close(self.fd)
