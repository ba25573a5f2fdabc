"""Notice before a stop that can wait: the program is told, saves what it has, and exits by itself."""

from __future__ import annotations

import asyncio
import signal
from typing import Protocol

import structlog

from elaunch.agent.ranks import Ranks

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

    def __init__(self, pages: Notified, ranks: Ranks, grace: float, signum: signal.Signals | None) -> None:
        self._pages = pages
        self._ranks = ranks
        self._signum = signum
        self.rest = min(TERM_MOST, grace * TERM_SHARE)
        self._time = grace - self.rest

    @property
    def heard(self) -> bool:
        """Whether there is a program that notice means anything to."""
        generation = self._ranks.generation
        return bool(generation and generation.ranks) and (self._signum is not None or self._pages.listened_to)

    async def give(self, reason: str, interrupted: asyncio.Event) -> None:
        """Tell the programs, and wait until all have ended, the time is over, or ``interrupted`` is set."""
        generation = self._ranks.generation
        if generation is None:
            return
        generation.noticed = True
        self._pages.notify(self._time, reason)
        structlog.get_logger().info("notice_given", seconds=round(self._time, 1), reason=reason)
        if self._signum is not None:
            await self._ranks.signal(self._signum)
        waits = [asyncio.ensure_future(event.wait()) for event in (generation.ended, interrupted)]
        try:
            await asyncio.wait(waits, timeout=self._time, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
