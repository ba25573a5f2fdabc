"""Who leads a job: whoever created the leader key, for as long as that key stands.

The key is on the leader's lease. Its create revision is the leader's epoch: it grows with every leader, and a
write that compares it is refused once another one leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from elaunch.errors import AmbiguousError, CompactedError
from elaunch.rendezvous.fence import Fence
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Leader, decode, encode
from elaunch.rendezvous.store import Compare, Field, KeyValue, Put, Store, absent


@dataclass(frozen=True, slots=True)
class Leadership:
    """One leader's time. ``guard`` holds for as long as it lasts."""

    key: str
    epoch: int

    @property
    def guard(self) -> Compare:
        return Compare(self.key, Field.CREATE_REVISION, self.epoch)

    @property
    def fence(self) -> Fence:
        return Fence(self.guard)


class Election:
    """One agent's view of a job's leader: it may run for it and look on, over a single watch."""

    def __init__(self, store: Store, keys: JobKeys, lease_id: int) -> None:
        self._store = store
        self._key = keys.leader
        self._lease = lease_id
        self._seen: KeyValue | None = None
        self._known = False
        self._inboxes: set[asyncio.Queue[KeyValue | BaseException | None]] = set()
        self._following: asyncio.Task[None] | None = None

    async def campaign(self, record: Leader) -> Leadership:
        """Wait until nobody leads, then lead. ``record.token`` must be unique to this call.

        Raises LeaseLostError if the lease is gone.
        """
        async with aclosing(self._views()) as views:
            async for seen in views:
                if seen is not None and _leader(seen).token == record.token:
                    return Leadership(self._key, seen.create_revision)
                if seen is None and (won := await self._claim(record)) is not None:
                    return Leadership(self._key, won)
        raise AssertionError("views never end")

    async def _claim(self, record: Leader) -> int | None:
        """Create the key; its create revision, or None if another was faster."""
        while True:
            try:
                result = await self._store.txn([absent(self._key)], [Put(self._key, encode(record), self._lease)])
                if result.succeeded:
                    return result.revision
            except AmbiguousError:
                pass  # create-only and with a token: reading it tells, and trying again does no harm
            now = await self._store.get(self._key)
            if now is not None:
                return now.create_revision if _leader(now).token == record.token else None

    async def observe(self) -> AsyncGenerator[tuple[int, Leader] | None, None]:
        """The present leader as (epoch, record), or None, and every change of it."""
        async with aclosing(self._views()) as views:
            async for seen in views:
                yield None if seen is None else (seen.create_revision, _leader(seen))

    async def close(self) -> None:
        """End the watch, after everyone who iterates has left."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})

    async def _views(self) -> AsyncGenerator[KeyValue | None, None]:
        """The present leader key and each change of it, from the watch that all share."""
        inbox: asyncio.Queue[KeyValue | BaseException | None] = asyncio.Queue()
        if self._following is None or self._following.done():
            self._known = False
            self._following = asyncio.create_task(self._follow())
            self._following.add_done_callback(self._ended)
        elif self._known:
            inbox.put_nowait(self._seen)
        self._inboxes.add(inbox)
        try:
            while True:
                view = await inbox.get()
                if isinstance(view, BaseException):
                    raise view
                yield view
        finally:
            self._inboxes.discard(inbox)

    def _tell(self, seen: KeyValue | None) -> None:
        self._seen, self._known = seen, True
        for inbox in self._inboxes:
            inbox.put_nowait(seen)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        for inbox in self._inboxes:
            if error is not None:
                inbox.put_nowait(error)

    async def _follow(self) -> None:
        """Keep the present leader key in ``_seen``."""
        while True:
            snapshot = await self._store.list(self._key)
            self._tell(next((kv for kv in snapshot.items if kv.key == self._key), None))
            try:
                changes = self._store.watch(self._key, start_revision=snapshot.revision + 1)
                async for _, batch in changes:
                    for change in batch:
                        if change.kv.key == self._key:
                            self._tell(None if change.deleted else change.kv)
            except CompactedError:
                continue


def _leader(kv: KeyValue) -> Leader:
    return decode(Leader, kv.value)
