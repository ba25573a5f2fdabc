"""One node id from joining to leaving: its lease, its key, its bid for leadership, its stream to whoever leads."""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from elaunch.agent.following import Follower
from elaunch.agent.leading import Candidate, Pages, refused
from elaunch.agent.status import StatusBoard
from elaunch.clock import Clock
from elaunch.controller.access import OPEN, Security
from elaunch.controller.client import NextHeartbeat
from elaunch.controller.commands import Aside, Command, End
from elaunch.controller.policy import Policy
from elaunch.controller.server import ControlServer
from elaunch.errors import ElaunchError, EtcdLostError, EtcdRefusedError
from elaunch.rendezvous.election import Election, Leadership
from elaunch.rendezvous.joining import join
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import Lease
from elaunch.rendezvous.pictures import leave_picture
from elaunch.rendezvous.records import Node, Spec
from elaunch.rendezvous.seats import await_seat
from elaunch.rendezvous.steading import Steading
from elaunch.rendezvous.steward import MemberStore, Steward
from elaunch.rendezvous.waiting import beside, cancelled
from elaunch.web.options import WebOptions

CLAIM_SPREAD = 0.005  # seconds for each node that may claim to lead: about as long until the first of them does
STREAM_SPREAD = 0.001  # seconds for each stream that a new leader has to take


def _unheard(host: str, text: str) -> None:
    return


@dataclass(frozen=True, slots=True)
class Site:
    """What stays the same over all node ids of one agent."""

    store: MemberStore
    keys: JobKeys
    spec: Spec
    policy: Policy
    clock: Clock
    status: StatusBoard
    server: ControlServer
    lease_ttl: int
    close_timeout: float
    on_deadline: Callable[[float], None]
    on_lease: Callable[[int], None]
    on_command: Callable[[Command | Aside], None]
    next_heartbeat: NextHeartbeat
    stop_ranks: Callable[[float | None], Coroutine[Any, Any, None]]
    security: Security = OPEN
    steading: Steading | None = None
    host_failed: Callable[[str, str], None] = _unheard
    web: WebOptions | None = None
    picture: str = ""


def new_node_id() -> str:
    """Unique for each agent start and each rejoin."""
    return secrets.token_hex(6)


class Membership:
    """A node's part in a job. ``run`` ends with the End command, or with the error that parts it from the job."""

    def __init__(self, site: Site, node: Node) -> None:
        self._site = site
        self._node = node
        self._end: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._follower = Follower(
            site.keys.job,
            site.status,
            site.next_heartbeat,
            site.clock,
            site.lease_ttl,
            self._take,
            site.security,
            site.server.counters,
            STREAM_SPREAD * site.policy.max_nodes,
        )
        self._log = structlog.get_logger().bind(job=site.keys.job, node=node.node_id)

    @property
    def attached(self) -> bool:
        """Whether a leader hears this node now."""
        return self._follower.attached

    def resign(self, end: End) -> None:
        """End this node's part without a leader's word, as ``end`` says."""
        if not self._end.done():
            self._end.set_result(end)

    async def run(self) -> End:
        """Join, serve until the job ends or goes on without this node, leave.

        However it ends, the ranks are gone before the lease is. Raises LeaseLostError (join again under a new
        id), EtcdLostError, SpecMismatchError, RankTakenError.
        """
        site = self._site
        if (end := await self._before_seated()) is not None:
            return end
        lease = await Lease.open(site.store, site.lease_ttl, clock=site.clock, on_deadline=site.on_deadline)
        try:
            site.on_lease(lease.id)
            first = await join(site.store, site.keys, site.spec, self._node, lease.id)
            self._log.debug("joined", host=self._node.host, address=self._node.address, slots=self._node.slots)
            return await self._until_end(lease, first)
        except BaseException:
            await asyncio.shield(site.stop_ranks(0.0))
            raise
        finally:
            site.server.pause(site.keys.job)
            if lease.left > 0:  # else it ends by itself, before an etcd that is away could hear of it
                with suppress(ElaunchError):
                    await asyncio.shield(lease.close())

    async def _before_seated(self) -> End | None:
        """Wait until the rank that this node owns is free; the end, should that come before. Raises RankTakenError."""
        site = self._site

        def tell(holder: str, seconds: float) -> None:
            text = f"{holder}; waiting up to {seconds:.0f} s for that node to be gone"
            self._log.info("rank_taken", text=text)

        waiting = asyncio.create_task(await_seat(site.store, site.keys, self._node, site.lease_ttl, tell))
        first: list[asyncio.Future[Any]] = [waiting, self._end]
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if self._end.done():
                return self._end.result()
            waiting.result()
            return None
        finally:
            await cancelled(waiting)

    async def _tend(self, lease: Lease, leadership: Leadership) -> None:
        """While this node leads: look after the members of an embedded etcd."""
        site = self._site
        if site.steading is not None:
            await Steward(site.store, site.keys, leadership.guard, site.clock, lambda: lease.left).run()

    def _pages(self) -> Pages | None:
        """The job's pages, where ``--web`` asks for some. aiohttp is imported by whoever leads, and only then."""
        site = self._site
        if site.web is None:
            return None
        from elaunch.web.serving import serve

        host = self._node.address
        args = (site.web, site.store, site.server, site.clock, site.keys.job, host)
        return Pages(site.web.url(host, site.security.tls is not None), functools.partial(serve, *args))

    async def _until_end(self, lease: Lease, first: bool) -> End:
        site = self._site
        tend = functools.partial(self._tend, lease)
        candidate = Candidate(
            site.store,
            site.keys,
            site.policy,
            site.clock,
            site.server,
            self._node,
            lease,
            self.resign,
            tend,
            site.host_failed,
            self._pages(),
        )
        spread = CLAIM_SPREAD * site.policy.max_nodes
        election = Election(site.store, site.keys, lease.id, spread=spread, leave_to=candidate.leave_to_controllers)
        leading = asyncio.create_task(candidate.run(election, first))
        tasks = [leading, asyncio.create_task(lease.keep()), asyncio.create_task(self._follow(election))]
        tasks.append(asyncio.create_task(leave_picture(site.store, site.keys, self._node.topology, site.picture)))
        if self._site.steading is not None:
            tasks.append(asyncio.create_task(self._site.steading.attend(self._node.node_id, lease.id)))
        try:
            end = await beside(tasks, self._end)
            await beside(tasks, asyncio.ensure_future(site.stop_ranks(None)))
            if candidate.tells_the_end:
                await asyncio.wait([leading], timeout=site.close_timeout)
            return end
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await election.close()

    async def _follow(self, election: Election) -> None:
        """Keep a stream to whoever leads."""
        while True:
            try:
                await self._follower.follow(election)
            except EtcdLostError as error:
                self._log.warning("etcd_unreachable", reason=str(error))
            except EtcdRefusedError as error:
                await refused(self._log, error)

    def _take(self, command: Command | Aside) -> None:
        if self._end.done():
            return  # this node is on its way out: nothing may start here any more
        if isinstance(command, End):
            self._end.set_result(command)
        else:
            self._site.on_command(command)
