"""A process that leads the jobs of a cluster, beside others of its kind: one of them leads each job.

Each registers itself on its lease, and bids for every job that has nodes and no leader. Of those that are registered,
a hash of the job's name says who bids first: so the jobs are spread, and each has the same line of successors
everywhere. Whoever leads a job keeps it until it is gone itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NoReturn

import structlog

from elaunch import __version__
from elaunch.clock import Clock
from elaunch.controller.agreement import policy_of
from elaunch.controller.overview import Overview, Signs
from elaunch.controller.reign import Reign
from elaunch.controller.server import ControlServer
from elaunch.errors import ElaunchError, EtcdLostError, EtcdRefusedError, LeaseLostError
from elaunch.rendezvous import controllers
from elaunch.rendezvous.controllers import Present
from elaunch.rendezvous.election import Leadership, claim, resign
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import Lease
from elaunch.rendezvous.records import Controller, Leader, Spec, encode, read
from elaunch.rendezvous.store import Store
from elaunch.rendezvous.waiting import beside, within

TURN = 0.3  # seconds that each in the line of successors waits longer than the one before
COOL_OFF = 60.0  # seconds without a bid for a job that could not be led from here
LAST_WORDS = 3.0  # seconds for etcd to take the lease back
AGAIN = 1.0  # seconds until an etcd that was lost, or refused, is asked again


def place(controller_id: str, others: Iterable[str], job: str) -> int:
    """Where a controller stands in the line of those who are to lead ``job``: 0 bids at once."""
    line = sorted({controller_id, *others}, key=lambda name: hashlib.sha256(f"{job}\0{name}".encode()).digest())
    return line.index(controller_id)


class Dedicated:
    """Leads jobs until cancelled, under one lease after the other."""

    def __init__(
        self,
        store: Store,
        server: ControlServer,
        address: str,
        ttl: int,
        clock: Clock,
        web: str = "",
        standing_by: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``address`` is where agents reach ``server``, ``ttl`` the seconds after which another takes over.

        ``web`` is where this controller's page is, "" for nowhere. ``standing_by`` hears a sentence whenever this one
        is registered.
        """
        self._web = web
        self._standing_by = standing_by
        self._store = store
        self._server = server
        self._clock = clock
        self._me = Controller(
            secrets.token_hex(6), address, ttl, host=socket.gethostname(), pid=os.getpid(), version=__version__
        )
        self._log = structlog.get_logger().bind(controller=self._me.controller_id)

    async def run(self) -> NoReturn:
        """Stand by and lead, until cancelled. Where etcd answers, no leadership of its is left standing then."""
        while True:
            try:
                await self._serve_lease()
            except (EtcdLostError, EtcdRefusedError) as error:
                self._log.warning("etcd_unreachable", reason=str(error))
            except LeaseLostError as error:
                self._log.warning("lease_lost", reason=str(error))
            await asyncio.sleep(AGAIN)

    async def _serve_lease(self) -> None:
        lease = await Lease.open(self._store, int(self._me.lease_ttl), clock=self._clock, on_deadline=lambda _: None)
        try:
            await self._store.put(controllers.key(self._me.controller_id), encode(self._me), lease=lease.id)
            self._log.info("standing_by", address=self._me.address, lease_ttl=lease.ttl)
            self._standing_by(f"stands by at {self._me.address}")
            await Watchkeeping(self._store, self._server, self._me, lease, self._clock, self._web).run()
        finally:
            # Also where it was lost: an etcd that was away gives it its full time again, for nobody's good.
            with suppress(ElaunchError, asyncio.TimeoutError):
                await asyncio.shield(within(LAST_WORDS, lease.close()))


