"""The clock, injected so that decisions can be tested without waiting."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC: for every deadline and duration; the same for all processes of a host."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch: only for showing to people and for ordering in reports."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()
