"""The clocks, injected so that decisions can be tested without waiting."""

from __future__ import annotations

import time
from typing import Protocol

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # of Linux


class Clock(Protocol):
    """Where time comes from."""

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC: for deadlines and durations; the same for all processes of a host."""
        ...

    def boottime(self) -> float:
        """Seconds that go on while the machine is suspended, as a lease does: see ``boottime`` below."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch: only for showing to people and for ordering in reports."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return boottime()

    def wall(self) -> float:
        return time.time()


def boottime() -> float:
    """Seconds of CLOCK_BOOTTIME, CLOCK_MONOTONIC where there is none: the same for all processes of a host.

    A lease ends elsewhere while this machine is suspended; CLOCK_MONOTONIC stands still meanwhile.
    """
    return time.clock_gettime(_BOOTTIME)
