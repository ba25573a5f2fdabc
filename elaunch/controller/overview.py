"""What a dedicated controller sees of all jobs: which have nodes, and which have a leader. One watch for them all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from elaunch.errors import CompactedError
from elaunch.rendezvous.keys import ROOT, split
from elaunch.rendezvous.store import KeyValue, Snapshot, Store
from elaunch.rendezvous.waiting import within

_NODES = "nodes/"


@dataclass(slots=True)
class Signs:
    """One job, as its keys show it.

    ``leader`` is the epoch of who leads, 0 for nobody; ``vacated`` the revision as of which nobody did; ``spec`` the
    revision of the spec.
    """

    job: str
    nodes: set[str] = field(default_factory=set)
    leader: int = 0
    vacated: int = 0
    spec: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def deposed(self, epoch: int) -> bool:
        """Whether the leader of that epoch is known not to lead any more."""
        return self.leader > epoch or self.vacated > epoch

    async def changed(self, timeout: float | None = None) -> None:
        """Return after the next change, or ``timeout`` seconds."""
        try:
            await within(timeout, self._news.wait())
        except asyncio.TimeoutError:
            return

    async def vacant(self) -> None:
        """Return once nobody leads, or there are no nodes to be led."""
        while self.leader and self.nodes:
            await self.changed()

    def tell(self) -> None:
        """Wake all who wait for a change."""
        self._news.set()
        self._news = asyncio.Event()


class Overview:
    """The signs of every job. ``on_job`` hears of each job in which something has changed."""

    def __init__(self, store: Store, on_job: Callable[[Signs], None]) -> None:
        self._store = store
        self._on_job = on_job
        self._jobs: dict[str, Signs] = {}

    async def follow(self) -> None:
        """Keep the signs up to date until cancelled."""
        while True:
            snapshot = await self._store.list(ROOT, keys_only=True)
            self._begin(snapshot)
            try:
                async for _, changes in self._store.watch(ROOT, start_revision=snapshot.revision + 1):
                    touched = [self._apply(change.kv, change.deleted) for change in changes]
                    self._tell({signs.job: signs for signs in touched if signs is not None})
            except CompactedError:
                continue

    def forget(self, signs: Signs) -> None:
        """Drop a job that is over; it is seen anew should it come again."""
        if not signs.nodes and self._jobs.get(signs.job) is signs:
            del self._jobs[signs.job]

    def _begin(self, snapshot: Snapshot) -> None:
        for signs in self._jobs.values():
            signs.nodes.clear()
            signs.leader, signs.vacated = 0, snapshot.revision
        for kv in snapshot.items:
            self._apply(kv, False)
        self._tell(dict(self._jobs))

    def _apply(self, kv: KeyValue, deleted: bool) -> Signs | None:
        """Note one key; the job where it tells anything of it."""
        job, name = split(kv.key) or ("", "")
        if name not in ("leader", "spec") and not name.startswith(_NODES):
            return None
        signs = self._jobs.get(job) or self._jobs.setdefault(job, Signs(job))
        if name == "spec":
            signs.spec = kv.mod_revision
        elif name == "leader":
            signs.leader = 0 if deleted else kv.create_revision
            signs.vacated = kv.mod_revision if deleted else 0
        elif deleted:
            signs.nodes.discard(name)
        else:
            signs.nodes.add(name)
        return signs

    def _tell(self, jobs: dict[str, Signs]) -> None:
        for signs in jobs.values():
            signs.tell()
            self._on_job(signs)
