"""Operators who wait for an answer, for whoever is about to take the job's etcd away with the answer in it.

Each has a key on a lease of its own, from before its command until it has heard what became of it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import NoReturn

from elaunch.errors import CompactedError, EtcdLostError, EtcdRefusedError
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.store import Store
from elaunch.rendezvous.waiting import cancelled, within

_TTL = 10  # seconds for which one that has died is still taken for a listener
_RENEW = 3.0  # seconds between two renewals
_LAST = 1.0  # seconds for the word that all is heard: etcd may be gone by then


@asynccontextmanager
async def listening(store: Store, keys: JobKeys) -> AsyncIterator[None]:
    """Have it known, until the context is left, that somebody waits. Where it cannot be, the command goes on without.

    The job need not exist.
    """
    lease = 0
    with suppress(EtcdLostError, EtcdRefusedError):
        lease = await store.grant(_TTL)
        await store.put(keys.listeners + uuid.uuid4().hex[:12], b"", lease=lease)
    renewing = asyncio.create_task(_renew(store, lease)) if lease else None
    try:
        yield
    finally:
        await cancelled(renewing)
        if lease:
            with suppress(EtcdLostError, EtcdRefusedError, asyncio.TimeoutError):
                await within(_LAST, store.revoke(lease))


async def _renew(store: Store, lease: int) -> NoReturn:
    while True:
        await asyncio.sleep(_RENEW)
        with suppress(EtcdLostError, EtcdRefusedError):
            await store.keep_alive(lease, timeout=_RENEW)


async def heard(store: Store, keys: JobKeys, seconds: float) -> bool:
    """Wait until nobody listens any more: True; False if somebody still does after so many seconds, or etcd is gone."""
    with suppress(EtcdLostError, EtcdRefusedError, CompactedError, asyncio.TimeoutError):
        await within(seconds, _heard(store, keys))
        return True
    return False


async def _heard(store: Store, keys: JobKeys) -> None:
    snapshot = await store.list(keys.listeners, keys_only=True)
    left = {kv.key for kv in snapshot.items}
    if not left:
        return
    async with aclosing(store.watch(keys.listeners, start_revision=snapshot.revision + 1)) as batches:
        async for _, changes in batches:
            for change in changes:
                (left.discard if change.deleted else left.add)(change.kv.key)
            if not left:
                return