class Watchkeeping:
    """The time of one lease."""

    def __init__(
        self, store: Store, server: ControlServer, me: Controller, lease: Lease, clock: Clock, web: str
    ) -> None:
        self._web = web
        self._store = store
        self._server = server
        self._me = me
        self._lease = lease
        self._clock = clock
        self._present: Present = {}
        self._cool: dict[str, float] = {}
        self._ending = False
        self._attending: dict[str, asyncio.Task[None]] = {}
        self._overview = Overview(store, self._see)
        self._log = structlog.get_logger().bind(controller=me.controller_id)

    async def run(self) -> None:
        """Until cancelled, or raises LeaseLostError, EtcdLostError or EtcdRefusedError."""
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tasks = [asyncio.create_task(work) for work in (self._lease.keep(), self._overview.follow(), self._meet())]
        try:
            await beside(tasks, never)
        finally:
            self._ending = True
            ending = [*tasks, *self._attending.values()]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    async def _meet(self) -> None:
        async for present in controllers.observe(self._store):
            self._present = present

    def _see(self, signs: Signs) -> None:
        """Attend to each job that has nodes, in a task of its own."""
        if signs.nodes and signs.job not in self._attending:
            task = asyncio.create_task(self._attend(signs))
            self._attending[signs.job] = task
            task.add_done_callback(lambda ended: self._left(signs, ended))
        elif not signs.nodes and signs.job not in self._attending:
            self._overview.forget(signs)

    def _left(self, signs: Signs, task: asyncio.Task[None]) -> None:
        self._attending.pop(signs.job, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            # What one job has in etcd must not end the lead of the others.
            if isinstance(error, ElaunchError):
                self._log.error("job_not_led", job=signs.job, reason=str(error))
            else:
                self._log.error("job_not_led", job=signs.job, exc_info=error)
            self._cool_off(signs.job)
        elif not signs.nodes:
            self._cool.pop(signs.job, None)
        if not self._ending:
            self._see(signs)  # its nodes may have come back in this very moment

    def _cool_off(self, job: str) -> None:
        now = self._clock.monotonic()
        self._cool = {name: until for name, until in self._cool.items() if until > now} | {job: now + COOL_OFF}

    async def _attend(self, signs: Signs) -> None:
        """Bid for a job whenever it has no leader, for as long as it has nodes."""
        while signs.nodes and self._lease.left > 0:
            await signs.vacant()
            await asyncio.sleep(self._patience(signs.job))
            if signs.leader or not signs.nodes:
                continue
            try:
                await self._bid(signs)
            except LeaseLostError:
                return  # told by the task that keeps it
            except (EtcdLostError, EtcdRefusedError) as error:
                self._log.warning("etcd_unreachable", job=signs.job, reason=str(error))
                await asyncio.sleep(AGAIN)

    def _fits(self, job: str, spec: Spec) -> bool:
        """Whether the job's agents could speak to our server; a person is told where they could not."""
        ours = self._server.security.words
        if spec.security == ours:
            return True
        theirs = spec.security or "neither TLS nor tokens"
        text = f"its agents were started with {theirs}, this controller with {ours or 'neither'}"
        self._log.warning("job_not_led", job=job, text=text)
        return False

    def _patience(self, job: str) -> float:
        cool = self._cool.get(job, 0.0) - self._clock.monotonic()
        return max(cool, TURN * place(self._me.controller_id, self._present, job))

    async def _bid(self, signs: Signs) -> None:
        keys = JobKeys(signs.job)
        found = await self._store.get(keys.spec)
        spec = read(Spec, found.key, found.value) if found else None
        if spec is None or spec.max_restarts < 0:  # of the torchrun plug-in: its agents need no leader
            await signs.changed()
            return
        if not self._fits(signs.job, spec):
            self._cool_off(signs.job)
            return
        record = Leader(self._me.controller_id, self._me.address, secrets.token_hex(16), self._web)
        if not (epoch := await claim(self._store, keys.leader, record, self._lease.id)):
            await signs.changed(TURN)
            return
        leadership = Leadership(keys.leader, epoch)
        reign = Reign(self._store, self._server, keys, leadership, record, self._lease, self._clock)
        try:
            if not await reign.lead(signs, policy_of(spec)):
                self._cool_off(signs.job)
        finally:
            self._server.pause(signs.job)
            if not self._ending:  # else all leaderships end with the lease
                await resign(self._store, leadership, self._lease)
