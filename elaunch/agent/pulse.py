"""When this node's next heartbeat is due, and what it says: one message for all ranks, while any run."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress

from elaunch.agent.links import LinkWatch
from elaunch.agent.ranks import Ranks
from elaunch.agent.status import StatusBoard
from elaunch.clock import Clock
from elaunch.controller.node_status import RunPhase
from elaunch.progress import Heartbeat, RankProgress
from elaunch.rendezvous.waiting import within

# Of a node where a rank failed others may still run, and one that takes long to start them is not silent.
_BEATING = (RunPhase.STARTING, RunPhase.RUNNING, RunPhase.FAILED)


class Pulse:
    """The heartbeats of one node, whichever leader they go to. News of its ports do not wait for the next one.

    ``read`` tells what the ranks that run now are at, ``interval_for`` the seconds between two heartbeats in a
    generation of so many nodes.
    """

    def __init__(
        self,
        board: StatusBoard,
        ranks: Ranks,
        read: Callable[[], tuple[RankProgress, ...]],
        interval_for: Callable[[int], float],
        clock: Clock,
        links: LinkWatch,
    ) -> None:
        self._board = board
        self._ranks = ranks
        self._read = read
        self._interval_for = interval_for
        self._clock = clock
        self._links = links
        self._last = -math.inf

    async def next(self) -> Heartbeat:
        """The next heartbeat, when it is due."""
        while True:
            await self._running()
            interval = self._interval()
            left = self._last + interval - self._clock.monotonic()
            if left > 0:
                with suppress(asyncio.TimeoutError):
                    await within(left, self._links.news())
            now = self._board.now
            if now.phase in _BEATING:
                self._last = self._clock.monotonic()
                ports, all_ports = self._links.report(now.generation)
                return Heartbeat(now.node_id, now.generation, interval, self._read(), ports, all_ports)

    def _interval(self) -> float:
        generation = self._ranks.generation
        return self._interval_for(generation.start.group_world_size if generation is not None else 1)

    async def _running(self) -> None:
        version = -1
        while self._board.now.phase not in _BEATING:
            version, _ = await self._board.newer_than(version)
