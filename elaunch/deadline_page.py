"""A page of shared memory holds until when a node's ranks may run: the agent writes, its spawner and its ranks read.

The deadlines are of CLOCK_BOOTTIME, as the lease's own: it passes while the machine is suspended.
"""

from __future__ import annotations

import math
import mmap
import os
import stat
from typing import Final

DEADLINE: Final = "ELAUNCH_DEADLINE_PAGE"
"""The variable that names the file of the page for a rank."""

_SIZE = mmap.PAGESIZE
_NAME = "elaunch-deadline"
_FIRST, _LAST = 0, 1


class DeadlinePage:
    """When the ranks must be dead unless it has been moved: seconds of CLOCK_BOOTTIME, inf while not set.

    One writer. Each value is one aligned double, stored in one go, so that no reader sees half of it. The ranks are
    killed at the first deadline. A rank that still runs at the ``last`` one kills itself.
    """

    def __init__(self, fd: int, *, read_only: bool = False) -> None:
        self.fd = fd
        self._page = mmap.mmap(fd, _SIZE, prot=mmap.PROT_READ if read_only else mmap.PROT_READ | mmap.PROT_WRITE)
        self._cells = memoryview(self._page).cast("d")

    @classmethod
    def create(cls) -> DeadlinePage:
        """A new page without a deadline. Its descriptor is handed to the spawner process."""
        fd = os.memfd_create(_NAME)
        os.ftruncate(fd, _SIZE)
        page = cls(fd)
        page.clear()
        return page

    @classmethod
    def of_agent(cls, path: str) -> DeadlinePage | None:
        """The page behind a descriptor of this rank's agent, ``/proc/PID/fd/N``, to be read.

        None where that is none, or where the clock there is not that of here (another time namespace).
        """
        try:
            # If the descriptor is another file by now, it must not even be opened.
            if _NAME not in os.readlink(path) or not stat.S_ISREG(os.stat(path).st_mode):
                return None
            if os.readlink(f"{path.rpartition('/fd/')[0]}/ns/time") != os.readlink("/proc/self/ns/time"):
                return None
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return cls(fd, read_only=True)
        except (OSError, ValueError):
            os.close(fd)
            return None

    @property
    def path(self) -> str:
        """Where a rank of this process, which holds the page, finds it."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    @property
    def last(self) -> float:
        """When a rank ends by itself."""
        return self._cells[_LAST]

    def set(self, deadline: float, last: float = math.inf) -> None:
        """Move the deadlines."""
        self._cells[_LAST] = last
        self._cells[_FIRST] = deadline

    def clear(self) -> None:
        """Take the deadlines away."""
        self.set(math.inf)

    def get(self) -> float:
        return self._cells[_FIRST]

    def close(self) -> None:
        self._cells.release()
        self._page.close()
        os.close(self.fd)
