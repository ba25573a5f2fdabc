"""A page of shared memory holds the lease's deadline for the dead-man's switch in the spawner process.

The deadline is of CLOCK_BOOTTIME, as the lease's own: it passes while the machine is suspended.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import struct

_SIZE = mmap.PAGESIZE
_CLOCK_BOOTTIME = 7
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME
_SPEC = struct.Struct("@llll")  # itimerspec: seconds and nanoseconds of the interval, and of the time

_libc = ctypes.CDLL(None, use_errno=True)


class DeadlinePage:
    """When the ranks must be dead unless it has been moved: seconds of CLOCK_BOOTTIME, inf while not set.

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


class Alarm:
    """A descriptor that polls as readable once a time of CLOCK_BOOTTIME has passed, right after a suspension too.

    The timeout of poll itself stands still while the machine is suspended. Raises OSError where there are no such
    timers.
    """

    def __init__(self) -> None:
        self._fd = _checked(_libc.timerfd_create(_CLOCK_BOOTTIME, os.O_NONBLOCK | os.O_CLOEXEC))
        self._time = math.inf

    @classmethod
    def create(cls) -> Alarm | None:
        """None where the system has no such timers: then a deadline is seen a little later."""
        with contextlib.suppress(OSError, AttributeError):
            return cls()
        return None

    def fileno(self) -> int:
        return self._fd

    def set(self, time: float) -> None:
        """Ring at ``time`` and no other; inf: not at all."""
        if time == self._time:
            return
        self._time = time
        seconds = 0.0 if math.isinf(time) else max(time, 1e-9)
        spec = _SPEC.pack(0, 0, int(seconds), int(seconds % 1 * 1e9))
        _checked(_libc.timerfd_settime(self._fd, _ABSOLUTE, spec, None))

    def close(self) -> None:
        os.close(self._fd)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
