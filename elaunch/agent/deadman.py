"""The alarm of the dead-man's switch in the spawner process: it rings at the deadline of the lease."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import struct

_CLOCK_BOOTTIME = 7
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME
_SPEC = struct.Struct("@llll")  # itimerspec: seconds and nanoseconds of the interval, and of the time

_libc = ctypes.CDLL(None, use_errno=True)


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
