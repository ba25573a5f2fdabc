"""One node id from joining to leaving: its lease, its key, its bid for leadership, its stream to whoever leads."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from elaunch.agent.status import StatusBoard
from elaunch.clock import Clock
from elaunch.controller.access import OPEN, Security
from elaunch.controller.client import NextHeartbeat, converse
from elaunch.controller.commands import Command, End, Request, end_of
from elaunch.controller.job import Policy
from elaunch.controller.leader import Term
from elaunch.controller.server import ControlServer
from elaunch.errors import (
    AmbiguousError,
    ConflictError,
    DeposedError,
    ElaunchError,
    EtcdLostError,
    EtcdRefusedError,
    LeaseLostError,
)
from elaunch.rendezvous.election import Election, Leadership
from elaunch.rendezvous.joining import join
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import Lease
from elaunch.rendezvous.records import Leader, Node, Spec
from elaunch.rendezvous.seats import await_seat
from elaunch.rendezvous.steading import Steading
from elaunch.rendezvous.steward import MemberStore, Steward
from elaunch.rendezvous.waiting import beside

UNREACHABLE = 2  # leases: for so long a leader that lives may be out of reach
ASK_AGAIN = 1.0  # seconds until an etcd that refused is asked again
TELL_AFTER = 1.0  # seconds without the leader after which a person is told
RETRY_STREAM = 0.1  # seconds between two streams to the same leader
CLAIM_SPREAD = 0.0005  # seconds for each node that may claim to lead


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
    on_command: Callable[[Command | Request], None]
    next_heartbeat: NextHeartbeat
    stop_ranks: Callable[[float | None], Coroutine[Any, Any, None]]
    security: Security = OPEN
    steading: Steading | None = None


def new_node_id() -> str:
    """Unique for each agent start and each rejoin."""
    return secrets.token_hex(6)


class Membership:
    """A node's part in a job. ``run`` ends with the End command, or with the error that parts it from the job."""

    def __init__(self, site: Site, node: Node) -> None:
        self._site = site
        self._node = node
        self._end: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._leading: Term | None = None
        self._attached = asyncio.Event()
        self._log = structlog.get_logger().bind(job=site.keys.job, node=node.node_id)

    @property
    def attached(self) -> bool:
        """Whether a leader hears this node now."""
        return self._attached.is_set()

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
            site.server.pause()
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
            await _cancelled(waiting)

    async def _until_end(self, lease: Lease, first: bool) -> End:
        spread = CLAIM_SPREAD * self._site.policy.max_nodes
        election = Election(self._site.store, self._site.keys, lease.id, spread=spread)
        leading = asyncio.create_task(self._lead(election, first))
        tasks = [leading, asyncio.create_task(lease.keep()), asyncio.create_task(self._follow(election))]
        if self._site.steading is not None:
            tasks.append(asyncio.create_task(self._site.steading.attend(self._node.node_id, lease.id)))
        try:
            end = await beside(tasks, self._end)
            await beside(tasks, asyncio.ensure_future(self._site.stop_ranks(None)))
            if self._leading is not None and self._leading.job.phase.final:
                await asyncio.wait([leading], timeout=self._site.close_timeout)
            return end
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await election.close()

    async def _lead(self, election: Election, first: bool) -> None:
        """Lead whenever nobody else does; return when the job that this node led is over."""
        while True:
            record = Leader(self._node.node_id, self._node.control, secrets.token_hex(16))
            try:
                leadership = await election.campaign(record, at_once=first)
                first = False
                if await self._serve(leadership, record.token):
                    return
            except EtcdLostError as error:
                self._log.warning("etcd_unreachable", reason=str(error))
            except EtcdRefusedError as error:
                await self._refused(error)
            except DeposedError as error:
                self._log.warning("deposed", reason=str(error))

    async def _serve(self, leadership: Leadership, token: str) -> bool:
        """Lead until the job is over (True) or another leads (DeposedError).

        An etcd that is away ends no leadership: the lease alone decides, and while it lives the term starts anew.
        """
        site = self._site
        try:
            while True:
                term = Term(site.store, site.keys, leadership, site.policy, site.clock, self._node.node_id)
                self._leading = term
                site.server.serve(term, token)
                try:
                    await self._run(term, leadership)
                    self._take(end_of(term.job))  # our own stream may be cut just now, and nobody serves another
                    return True
                except (EtcdLostError, AmbiguousError, ConflictError) as error:
                    self._log.warning("etcd_unreachable", reason=str(error))
                except EtcdRefusedError as error:
                    await self._refused(error)
        finally:
            site.server.pause()
            self._leading = None

    async def _run(self, term: Term, leadership: Leadership) -> None:
        """Lead, and look after the members of an embedded etcd meanwhile."""
        site = self._site
        running = asyncio.create_task(term.run())
        tasks = [running]
        if site.steading is not None:
            tasks.append(asyncio.create_task(Steward(site.store, site.keys, leadership.guard, site.clock).run()))
        try:
            await beside(tasks, running)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, election: Election) -> None:
        """Keep a stream to whoever leads."""
        while True:
            try:
                await self._follow_leaders(election)
            except EtcdLostError as error:
                self._log.warning("etcd_unreachable", reason=str(error))
            except EtcdRefusedError as error:
                await self._refused(error)

    async def _refused(self, error: EtcdRefusedError) -> None:
        """An etcd that took this node in and now says no (out of space, a right withdrawn) may say yes again.

        The ranks are healthy, and stay so for as long as the lease is renewed: wait a moment, and ask again.
        """
        self._log.warning("etcd_refused", reason=str(error))
        await asyncio.sleep(ASK_AGAIN)

    async def _follow_leaders(self, election: Election) -> None:
        talk: asyncio.Task[None] | None = None
        looking = asyncio.current_task()

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None and looking is not None:
                looking.cancel()

        try:
            async for current in election.observe():
                await _cancelled(talk)
                talk = None
                if current is not None:
                    talk = asyncio.create_task(self._talk(*current))
                    talk.add_done_callback(ended)
        except asyncio.CancelledError:
            if talk is not None and talk.done() and not talk.cancelled():
                talk.result()
            raise
        finally:
            await _cancelled(talk)

    async def _talk(self, epoch: int, leader: Leader) -> None:
        """Streams to one leader, for as long as it leads.

        A node that cannot reach the leader of its job holds the job up while its lease lives: after a while it gives
        itself up (LeaseLostError), so that the others can go on without it.
        """
        site = self._site
        heard = site.clock.monotonic()
        told = False
        while True:
            why = await converse(
                leader,
                epoch,
                site.keys.job,
                site.status.newer_than,
                site.next_heartbeat,
                self._take,
                site.security,
                site.server.counters,
            )
            if self._attached.is_set():
                heard = site.clock.monotonic()
            self._attached.clear()
            self._log.debug("stream_ended", leader=leader.address, reason=why)
            silent = site.clock.monotonic() - heard
            if silent > TELL_AFTER and not told:
                told = True
                ends = f"it loses its part {site.lease_ttl} s after its last sign at the latest"
                self._log.warning("leader_silent", leader=leader.address, reason=why, text=ends)
            if silent > UNREACHABLE * site.lease_ttl:
                raise LeaseLostError(f"the leader at {leader.address} cannot be reached for {silent:.0f} s: {why}")
            await asyncio.sleep(RETRY_STREAM)

    def _take(self, command: Command | Request) -> None:
        self._attached.set()
        if self._end.done():
            return  # this node is on its way out: nothing may start here any more
        if isinstance(command, End):
            self._end.set_result(command)
        else:
            self._site.on_command(command)


async def _cancelled(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
