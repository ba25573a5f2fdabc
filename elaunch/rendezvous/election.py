"""Who leads a job: whoever created the leader key, for as long as that key stands.

The key is on the leader's lease. Its create revision is the leader's epoch: it grows with every leader, and a
write that compares it is refused once another one leads.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from elaunch.errors import AmbiguousError, CompactedError, EtcdLostError, EtcdRefusedError
from elaunch.rendezvous.fence import Fence
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import Lease
from elaunch.rendezvous.records import Leader, encode, read
from elaunch.rendezvous.store import Compare, Delete, Field, KeyValue, Put, Store, absent

_TRY_AGAIN = 0.5  # seconds


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


async def claim(store: Store, key: str, record: Leader, lease: int) -> int:
    """Create the leader key of a job on ``lease``; its create revision, or 0 if another was faster.

    ``record.token`` must be unique to this call. Raises LeaseLostError if the lease is gone, BadRecordError where
    the key holds no leader.
    """
    while True:
        try:
            result = await store.txn([absent(key)], [Put(key, encode(record), lease)])
            if result.succeeded:
                return result.revision
        except AmbiguousError:
            pass  # create-only and with a token: reading it tells, and trying again does no harm
        now = await store.get(key)
        if now is not None:
            return now.create_revision if _leader(now).token == record.token else 0


async def resign(store: Store, leadership: Leadership, lease: Lease) -> None:
    """Give a leadership back, for as long as its lease would hold it. Nothing happens where another leads by now."""
    while lease.left > 0:
        try:
            await store.txn([leadership.guard], [Delete(leadership.key)])
            return
        except (AmbiguousError, EtcdLostError, EtcdRefusedError):  # guarded: to try again does no harm
            await asyncio.sleep(_TRY_AGAIN)


class Election:
    """One agent's view of a job's leader: it may run for it and look on, over a single watch."""

    def __init__(
        self,
        store: Store,
        keys: JobKeys,
        lease_id: int,
        *,
        spread: float = 0.0,
        leave_to: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """``leave_to`` waits while others are to have the lead: no claim is made before it returns."""
        self._store = store
        self._spread = spread
        self._leave_to = leave_to
        self._led = asyncio.Event()
        self._key = keys.leader
        self._lease = lease_id
        self._seen: KeyValue | None = None
        self._known = False
        self._inboxes: set[asyncio.Queue[KeyValue | BaseException | None]] = set()
        self._following: asyncio.Task[None] | None = None

    async def campaign(self, record: Leader, *, at_once: bool = False) -> Leadership:
        """Wait until nobody leads, then lead. ``record.token`` must be unique to this call.

        A claim waits for a random part of ``spread`` seconds, unless it is to be made ``at_once``, and is not made
        if another leads by then: a thousand agents that lose their leader need not send a thousand claims.
        Raises LeaseLostError if the lease is gone.
        """
        async with aclosing(self._views()) as views:
            async for seen in views:
                if seen is not None and _leader(seen).token == record.token:
                    return Leadership(self._key, seen.create_revision)
                if seen is None and not at_once:
                    await asyncio.sleep(random.uniform(0.0, self._spread))
                at_once = False
                if seen is None and self._seen is None:
                    await self._let_others()
                if seen is None and self._seen is None:
                    won = await claim(self._store, self._key, record, self._lease)
                    if won:
                        return Leadership(self._key, won)
        raise AssertionError("views never end")

    async def _let_others(self) -> None:
        """Wait until others need not have the lead any more, or one has it."""
        if self._leave_to is None:
            return
        free, led = asyncio.create_task(self._leave_to()), asyncio.create_task(self._led.wait())
        try:
            await asyncio.wait({free, led}, return_when=asyncio.FIRST_COMPLETED)
            if free.done():
                free.result()
        finally:
            for task in (free, led):
                task.cancel()
            await asyncio.gather(free, led, return_exceptions=True)

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
        if seen is None:
            self._led.clear()
        else:
            self._led.set()
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
    return read(Leader, kv.key, kv.value)
