"""Notice before a stop that can wait: the program is told, saves what it has, and exits by itself."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Protocol

import structlog

from elaunch.agent.options import Scheduled
from elaunch.agent.preempting import time_left
from elaunch.agent.ranks import Ranks
from elaunch.controller.preemption import LEFT, TERMINATED, WARNED

TERM_SHARE = 0.1  # of the grace: kept for SIGTERM, should the program not have ended by then
TERM_MOST = 5.0  # seconds


class Notified(Protocol):
    """Where programs look whether they are to stop."""

    @property
    def listened_to(self) -> bool: ...

    def notify(self, deadline_seconds: float, reason: str) -> None: ...


class Notice:
    """Gives notice to the ranks of this node. ``grace`` is the time between notice and SIGKILL, in seconds.

    With ``signum`` every rank gets that signal as well, and every program counts as one that listens.
    """

    def __init__(
        self,
        pages: Notified,
        ranks: Ranks,
        grace: float,
        signum: signal.Signals | None,
        scheduled: Scheduled | None = None,
    ) -> None:
        self._pages = pages
        self._ranks = ranks
        self._signum = signum
        self.rest = min(TERM_MOST, grace * TERM_SHARE)
        self._time = grace - self.rest
        self._scheduled = scheduled

    @property
    def heard(self) -> bool:
        """Whether there is a program that notice means anything to."""
        generation = self._ranks.generation
        return bool(generation and generation.ranks) and (self._signum is not None or self._pages.listened_to)

    def to_leave(self, code: str) -> float | None:
        """Seconds from notice to SIGKILL where a scheduler gives them for such a stop; None for the usual grace."""
        if self._scheduled is None or code not in (LEFT, TERMINATED):
            return None
        return self._scheduled.leave_seconds or None

    async def give(self, reason: str, interrupted: asyncio.Event, code: str = "") -> None:
        """Tell the programs, and wait until all have ended, the time is over, or ``interrupted`` is set.

        The time is the grace. ``WARNED`` by a scheduler it is what is left until that ends the job, if it is longer,
        and the grace from then on should the scheduler stop it before. Where a scheduler stops nodes it is what that
        gives them.
        """
        generation = self._ranks.generation
        if generation is None:
            return
        generation.noticed = True
        seconds = self._time
        if code == WARNED and self._scheduled is not None:
            seconds = max(seconds, time_left(self._scheduled, time.time()))
        if (longer := self.to_leave(code)) is not None:
            seconds = longer - self.rest
        self._tell(seconds, reason)
        if self._signum is not None:
            await self._ranks.signal(self._signum)
        hurry = self._ranks.hurry
        if not await _first(seconds, generation.ended, interrupted, hurry) and hurry.is_set() and seconds > self._time:
            self._tell(self._time, reason)
            await _first(self._time, generation.ended, interrupted)

    def _tell(self, seconds: float, reason: str) -> None:
        self._pages.notify(seconds, reason)
        structlog.get_logger().info("notice_given", seconds=round(seconds, 1), reason=reason)


async def _first(seconds: float, *events: asyncio.Event) -> bool:
    """Wait for one of ``events``; whether one of the first two is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return any(event.is_set() for event in events[:2])
