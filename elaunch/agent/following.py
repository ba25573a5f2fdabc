"""A node and whoever leads its job: one stream at a time, to the newest leader that etcd tells of."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import structlog

from elaunch.agent.status import StatusBoard
from elaunch.clock import Clock
from elaunch.controller.access import OPEN, Security
from elaunch.controller.client import NextHeartbeat, converse
from elaunch.controller.commands import Aside, Command
from elaunch.controller.counters import Counters
from elaunch.errors import LeaseLostError
from elaunch.rendezvous.election import Election
from elaunch.rendezvous.records import Leader
from elaunch.rendezvous.waiting import cancelled

UNREACHABLE = 2  # leases: for so long a leader that lives may be out of reach
TELL_AFTER = 1.0  # seconds without the leader after which a person is told
RETRY_STREAM = 0.1  # seconds between two streams to the same leader, in a small job

View = tuple[int, Leader] | None


class Follower:
    """Tells the leader what this node does, and hands the leader's commands on to ``on_command``.

    A command counts only while its leader is the newest that this node knows of: the stream to an older one is closed
    before the next is opened, and what carries another's epoch is refused and counted in ``counters``.
    """

    def __init__(
        self,
        job: str,
        board: StatusBoard,
        next_heartbeat: NextHeartbeat,
        clock: Clock,
        lease_ttl: int,
        on_command: Callable[[Command | Aside], None],
        security: Security = OPEN,
        counters: Counters | None = None,
        spread: float = 0.0,
    ) -> None:
        """``spread`` is the time in seconds over which the job's nodes open their streams when all have lost theirs."""
        self._job = job
        self._board = board
        self._next_heartbeat = next_heartbeat
        self._security = security
        self._counters = counters
        self._clock = clock
        self._lease_ttl = lease_ttl
        self._on_command = on_command
        self._spread = spread
        self._attached = False
        self._log = structlog.get_logger().bind(job=job, node=board.now.node_id)

    @property
    def attached(self) -> bool:
        """Whether a leader hears this node now."""
        return self._attached

    async def follow(self, election: Election) -> None:
        """Keep a stream to whoever leads, until cancelled. Without a leader the node waits for one, as it is.

        Raises LeaseLostError where a leader that lives cannot be reached, and what ``election`` raises.
        """
        async with aclosing(election.observe()) as views:
            await self._through(aiter(views))

    async def _through(self, views: AsyncIterator[View]) -> None:
        looking: asyncio.Future[View] = asyncio.ensure_future(_next(views))
        talking: asyncio.Task[None] | None = None
        alone = True  # a node's first leader is news to this node only, each further one to all nodes at once
        try:
            while True:
                waits: set[asyncio.Future[Any]] = {looking} if talking is None else {looking, talking}
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if looking.done():
                    seen, looking = looking.result(), asyncio.ensure_future(_next(views))
                    await cancelled(talking)
                    talking = None
                    if seen is not None:
                        wait = 0.0 if alone else random.uniform(0.0, self._spread)
                        talking, alone = asyncio.create_task(self._talk(*seen, wait)), False
                elif talking is not None:
                    talking.result()
        finally:
            await cancelled(talking, looking)

    async def _talk(self, epoch: int, leader: Leader, wait: float) -> None:
        """Streams to one leader, for as long as it leads, the first after ``wait`` seconds.

        A node that cannot reach the leader of its job holds the job up while its lease lives: after a while it gives
        itself up (LeaseLostError), so that the others can go on without it.
        """
        await asyncio.sleep(wait)
        heard = self._clock.monotonic()
        told, pause = False, RETRY_STREAM
        while True:
            why = await converse(
                leader,
                epoch,
                self._job,
                self._board.newer_than,
                self._next_heartbeat,
                self._take,
                self._security,
                self._counters,
            )
            longest = RETRY_STREAM + self._spread
            pause = min(2 * pause, longest)
            if self._attached:
                heard, pause = self._clock.monotonic(), longest
            self._attached = False
            self._log.debug("stream_ended", leader=leader.address, reason=why)
            silent = self._clock.monotonic() - heard
            if silent > TELL_AFTER and not told:
                told = True
                ends = f"it loses its part {self._lease_ttl} s after its last sign at the latest"
                self._log.warning("leader_silent", leader=leader.address, reason=why, text=ends)
            if silent > UNREACHABLE * self._lease_ttl:
                raise LeaseLostError(f"the leader at {leader.address} cannot be reached for {silent:.0f} s: {why}")
            await asyncio.sleep(random.uniform(RETRY_STREAM / 2, pause))

    def _take(self, command: Command | Aside) -> None:
        self._attached = True
        self._on_command(command)


async def _next(views: AsyncIterator[View]) -> View:
    return await anext(views)
