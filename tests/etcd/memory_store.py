"""A store in memory, for tests that want a store and no etcd. It passes the same suite as the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from elaunch.clock import Clock, SystemClock
from elaunch.errors import CompactedError, LeaseLostError
from elaunch.rendezvous.store import Change, Compare, Delete, Field, KeyValue, Op, Put, Snapshot, Txn, TxnResult


class MemoryStore:
    """One store for any number of users in one event loop. Leases end by ``clock``, at the next call."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._revision = 1
        self._keys: dict[str, KeyValue] = {}
        self._history: list[tuple[int, tuple[Change, ...]]] = []
        self._compacted = 0
        self._leases: dict[int, tuple[float, int]] = {}
        self._last_lease = 0
        self._news = asyncio.Event()

    async def get(self, key: str) -> KeyValue | None:
        self._expire()
        return self._keys.get(key)

    async def list(self, prefix: str, *, keys_only: bool = False) -> Snapshot:
        self._expire()
        items = tuple(self._keys[key] for key in sorted(self._keys) if key.startswith(prefix))
        if keys_only:
            items = tuple(replace(item, value=b"") for item in items)
        return Snapshot(self._revision, items)

    async def children(self, prefix: str) -> tuple[str, ...]:
        below = sorted(key.removeprefix(prefix) for key in self._keys if key.startswith(prefix))
        return tuple(dict.fromkeys(key.partition("/")[0] for key in below))

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        return (await self.txn([], [Put(key, value, lease)])).revision

    async def delete(self, key: str, *, prefix: bool = False) -> None:
        await self.txn([], [Delete(key, prefix)])

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, otherwise: Txn | None = None) -> TxnResult:
        self._expire()
        if not all(self._holds(compare) for compare in compares):
            if otherwise is None:
                return TxnResult(False, self._revision)
            second = await self.txn(otherwise.compares, otherwise.ops)
            return TxnResult(False, second.revision, second.succeeded)
        for op in ops:
            if isinstance(op, Put) and op.lease and op.lease not in self._leases:
                raise LeaseLostError(f"no lease {op.lease}")
        self._apply(ops)
        return TxnResult(True, self._revision)

    def _holds(self, compare: Compare) -> bool:
        kv = self._keys.get(compare.key)
        if compare.field is Field.VALUE:
            return kv is not None and kv.value == compare.value
        if kv is None:
            return compare.value == 0
        found = kv.create_revision if compare.field is Field.CREATE_REVISION else kv.mod_revision
        return found == compare.value

    def _apply(self, ops: Sequence[Op]) -> None:
        revision, changes = self._revision + 1, []
        for op in ops:
            if isinstance(op, Put):
                old = self._keys.get(op.key)
                created = old.create_revision if old else revision
                self._keys[op.key] = KeyValue(op.key, op.value, created, revision, op.lease)
                changes.append(Change(self._keys[op.key], False))
                continue
            doomed = [key for key in sorted(self._keys) if key == op.key or (op.prefix and key.startswith(op.key))]
            for key in doomed:
                del self._keys[key]
                changes.append(Change(KeyValue(key, b"", 0, revision), True))
        if changes:
            self._revision = revision
            self._history.append((revision, tuple(changes)))
            self._news.set()
            self._news = asyncio.Event()

    def _expire(self) -> None:
        now = self._clock.monotonic()
        for lease in [lease for lease, (deadline, _) in self._leases.items() if deadline <= now]:
            self._end(lease)

    def _end(self, lease: int) -> None:
        if self._leases.pop(lease, None):
            self._apply([Delete(kv.key) for kv in list(self._keys.values()) if kv.lease == lease])

    def compact(self) -> None:
        """Forget all history up to now."""
        self._compacted = self._revision
        self._history.clear()

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[tuple[int, tuple[Change, ...]], None]:
        following = start_revision or self._revision + 1
        while True:
            if following < self._compacted:
                raise CompactedError(f"compacted at {self._compacted}")
            news = self._news
            for revision, changes in [entry for entry in self._history if entry[0] >= following]:
                following = revision + 1
                mine = tuple(change for change in changes if change.kv.key.startswith(prefix))
                if mine:
                    yield revision, mine
            if following <= self._revision:
                following = self._revision + 1
            if news is self._news:
                await news.wait()

    async def grant(self, ttl: int) -> int:
        self._last_lease += 1
        self._leases[self._last_lease] = (self._clock.monotonic() + ttl, ttl)
        return self._last_lease

    async def keep_alive(self, lease: int, *, timeout: float) -> int:
        self._expire()
        if lease not in self._leases:
            return 0
        ttl = self._leases[lease][1]
        self._leases[lease] = (self._clock.monotonic() + ttl, ttl)
        return ttl

    async def revoke(self, lease: int) -> None:
        self._end(lease)

    async def close(self) -> None:
        return
