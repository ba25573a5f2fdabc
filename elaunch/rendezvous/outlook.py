"""A job's rounds, kept current by one watch."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

from elaunch.errors import CompactedError
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.records import read
from elaunch.rendezvous.rounds import Participant, View
from elaunch.rendezvous.store import Change, KeyValue, Snapshot, Store
from elaunch.rendezvous.waiting import within


def closed_key(keys: JobKeys) -> str:
    """Written when a run ends. It counts for the nodes that joined before only."""
    return keys.prefix + "closed"


class Outlook:
    """``view`` is replaced, never changed: another thread may read it."""

    def __init__(self, store: Store, keys: JobKeys) -> None:
        self._store = store
        self._keys = keys
        self.view = View(0, {}, None, 0)
        self._changed = asyncio.Event()

    async def load(self) -> View:
        """Read everything once."""
        self._set(self._read(await self._store.list(self._keys.prefix)))
        return self.view

    async def follow(self) -> NoReturn:
        """Keep the view current from the last load on."""
        while True:
            changes = self._store.watch(self._keys.prefix, start_revision=self.view.revision + 1)
            try:
                async for revision, batch in changes:
                    self._set(self._apply(revision, batch))
            except CompactedError:
                await self.load()

    async def newer(self, than: View, timeout: float | None = None) -> View:
        """The next view, or after ``timeout`` seconds the same one."""
        if self.view is than:
            with suppress(asyncio.TimeoutError):
                await within(timeout, self._changed.wait())
        return self.view

    async def reach(self, revision: int) -> None:
        """Wait until the view shows what was written at ``revision``."""
        while self.view.revision < revision:
            await self.newer(self.view)

    def _set(self, view: View) -> None:
        self.view = view
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _read(self, snapshot: Snapshot) -> View:
        keys = self._keys
        nodes = [_participant(kv) for kv in snapshot.items if kv.key.startswith(keys.nodes)]
        plans = [kv for kv in snapshot.items if kv.key.startswith(keys.plans)]
        closed = [kv.mod_revision for kv in snapshot.items if kv.key == closed_key(keys)]
        return View(
            revision=snapshot.revision,
            participants={node.node_id: node for node in nodes},
            plan=read(Plan, plans[-1].key, plans[-1].value) if plans else None,
            closed=closed[0] if closed else 0,
        )

    def _apply(self, revision: int, batch: tuple[Change, ...]) -> View:
        view = replace(self.view, revision=revision)
        participants = dict(view.participants)
        for change in batch:
            key = change.kv.key
            if key.startswith(self._keys.nodes):
                if change.deleted:
                    participants.pop(key.removeprefix(self._keys.nodes), None)
                else:
                    node = _participant(change.kv)
                    participants[node.node_id] = node
            elif key.startswith(self._keys.plans) and not change.deleted:
                view = replace(view, plan=read(Plan, key, change.kv.value))
            elif key == closed_key(self._keys):
                view = replace(view, closed=0 if change.deleted else change.kv.mod_revision)
        return replace(view, participants=participants)


def _participant(kv: KeyValue) -> Participant:
    return replace(read(Participant, kv.key, kv.value), joined=kv.create_revision)
