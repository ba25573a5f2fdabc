"""The agent of one node: from the command line to the exit code."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress

import structlog

from elaunch import __version__
from elaunch.agent.beating import beating
from elaunch.agent.drainer import Drainer
from elaunch.agent.ending import outcome_of, pass_on
from elaunch.agent.farewell import write_farewell
from elaunch.agent.injecting import Injector
from elaunch.agent.membership import Membership, Site, new_node_id
from elaunch.agent.opening import opened
from elaunch.agent.options import LaunchOptions
from elaunch.agent.outcome import Outcome
from elaunch.agent.parts import Parts
from elaunch.agent.requests import Requests
from elaunch.agent.signals import SignalWatch
from elaunch.agent.store import etcd_access
from elaunch.agent.stuck import timeout_of, watch_stuck
from elaunch.agent.telling import tell_end
from elaunch.agent.terms import policy_from, spec_of
from elaunch.clock import SystemClock
from elaunch.controller.commands import Aside, Command, End, Inject, Leave, Probe, Signal, Stacks
from elaunch.controller.operations import ABORTED
from elaunch.errors import EndpointUnreachableError, EtcdLostError, EtcdRefusedError, LeaseLostError
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import margin_of
from elaunch.rendezvous.listeners import heard
from elaunch.rendezvous.records import Node
from elaunch.rendezvous.waiting import cancelled
from elaunch.reports import Receipts

ANSWER_SECONDS = 2.0  # for which an embedded etcd outlasts an aborted job at most, until the operator has the answer


async def run_agent(options: LaunchOptions) -> Outcome:
    """Run this node's part of the job until it ends. Raises ElaunchError where it could not be begun or went on."""
    signals = SignalWatch(options.signals, options.scheduled)
    with signals:
        try:
            async with beating(options.scheduled) as beat, opened(options) as parts:
                if beat is not None:
                    beat.attach(parts.board, lambda: parts.group.wanted)
                end = await Agent(options, parts, signals).run()
                parts.events.finished(end)
                tell_end(end)
                if end.code == ABORTED and parts.backend.held is not None:
                    # Whoever asked for it hears of it from this etcd.
                    await heard(parts.backend.store, JobKeys(options.job), ANSWER_SECONDS)
        except asyncio.CancelledError:
            if signals.first is None:
                raise
            end = signals.end(signals.first)
    pass_on(end, os.environ)
    return outcome_of(end)


