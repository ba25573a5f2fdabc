"""The time in which this agent ran: what it did not see happen while it was stopped, it holds against no rank."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

from elaunch.rendezvous.waiting import cancelled

_TICK = 0.25  # seconds
_LOOKED = 1.0  # seconds between two looks beyond which the process was not running


class RunningTime:
    """A monotonic clock that stands still while this process is stopped, starved, or paused with its whole machine.

    A rank's age is the time for which nothing new was seen of it. Where the agent was not there to see, that is no age:
    a machine that was paused for a minute comes back with ranks that have done nothing for a minute, and are well.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._looked = monotonic()
        self._lost = 0.0

    def now(self) -> float:
        """Seconds. To be asked more than once a second, as ``ticking`` does."""
        now = self._monotonic()
        if now - self._looked > _LOOKED:
            self._lost += now - self._looked
        self._looked = now
        return now - self._lost

    @asynccontextmanager
    async def ticking(self) -> AsyncIterator[None]:
        """Ask for the time, as long as the context lasts, so that only gaps of this process count as such."""
        ticks = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            await cancelled(ticks)

    async def _tick(self) -> NoReturn:
        while True:
            self.now()
            await asyncio.sleep(_TICK)
