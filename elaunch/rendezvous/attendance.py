"""A torchrun agent's part in a job over all of its rounds, under one node id after the other."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import replace

from elaunch.errors import AmbiguousError, JoinTimeoutError, LeaseLostError, RendezvousError
from elaunch.rendezvous.outlook import Outlook, closed_key
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.presence import Presence, Site
from elaunch.rendezvous.records import Reason, encode
from elaunch.rendezvous.rounds import Participant, View, news
from elaunch.rendezvous.store import Compare, Field, Put
from elaunch.rendezvous.waiting import within

log = logging.getLogger(__name__)


class RunClosedError(RendezvousError):
    """This agent's run was closed: there is no further round for it."""

    code = "run_closed"


class Attendance:
    """All methods but ``news`` and ``closed`` belong to the loop's thread."""

    def __init__(self, site: Site, template: Participant) -> None:
        self._site = site
        self._template = template
        self._presence: Presence | None = None
        self._first_joined = 0  # tells this agent's run from those that were closed before and after
        self._generation = 0

    # --- asked from any thread ----------------------------------------------------------------------------------

    def news(self) -> int:
        """How many nodes ask for a new round (:func:`elaunch.rendezvous.rounds.news`); 1 where our lease is lost."""
        presence = self._presence
        if presence is None:
            return 0
        return 1 if presence.lost else news(presence.outlook.view, presence.node_id, self._site.limits)

    @property
    def closed(self) -> bool:
        """Whether this agent's run is known to be closed."""
        presence = self._presence
        return presence is not None and self._is_closed(presence.outlook.view)

    @property
    def node_id(self) -> str:
        return "" if self._presence is None else self._presence.node_id

    def lives(self, node_id: str) -> bool:
        """Whether that node's lease stands, as far as we know."""
        presence = self._presence
        return presence is not None and node_id in presence.outlook.view.participants

    # --- asked in the loop --------------------------------------------------------------------------------------

    async def next_round(self, store_port: int, timeout: float) -> Plan:
        """Announce this node, wait for the round that it is in.

        Raises JoinTimeoutError after ``timeout`` seconds, RunClosedError, SpecMismatchError, and EtcdLostError or
        EtcdRefusedError where etcd cannot be used.
        """
        try:
            plan = await asyncio.wait_for(self._attend(store_port), timeout)
        except asyncio.TimeoutError:
            text = self._shortage(timeout)
            await self.leave()
            raise JoinTimeoutError(text) from None
        self._generation = plan.generation
        return plan

    async def _attend(self, store_port: int) -> Plan:
        while True:
            try:
                presence = await self._announced(store_port)
                return await self._planned(presence)
            except LeaseLostError as error:
                log.warning("this node is to join again: %s", error)
                await self.leave()

    async def _announced(self, store_port: int) -> Presence:
        presence = self._presence
        if presence is not None and not presence.lost:
            await presence.announce(self._generation, store_port)
            return presence
        await self.leave()
        await self._old_run_gone()
        node = replace(self._template, node_id=secrets.token_hex(6), store_port=store_port)
        presence = self._presence = await Presence.enter(self._site, node)
        self._first_joined = self._first_joined or presence.joined
        return presence

    async def _old_run_gone(self) -> None:
        """Where the last run was closed, wait for its nodes to go. A dead one is gone after its lease."""
        outlook = Outlook(self._site.store, self._site.keys)
        view = await outlook.load()
        if self._is_closed(view):
            raise self._closed_error()
        if not _has_old(view):
            return
        log.info("the last run of %r is closed; waiting for its nodes to go", self._site.keys.job)
        following = asyncio.create_task(outlook.follow())
        try:
            await within(self._site.lease_ttl + 1.0, _until_gone(outlook))
        except asyncio.TimeoutError:
            raise self._closed_error() from None
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _planned(self, presence: Presence) -> Plan:
        view = presence.outlook.view
        while True:
            if self._is_closed(view):
                raise self._closed_error()
            plan = view.plan
            if plan is not None and plan.generation > self._generation and plan.member(presence.node_id):
                return plan
            view = await presence.newer(view)

    async def close_run(self) -> None:
        """Close the run that this agent belongs to; a later one is left alone."""
        key = closed_key(self._site.keys)
        found = await self._site.store.get(key)
        revision = 0 if found is None else found.mod_revision
        if not self._first_joined or revision > self._first_joined:
            return
        reason = Reason("closed", f"node {self._template.host} (pid {self._template.pid}) ended")
        try:
            await self._site.store.txn([Compare(key, Field.MOD_REVISION, revision)], [Put(key, encode(reason))])
        except AmbiguousError:
            await self.close_run()  # closing twice is harmless: the second time changes nothing

    @property
    def took_part(self) -> bool:
        """Whether this agent was in any round."""
        return self._generation > 0

    async def leave(self) -> None:
        """Let this node's key go."""
        presence, self._presence = self._presence, None
        if presence is not None:
            await presence.leave()

    def _is_closed(self, view: View) -> bool:
        return 0 < self._first_joined < view.closed

    def _closed_error(self) -> RunClosedError:
        return RunClosedError(f"rendezvous: the run {self._site.keys.job!r} is closed: one of its nodes has ended")

    def _shortage(self, timeout: float) -> str:
        limits = self._site.limits
        view = None if self._presence is None else self._presence.outlook.view
        waiting = 0 if view is None else len(view.waiting)
        running = 0 if view is None else sum(view.runs(node) for node in view.participants.values())
        return (
            f"rendezvous: {self._site.keys.job!r} formed no round with this node within {timeout:g} s "
            f"(join_timeout): {waiting} nodes wait, {running} run; {limits.min_nodes} to {limits.max_nodes} are wanted"
        )


def _has_old(view: View) -> bool:
    return any(node.joined < view.closed for node in view.participants.values())


async def _until_gone(outlook: Outlook) -> None:
    view = outlook.view
    while _has_old(view):
        view = await outlook.newer(view)
