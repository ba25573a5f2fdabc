"""A node's part in an embedded etcd: it learns where the members are, and keeps one where it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import structlog

from elaunch.errors import CompactedError, ElaunchError, EtcdLostError, EtcdRefusedError
from elaunch.rendezvous.berths import adopt_embedded, join_embedded, offer
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.hiring import EmbeddedEtcd
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import decode, encode
from elaunch.rendezvous.tls import Tls
from elaunch.rendezvous.trio_view import Berth, MemberList

_AGAIN = 1.0  # seconds until an etcd that did not answer is asked again


class Steading:
    """One agent's place for a member of its job's etcd, over all of the agent's node ids.

    ``port`` is the one to be taken where it is free. ``spare`` hears the pid of a keeper that was started: it may
    outlive this process. ``held`` is the member that this host has from the start. :attr:`listeners` are called
    when etcd is to be found elsewhere than before.
    """

    def __init__(
        self,
        store: EtcdStore,
        job: str,
        address: str,
        port: int,
        *,
        held: EmbeddedEtcd | None = None,
        state_dir: Path | None = None,
        tls: Tls | None = None,
        spare: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._keys = JobKeys(job)
        self._address = address
        self._port = port
        self._held = held
        self._state_dir = state_dir
        self._tls = tls
        self.listeners: list[Callable[[], None]] = []
        self._spare = spare
        self._listed = MemberList((), ())
        self._news = asyncio.Event()
        self._berth: Berth | None = None
        self._spent: set[str] = set()  # the peer URLs of members that ran here: never of two
        self._log = structlog.get_logger().bind(job=job)

    @property
    def held(self) -> EmbeddedEtcd | None:
        """The member that this host keeps now."""
        return self._held

    async def attend(self, node_id: str, lease: int) -> NoReturn:
        """Play this part under one node id, until cancelled. Raises LeaseLostError once the lease is gone."""
        self._berth = None
        following = asyncio.create_task(self._follow())
        following.add_done_callback(lambda _: self._news.set())
        ending: asyncio.Task[None] | None = None
        try:
            while True:
                self._news.clear()
                if following.done():
                    following.result()
                if ending is not None and ending.done():
                    await self._lost_member()
                try:
                    await self._settle(node_id, lease)
                    ending = ending if ending is not None and not ending.done() else self._watch_member()
                    await self._news.wait()
                except (EtcdLostError, EtcdRefusedError) as error:
                    self._log.debug("etcd_berth", reason=str(error))
                    await asyncio.sleep(_AGAIN)
        finally:
            for task in (following, ending):
                if task is not None:
                    task.cancel()
            await asyncio.gather(following, *([ending] if ending else []), return_exceptions=True)

    async def _follow(self) -> NoReturn:
        """Know the newest list of members."""
        while True:
            try:
                snapshot = await self._store.list(self._keys.members)
                for kv in snapshot.items:
                    self._take(kv.value)
                changes = self._store.watch(self._keys.members, start_revision=snapshot.revision + 1)
                async with contextlib.aclosing(changes):
                    async for _, batch in changes:
                        for change in batch:
                            if not change.deleted:
                                self._take(change.kv.value)
            except CompactedError:
                continue
            except (EtcdLostError, EtcdRefusedError) as error:
                self._log.debug("etcd_list", reason=str(error))
                await asyncio.sleep(_AGAIN)

    def _take(self, value: bytes) -> None:
        try:
            self._listed = decode(MemberList, value)
        except ValueError:
            return
        if self._listed.endpoints and set(self._listed.endpoints) != set(self._store.endpoints):
            self._store.use(self._listed.endpoints)
            for listener in self.listeners:
                listener()
        self._news.set()

    def _watch_member(self) -> asyncio.Task[None] | None:
        if self._held is None:
            return None
        task = asyncio.create_task(self._held.ended())
        task.add_done_callback(lambda _: self._news.set())
        return task

    async def _lost_member(self) -> None:
        """Its keeper has ended: it was let go, or something killed it. This node may be asked for another."""
        if self._held is not None:
            held, self._held = self._held, None
            self._spent.add(held.peer)
            await held.release(_AGAIN)
            self._log.debug("etcd_member_gone", endpoint=held.endpoints[0])

    async def _settle(self, node_id: str, lease: int) -> None:
        """Bring what this node says and does in line with what is asked."""
        if self._berth is None and self._held is None:
            self._held = await adopt_embedded(self._keys.job, self._address, self._port)
        if self._held is None:
            await self._without_member(node_id, lease)
        elif self._held.peer and (self._berth is None or self._berth.peer != self._held.peer):
            await self._put(Berth(node_id, self._address, self._held.peer, self._held.endpoints[0]), lease)

    async def _without_member(self, node_id: str, lease: int) -> None:
        berth, listed = self._berth, self._listed
        if berth is not None and berth.refusal:
            return
        if berth is not None and berth.peer in listed.peers and berth.peer not in self._spent:
            await self._start_member(berth, listed, lease)
        elif listed.invited == node_id and berth is None:
            try:
                offered = offer(node_id, self._address, self._port, self._tls)
            except OSError as error:
                offered = Berth(node_id, self._address, "", "", f"no port is free: {error.strerror}")
            await self._put(offered, lease)
        elif berth is not None and (listed.invited != node_id or berth.peer in self._spent):
            await self._store.delete(self._keys.berth(node_id))
            self._berth = None

    async def _start_member(self, berth: Berth, listed: MemberList, lease: int) -> None:
        """Once only for each berth: a member that lost its data must not come back as the same one."""
        self._spent.add(berth.peer)
        try:
            self._held = await join_embedded(self._keys.job, berth, listed, state_dir=self._state_dir, tls=self._tls)
        except (ElaunchError, OSError) as error:
            reason = str(error)
            self._log.warning("etcd_member_not_started", reason=reason)
            refusing = Berth(berth.node_id, berth.address, berth.peer, berth.endpoint, reason[:500])
            await self._put(refusing, lease)
            return
        self._spare(self._held.keeper)
        self._log.info("etcd_member", text=f"a member of the job's etcd runs on this host at {berth.endpoint}")

    async def _put(self, berth: Berth, lease: int) -> None:
        await self._store.put(self._keys.berth(berth.node_id), encode(berth), lease=lease)
        self._berth = berth