class Agent:
    """One node's agent with everything open; ``run`` joins, and joins again when the lease was lost."""

    def __init__(self, options: LaunchOptions, parts: Parts, signals: SignalWatch) -> None:
        self._options = options
        self._parts = parts
        self._signals = signals
        self._lease = 0
        self._injector = Injector(parts.group.ranks, parts.board, parts.inject_pages, parts.mailbox.note)
        self._requests = Requests(parts.group.ranks, parts.board, parts.witnesses, self._injector)
        conf = options.conf
        self._drainer = Drainer(options.scheduled)
        self._site = Site(
            store=parts.backend.store,
            keys=JobKeys(options.job),
            spec=spec_of(options),
            policy=policy_from(options),
            clock=SystemClock(),
            status=parts.board,
            server=parts.server,
            lease_ttl=conf.lease_ttl,
            close_timeout=conf.close_timeout,
            on_deadline=self._on_deadline,
            on_lease=self._on_lease,
            on_command=self._on_command,
            next_heartbeat=parts.pulse.next,
            stop_ranks=self._stop_ranks,
            security=options.security,
            steading=parts.backend.steading,
            host_failed=self._drainer.host_failed,
            web=options.web,
            picture=parts.picture,
        )
        if parts.backend.steading is not None:
            parts.backend.steading.listeners.append(self._write_farewell)

    async def run(self) -> End:
        """The job's end, as the leader told it. Raises EtcdLostError when etcd does not come back."""
        running = asyncio.create_task(self._parts.group.run())
        patience = timeout_of(os.environ)
        stuck = watch_stuck(patience, lambda: self._parts.group.ranks.pids, self._parts.group.exits.give_up)
        watching = asyncio.create_task(stuck)
        mail = asyncio.create_task(self._parts.mailbox.run())
        links = asyncio.create_task(self._parts.links.run())
        try:
            while True:
                try:
                    return await self._beside(running, self._join())
                except LeaseLostError as error:
                    await self._tell_lost(error)
                self._signals.detach()
                if self._signals.first is not None:
                    return self._signals.end(self._signals.first)
                await self._await_etcd()
        finally:
            self._requests.close()
            await self._injector.close()
            await self._drainer.close()
            await cancelled(running, watching, mail, links)

    async def _beside(self, running: asyncio.Task[None], joining: asyncio.Task[End]) -> End:
        """The end of this membership, unless the ranks cannot be followed any more, or were killed at the deadline."""
        passed = asyncio.create_task(self._parts.deadline_passed.wait())
        try:
            await asyncio.wait([running, joining, passed], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            if passed.done() and not joining.done():
                raise LeaseLostError("its ranks are dead, so that it joins again")
            return await joining
        finally:
            passed.cancel()
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)

    async def _tell_lost(self, error: LeaseLostError) -> None:
        log = structlog.get_logger()
        if self._parts.deadline_passed.is_set():
            log.warning("deadline_passed", reason="the lease was not renewed in time, and the ranks were killed")
        log.warning("lease_lost", reason=str(error))
        if lost := await self._parts.backend.majority_lost():
            log.warning("etcd_majority_lost", text=lost)

    def _join(self) -> asyncio.Task[End]:
        options = self._options
        self._parts.deadline_passed.clear()
        node = Node(
            node_id=new_node_id(),
            host=socket.gethostname(),
            address=self._parts.address,
            slots=options.slots,
            store_port=self._parts.group.store_port,
            control=self._parts.control,
            pid=os.getpid(),
            role=options.role,
            node_rank=options.node_rank,
            owns_rank=options.owns_rank,
            version=__version__,
            topology=self._parts.topology,
            place=options.scheduled.place if options.scheduled is not None else self._options.place,
        )
        self._parts.board.join(node.node_id)
        membership = Membership(self._site, node)
        self._signals.attach(membership, self._parts.board, self._parts.group.ranks, self._options.shutdown_timeout)
        return asyncio.create_task(membership.run())

    def _on_command(self, command: Command | Aside) -> None:
        if isinstance(command, Receipts):
            self._parts.mailbox.take(command)
        elif isinstance(command, (Signal, Stacks, Inject)):
            self._requests.take(command)
        elif isinstance(command, Probe):
            if self._parts.reachability is not None:
                self._parts.reachability.take(command)
        elif isinstance(command, Leave):
            self._signals.leave(command.reason)
        else:
            self._parts.group.want(command)

    async def _stop_ranks(self, grace: float | None) -> None:
        await self._parts.group.leave(grace=grace)
        if grace == 0.0:
            self._parts.page.clear()

    def _on_deadline(self, deadline: float) -> None:
        margin = margin_of(self._options.conf.lease_ttl)
        self._parts.page.set(deadline - margin, deadline - margin / 2)

    def _on_lease(self, lease: int) -> None:
        self._lease = lease
        self._write_farewell()

    def _write_farewell(self) -> None:
        where, access = self._parts.backend.endpoints, etcd_access(self._options)
        try:
            write_farewell(self._parts.farewell, where, access, self._lease)
        except OSError as error:  # only costs the others the rest of the lease, should this agent be killed
            structlog.get_logger().warning("farewell_not_written", reason=str(error))

    async def _await_etcd(self) -> None:
        """After a lost lease: the ranks are gone; join again if etcd answers in time.

        An etcd that was away has given the lease its full time again: it is given back, so that nobody waits for it.
        """
        timeout = self._options.conf.etcd_timeout
        try:
            await self._parts.backend.store.check(timeout=timeout)
            with suppress(EtcdLostError, EtcdRefusedError):
                await self._parts.backend.store.revoke(self._lease)
        except EndpointUnreachableError as error:
            advice = await self._advice()
            raise EtcdLostError(f"{error}; its lease is lost and its ranks were stopped{advice}") from None

    async def _advice(self) -> str:
        if self._options.backend == "etcd":
            return ""
        if lost := await self._parts.backend.majority_lost():
            return f"; {lost}"
        embedded = self._parts.backend.embedded
        said = embedded.complaint if embedded is not None else ""
        return (
            f"{f'; the last of it: {said}' if said else ''}"
            "; this job's etcd ran embedded on the node that owns the rendezvous endpoint, and was lost with it:"
            " use an etcd of your own (--rdzv-backend=etcd --rdzv-endpoint=HOST:2379) to survive the loss of that node"
        )
