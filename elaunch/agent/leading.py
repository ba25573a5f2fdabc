"""A node's part in leading its job: it bids where nobody leads, and serves a term when it has won."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from elaunch.clock import Clock
from elaunch.controller.commands import End, end_of
from elaunch.controller.leader import Term
from elaunch.controller.policy import Policy
from elaunch.controller.server import ControlServer
from elaunch.errors import AmbiguousError, ConflictError, DeposedError, EtcdLostError, EtcdRefusedError
from elaunch.rendezvous import controllers
from elaunch.rendezvous.election import Election, Leadership, resign
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import Lease
from elaunch.rendezvous.records import Leader, Node
from elaunch.rendezvous.store import Store
from elaunch.rendezvous.waiting import beside, cancelled

IN_VAIN = 120.0  # seconds without a handover to controllers that were there, and did not lead when they could
ASK_AGAIN = 1.0  # seconds until an etcd that refused is asked again


@dataclass(frozen=True, slots=True)
class Pages:
    """A job's pages while this node leads: where they are ("": not known beforehand), and what serves them."""

    url: str
    serve: Callable[[], Coroutine[Any, Any, None]]


class Candidate:
    """Leads whenever nobody else does, but leaves it to a dedicated controller where there is one."""

    def __init__(
        self,
        store: Store,
        keys: JobKeys,
        policy: Policy,
        clock: Clock,
        server: ControlServer,
        node: Node,
        lease: Lease,
        on_end: Callable[[End], None],
        tend: Callable[[Leadership], Coroutine[Any, Any, None]],
        host_failed: Callable[[str, str], None],
        pages: Pages | None = None,
    ) -> None:
        """``tend`` is what else whoever leads has to look after; it ends when it is cancelled, or has nothing to do.

        ``host_failed`` hears of each host that failed, and how, while this node leads. ``pages`` are the job's, where
        some are wanted.
        """
        self._store = store
        self._keys = keys
        self._policy = policy
        self._clock = clock
        self._server = server
        self._node = node
        self._lease = lease
        self._on_end = on_end
        self._tend = tend
        self._host_failed = host_failed
        self._pages = pages
        self._term: Term | None = None
        self._in_vain = False
        self._log = structlog.get_logger().bind(job=keys.job, node=node.node_id)

    @property
    def tells_the_end(self) -> bool:
        """This node leads, and the job is over: the others hear of it from here."""
        return self._term is not None and self._term.job.phase.final

    async def leave_to_controllers(self) -> None:
        """Wait while a dedicated controller may come to lead. Where none came, it gets its next chance much later."""
        self._in_vain = not await controllers.absent(self._store)

    async def run(self, election: Election, first: bool) -> None:
        """Bid and lead; return when the job that this node led is over. ``first``: the job has no other node yet."""
        while True:
            record = Leader(
                self._node.node_id, self._node.control, secrets.token_hex(16), self._pages.url if self._pages else ""
            )
            try:
                leadership = await election.campaign(record, at_once=first)
                first = False
                if await self._lead(leadership, record.token):
                    return
            except EtcdLostError as error:
                self._log.warning("etcd_unreachable", reason=str(error))
            except EtcdRefusedError as error:
                await refused(self._log, error)
            except DeposedError as error:
                self._log.warning("deposed", reason=str(error))

    async def _lead(self, leadership: Leadership, token: str) -> bool:
        """Lead until the job is over (True), a controller takes it (False), or another leads (DeposedError).

        An etcd that is away ends no leadership: the lease alone decides, and while it lives the term starts anew.
        """
        pages = asyncio.create_task(self._pages.serve()) if self._pages is not None else None
        try:
            while True:
                term = Term(
                    self._store,
                    self._keys,
                    leadership,
                    self._policy,
                    self._clock,
                    self._node.node_id,
                    left=lambda: self._lease.left,
                    host_failed=self._host_failed,
                )
                self._term = term
                self._server.serve(self._keys.job, term, token)
                try:
                    if not await self._serve(term, leadership):
                        self._server.pause(self._keys.job)
                        await resign(self._store, leadership, self._lease)
                        return False
                    self._on_end(end_of(term.job))  # our own stream may be cut just now, and nobody serves another
                    return True
                except (EtcdLostError, AmbiguousError, ConflictError) as error:
                    self._log.warning("etcd_unreachable", reason=str(error))
                except EtcdRefusedError as error:
                    await refused(self._log, error)
        finally:
            self._server.pause(self._keys.job)
            self._term = None
            await cancelled(pages)

    async def _serve(self, term: Term, leadership: Leadership) -> bool:
        """Whether the term went on to the end of the job, and not only until a controller was there to take over."""
        relief = asyncio.create_task(self._await_relief(term))
        tending, running = asyncio.create_task(self._tend(leadership)), asyncio.create_task(term.run())
        try:
            await beside([tending], running)
        finally:
            await cancelled(running, tending, relief)
        return term.job.phase.final

    async def _await_relief(self, term: Term) -> None:
        """Ask the term to end in a quiet moment once a dedicated controller has proved to last."""
        await asyncio.sleep(IN_VAIN if self._in_vain else 0.0)
        try:
            await controllers.lasting(self._store)
        except (EtcdLostError, EtcdRefusedError) as error:
            self._log.debug("controllers_unknown", reason=str(error))
        else:
            self._log.info("handing_over", text="a dedicated controller is there to lead")
            term.retire()


async def refused(log: structlog.typing.FilteringBoundLogger, error: EtcdRefusedError) -> None:
    """An etcd that took this node in and now says no (out of space, a right withdrawn) may say yes again.

    The ranks are healthy, and stay so for as long as the lease is renewed: wait a moment, and ask again.
    """
    log.warning("etcd_refused", reason=str(error))
    await asyncio.sleep(ASK_AGAIN)
