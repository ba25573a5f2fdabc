"""What a keeper knows of its job: the nodes, the last state, the other members; and what it keeps of them on disk."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace

from elaunch.errors import AmbiguousError, CompactedError, ElaunchError, EndpointUnreachableError
from elaunch.rendezvous.child import Layout
from elaunch.rendezvous.company import Company
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.home import SavedMembers, SavedState
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.order import Order
from elaunch.rendezvous.records import decode, encode
from elaunch.rendezvous.state import State
from elaunch.rendezvous.store import KeyValue, Put, absent
from elaunch.rendezvous.trio_view import MemberList
from elaunch.rendezvous.waiting import within

_ANSWER = 4.0  # seconds for an answer: longer than it takes to elect another leader


class Chronicle:
    """``nodes`` are the keys of those that live, ``final`` is whether the job has ended, ``saved_last`` whether the
    last state that came is on disk. ``on_news`` is called when something has changed.
    """

    def __init__(self, order: Order, layout: Layout, store: EtcdStore, on_news: Callable[[], None]) -> None:
        self.nodes: set[str] = set()
        self.final = False
        self.saved_last = True
        self.company = Company(order.peer, SavedMembers(layout.members), bool(order.cluster))
        self._order = order
        self._store = store
        self._on_news = on_news
        self._saved = SavedState(layout.directory / "state.json")
        self._keys = JobKeys(order.job)
        self._cluster = 0

    async def restore(self) -> None:
        """Write back the state of an earlier run whose data are gone; create-only, so that newer data win.

        Its horizon is a revision of an etcd that is no more: left as it is, the nodes of the next run would count as
        those of the last, and end as it ended.
        """
        await self._name_peer()
        saved = None if self._order.disposable else self._saved.read()
        if saved is not None:
            try:
                value = encode(replace(decode(State, saved), horizon=0))
            except ValueError as error:
                raise EndpointUnreachableError(
                    f"rendezvous: {self._saved.path} is damaged ({error}); without it generations count from 1"
                ) from None
            with contextlib.suppress(AmbiguousError):  # create-only: sent or not, no newer state is lost
                await self._store.txn([absent(self._keys.state)], [Put(self._keys.state, value)])

    def save(self, value: bytes) -> bool:
        """Whether it is saved now. A full disk must not end the keeper: etcd still has the value."""
        if self._order.disposable:
            return True
        try:
            self._saved.write(value)
        except OSError as error:
            print(f"cannot save the job's state: {error}", file=sys.stderr, flush=True)
            return False
        return True

    async def follow(self) -> None:
        """Know the job's nodes and keep its state saved."""
        while True:
            try:
                await self._learn_cluster()
                snapshot = await self._store.list(self._keys.prefix)
                self.nodes = set()
                for item in snapshot.items:
                    self._note(item, deleted=False)
                changes = self._store.watch(self._keys.prefix, start_revision=snapshot.revision + 1)
                async for _, batch in changes:
                    for change in batch:
                        self._note(change.kv, deleted=change.deleted)
            except (CompactedError, ElaunchError):
                continue  # list again; the store has waited already

    async def _learn_cluster(self) -> None:
        if self._order.peer and not self._cluster:
            health = await self._store.health(self._order.endpoint, timeout=1.0)
            self._cluster = 0 if health is None else health.cluster

    def _note(self, kv: KeyValue, *, deleted: bool) -> None:
        if kv.key.startswith(self._keys.nodes):
            (self.nodes.discard if deleted else self.nodes.add)(kv.key)
        elif kv.key == self._keys.state and not deleted:
            self.saved_last = self.save(kv.value)
            self.final = _is_final(kv.value)
        elif kv.key == self._keys.members and not deleted and self._order.peer:
            self._note_members(kv.value)
        self._on_news()

    def _note_members(self, value: bytes) -> None:
        """Follow the members: where etcd is asked, what is saved of them, whether this one is still among them."""
        try:
            listed = decode(MemberList, value)
        except ValueError:
            return
        if others := self.company.note(listed, self._cluster):
            own = [self._order.endpoint] if self._order.endpoint in listed.endpoints else []
            self._store.use([*own, *(endpoint for endpoint in others if endpoint not in own)])

    async def _name_peer(self) -> None:
        """Data of an earlier run know this member by where it listened for others then, and a list that is old."""
        if self._order.peer:
            await self._store.delete(self._keys.members)
            members = await self._store.members()
            if len(members) == 1 and members[0].peers != (self._order.peer,):
                with contextlib.suppress(AmbiguousError):
                    await self._store.move_peer(members[0].id, self._order.peer)

    async def answers(self) -> bool:
        """Whether etcd has a majority."""
        try:
            await within(_ANSWER, self._store.get(self._keys.members))
        except (ElaunchError, asyncio.TimeoutError):
            return False
        return True

    async def let_go(self) -> bool:
        """Whether the other members say that this one is none of them any more."""
        with contextlib.suppress(ElaunchError, asyncio.TimeoutError):
            members = await within(_ANSWER, self._store.members())
            self.company.left = not any(self._order.peer in member.peers for member in members)
        return self.company.left

    async def keep_last(self) -> bool:
        """Whether nothing is lost if etcd and its data go now."""
        if self.company.several:  # they end all at once: etcd may not answer any more, but it has told everything
            return self.company.left or self.saved_last
        try:
            state = await self._store.get(self._keys.state)
            return state is None or self.save(state.value)
        except ElaunchError:
            return False


def _is_final(value: bytes) -> bool:
    try:
        return decode(State, value).phase.final
    except ValueError:
        return False
