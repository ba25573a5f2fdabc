"""One node id of a torchrun agent: its lease, its key, its view of the job, its bid to form the rounds."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from elaunch.clock import Clock
from elaunch.errors import (
    AmbiguousError,
    ConflictError,
    DeposedError,
    ElaunchError,
    EtcdLostError,
    LeaseLostError,
)
from elaunch.rendezvous.election import Election, Leadership
from elaunch.rendezvous.fence import Committer
from elaunch.rendezvous.joining import join
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import Lease
from elaunch.rendezvous.outlook import Outlook, closed_key
from elaunch.rendezvous.records import Leader, Phase, Spec, encode
from elaunch.rendezvous.rounds import Limits, Participant, Verdict, View, decide, make_plan
from elaunch.rendezvous.state import State
from elaunch.rendezvous.store import Compare, Delete, Field, Op, Put, Store, absent
from elaunch.rendezvous.waiting import beside

KEPT_PLANS = 100  # older plans are deleted; the newest never is, so that no number comes back
_RETRY = 1.0  # seconds until a commit that etcd did not settle is looked at again

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Site:
    """What stays the same over all node ids of one torchrun agent."""

    store: Store
    keys: JobKeys
    spec: Spec
    limits: Limits
    lease_ttl: int
    clock: Clock


class Presence:
    """A node's part in a job from joining to leaving. Made by :meth:`enter`."""

    def __init__(self, site: Site, lease: Lease, node: Participant) -> None:
        self._site = site
        self._lease = lease
        self._node = node
        self.outlook = Outlook(site.store, site.keys)
        self._tasks: list[asyncio.Task[Any]] = []

    @classmethod
    async def enter(cls, site: Site, node: Participant) -> Presence:
        """Join under ``node``'s id. Raises SpecMismatchError, EtcdLostError."""
        lease = await Lease.open(site.store, site.lease_ttl, clock=site.clock, on_deadline=lambda _: None)
        self = cls(site, lease, node)
        try:
            await join(site.store, site.keys, site.spec, node, lease.id)
            view = await self.outlook.load()
            if node.node_id not in view.participants:
                raise LeaseLostError("etcd ended the lease while joining")
        except BaseException:
            await self.leave()
            raise
        self._tasks = [
            asyncio.create_task(lease.keep()),
            asyncio.create_task(self.outlook.follow()),
            asyncio.create_task(self._lead()),
        ]
        return self

    @property
    def node_id(self) -> str:
        return self._node.node_id

    @property
    def lost(self) -> bool:
        """Whether this node id is of no more use. Any thread may ask."""
        return self.node_id not in self.outlook.view.participants or any(task.done() for task in self._tasks)

    @property
    def joined(self) -> int:
        """The revision at which this node came, 0 once it is gone."""
        me = self.outlook.view.participants.get(self.node_id)
        return 0 if me is None else me.joined

    async def announce(self, after: int, store_port: int) -> None:
        """Say that no rank of generation ``after`` or older runs here, and on which port the next store would be.

        Raises LeaseLostError.
        """
        self._node = replace(self._node, after=after, store_port=store_port)
        key = self._site.keys.node(self.node_id)
        revision = await self._beside(self._site.store.put(key, encode(self._node), lease=self._lease.id))
        await self._beside(self.outlook.reach(revision))

    async def newer(self, than: View) -> View:
        """As :meth:`Outlook.newer`. Raises LeaseLostError once this node id is of no more use."""
        view = await self._beside(self.outlook.newer(than))
        if self.node_id not in view.participants:
            raise LeaseLostError("etcd ended the lease")
        return view

    async def leave(self) -> None:
        """Stop everything and let the key go at once, where etcd can be told so."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(ElaunchError):  # else the lease ends by itself
            await self._lease.close()

    async def _beside(self, wanted: Coroutine[Any, Any, T]) -> T:
        """The result of ``wanted``, unless one of the tasks fails before."""
        asked = asyncio.ensure_future(wanted)
        try:
            return await beside(self._tasks, asked)
        finally:
            asked.cancel()

    async def _lead(self) -> None:
        """Run for leader for ever; form the rounds while leading."""
        election = Election(self._site.store, self._site.keys, self._lease.id)
        record = Leader(self.node_id, "", secrets.token_hex(16))
        try:
            while True:
                try:
                    await self._form_rounds(await election.campaign(record))
                except DeposedError as error:
                    log.warning("deposed: %s", error)
                    record = replace(record, token=secrets.token_hex(16))
                except EtcdLostError as error:
                    log.warning("etcd is away: %s", error)
        finally:
            await election.close()

    async def _form_rounds(self, leadership: Leadership) -> None:
        """Raises DeposedError."""
        clock, limits = self._site.clock, self._site.limits
        committer = Committer(self._site.store, self._site.keys.commit)
        enough_since: float | None = None
        while True:
            view, now = self.outlook.view, clock.monotonic()
            if len(view.waiting) < limits.min_nodes:
                enough_since = None
            elif enough_since is None:
                enough_since = now
            verdict = decide(view, limits, 0.0 if enough_since is None else now - enough_since)
            wait = verdict.wait
            if verdict.nodes:
                enough_since = None
                wait = _RETRY
                try:
                    await self.outlook.reach(await self._commit(committer, leadership, view, verdict))
                except (ConflictError, AmbiguousError, EtcdLostError) as error:
                    log.info("round not formed: %s", error)
            await self.outlook.newer(view, wait)

    async def _commit(self, committer: Committer, leadership: Leadership, view: View, verdict: Verdict) -> int:
        keys, plan = self._site.keys, make_plan(view, verdict)
        state = State(Phase.RUNNING, plan.generation, plan.restart_count, plan.reason)
        ops: list[Op] = [Put(keys.plan(plan.generation), encode(plan)), Put(keys.state, encode(state))]
        if plan.generation > KEPT_PLANS:
            ops.append(Delete(keys.plan(plan.generation - KEPT_PLANS)))
        guards = [
            leadership.guard,
            absent(keys.plan(plan.generation)),
            Compare(closed_key(keys), Field.MOD_REVISION, view.closed),
        ]
        revision = await committer.commit(guards, ops)
        log.info("generation %d: %s", plan.generation, plan.reason.text)
        return revision
