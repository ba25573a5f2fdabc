"""When agents leave the lead to a dedicated controller, and when not."""

from __future__ import annotations

import asyncio
import json
import time

from elaunch.rendezvous import controllers
from elaunch.rendezvous.keys import JobKeys
from tests.etcd.memory_store import MemoryStore

LEASE = 0.1  # seconds; whole ones outside of tests
LONG = 60.0


async def register(store: MemoryStore, name: str, lease: float = LEASE) -> None:
    record = {"controller_id": name, "address": "h:1", "lease_ttl": lease}
    await store.put(controllers.key(name), json.dumps(record).encode())


def run(test) -> None:  # type: ignore[no-untyped-def]
    asyncio.run(asyncio.wait_for(test(), 20 * LONG))


async def turns() -> None:
    """All that can go on without time goes on."""
    for _ in range(30):
        await asyncio.sleep(0)


class Time:
    """The running loop's, which goes on by leaps besides."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        real, self.ahead = loop.time, 0.0
        loop.time = lambda: real() + self.ahead  # type: ignore[method-assign]

    async def leap(self, seconds: float) -> None:
        await turns()
        self.ahead += seconds
        await turns()


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
        await register(store, "c0", LONG)
        await register(store, "c1", LONG)
        waiting = asyncio.create_task(controllers.absent(store))
        await asyncio.sleep(0)
        await store.delete(controllers.key("c0"))
        await turns()
        assert not waiting.done()
        await store.delete(controllers.key("c1"))
        assert await waiting

    run(test)


def test_a_controller_that_comes_and_goes_does_not_last() -> None:
    async def test() -> None:
        store, time = MemoryStore(), Time()
        waiting = asyncio.create_task(controllers.lasting(store))
        for _ in range(3):
            await register(store, "c0", LONG)
            await time.leap(LONG)
            assert not waiting.done()
            await store.delete(controllers.key("c0"))
        await register(store, "c1", LONG)
        await time.leap(LONG)
        assert not waiting.done()
        await time.leap(LONG)
        await waiting

    run(test)
