"""One job that a dedicated controller leads, from its election to the job's end or its own."""

from __future__ import annotations

import asyncio

import structlog

from elaunch.clock import Clock
from elaunch.controller.agreement import policy_of
from elaunch.controller.leader import Term
from elaunch.controller.overview import Signs
from elaunch.controller.policy import Policy
from elaunch.controller.server import ControlServer
from elaunch.errors import AmbiguousError, ConflictError, DeposedError, EtcdLostError, EtcdRefusedError
from elaunch.rendezvous.election import Leadership
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import Lease
from elaunch.rendezvous.records import Leader, Spec, read
from elaunch.rendezvous.store import Store

VACANT = 2.0  # seconds for which a job may be without any node before its leader lets go of it
AGAIN = 0.5  # seconds between two terms where etcd was away or refused


class Reign:
    """This controller as the leader of one job."""

    def __init__(
        self,
        store: Store,
        server: ControlServer,
        keys: JobKeys,
        leadership: Leadership,
        record: Leader,
        lease: Lease,
        clock: Clock,
    ) -> None:
        self._store = store
        self._server = server
        self._keys = keys
        self._leadership = leadership
        self._record = record
        self._lease = lease
        self._clock = clock
        self._log = structlog.get_logger().bind(job=keys.job, controller=record.node_id)

    async def lead(self, signs: Signs, policy: Policy) -> bool:
        """Lead until the job is over or without nodes, or another leads; False where no node can hear this leader.

        An etcd that is away ends no leadership, as with an agent's. Raises LeaseLostError.
        """
        while True:
            term = self._term(policy)
            self._server.serve(self._keys.job, term, self._record.token)
            try:
                why = await self._until(term, signs, policy)
            except DeposedError as error:
                self._log.warning("deposed", reason=str(error))
                return True
            except (EtcdLostError, AmbiguousError, ConflictError, EtcdRefusedError) as error:
                self._log.warning("etcd_unreachable", reason=str(error))
                await asyncio.sleep(AGAIN)
                continue
            if isinstance(why, Policy):
                policy = why
                continue
            self._log.info("led", epoch=self._leadership.epoch, why=why)
            return why != "unheard"

    def _term(self, policy: Policy) -> Term:
        return Term(
            self._store,
            self._keys,
            self._leadership,
            policy,
            self._clock,
            self._record.node_id,
            left=lambda: self._lease.left,
        )

    async def _until(self, term: Term, signs: Signs, policy: Policy) -> str | Policy:
        """Why the term is over; the new policy where that is the reason."""
        running = asyncio.create_task(term.run())
        looking = asyncio.create_task(self._look(term, signs, policy))
        try:
            await asyncio.wait({running, looking}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
                return "over"
            return looking.result()
        finally:
            for task in (running, looking):
                task.cancel()
            await asyncio.gather(running, looking, return_exceptions=True)

    async def _look(self, term: Term, signs: Signs, policy: Policy) -> str | Policy:
        """Return when the term has no sense any more, with the reason."""
        spec = signs.spec
        empty_since: float | None = None
        while not signs.deposed(self._leadership.epoch):
            if signs.spec != spec:
                spec = signs.spec
                asked = await self._policy()
                if asked is not None and asked != policy:
                    return asked
            now = self._clock.monotonic()
            empty_since = None if signs.nodes else now if empty_since is None else empty_since
            due = empty_since + VACANT if empty_since is not None else None
            if due is None and term.unheard_since is not None:
                due = term.unheard_since + self._lease.ttl
            if due is not None and now >= due:
                return "unheard" if signs.nodes else "vacant"
            await signs.changed(self._lease.ttl if due is None else due - now)
        return "deposed"

    async def _policy(self) -> Policy | None:
        found = await self._store.get(self._keys.spec)
        return policy_of(read(Spec, found.key, found.value)) if found else None
