"""When agents leave the lead to a dedicated controller, and when not."""

from __future__ import annotations

import asyncio
import json
import time

from elaunch.rendezvous import controllers
from elaunch.rendezvous.keys import JobKeys
from tests.etcd.memory_store import MemoryStore

LEASE = 0.1  # seconds; whole ones outside of tests


async def register(store: MemoryStore, name: str) -> None:
    record = {"controller_id": name, "address": "h:1", "lease_ttl": LEASE}
    await store.put(controllers.key(name), json.dumps(record).encode())


def run(test) -> None:  # type: ignore[no-untyped-def]
    asyncio.run(asyncio.wait_for(test(), 10))


def test_without_a_controller_nobody_is_waited_for() -> None:
    async def test() -> None:
        store = MemoryStore()
        await store.put(JobKeys("a").leader, b"x")
        await store.put(controllers.key("strange"), b"no record")
        assert await controllers.absent(store)

    run(test)


def test_a_controller_that_does_not_lead_is_waited_for_two_leases() -> None:
    async def test() -> None:
        store = MemoryStore()
        await register(store, "c0")
        began = time.monotonic()
        assert not await controllers.absent(store)
        assert time.monotonic() - began >= 2 * LEASE

    run(test)


def test_the_wait_ends_with_the_last_controller() -> None:
    async def test() -> None:
        store = MemoryStore()
        await register(store, "c0")
        await register(store, "c1")
        waiting = asyncio.create_task(controllers.absent(store))
        await asyncio.sleep(0)
        await store.delete(controllers.key("c0"))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await store.delete(controllers.key("c1"))
        assert await waiting

    run(test)


def test_a_controller_that_comes_and_goes_does_not_last() -> None:
    async def test() -> None:
        store = MemoryStore()
        waiting = asyncio.create_task(controllers.lasting(store))
        for _ in range(3):
            await register(store, "c0")
            await asyncio.sleep(LEASE)
            assert not waiting.done()
            await store.delete(controllers.key("c0"))
        await register(store, "c1")
        await waiting

    run(test)
