"""Leases: for as long as one is held, and until when that is sure."""

from __future__ import annotations

import asyncio

import pytest

from elaunch.clock import SystemClock
from elaunch.errors import LeaseLostError
from elaunch.rendezvous.lease import Lease
from tests.etcd.memory_store import MemoryStore
from tests.etcd.running import PATIENT, background, opened, run
from tests.etcd.servers import Member


class MockClock:
    """Time stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now - 50.0  # for so long the machine was suspended

    def boottime(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


class SlowStore(MemoryStore):
    """Each renewal takes two seconds."""

    def __init__(self, clock: MockClock) -> None:
        super().__init__(clock)
        self.clock = clock

    async def keep_alive(self, lease: int, *, timeout: float) -> int:
        granted = await super().keep_alive(lease, timeout=timeout)
        self.clock.now += 2
        return granted


def test_the_deadline_counts_from_when_the_renewal_was_sent() -> None:
    async def body() -> None:
        clock, told = MockClock(), []
        renewed = asyncio.Event()

        def note(deadline: float) -> None:
            told.append(deadline)
            if len(told) == 2:
                renewed.set()

        lease = await Lease.open(SlowStore(clock), 30, clock=clock, on_deadline=note)
        assert (lease.deadline, lease.margin, told) == (130.0, 3.0, [130.0])
        clock.now = 110.0
        async with background(lease.keep()):
            await renewed.wait()
        assert told == [130.0, 140.0]
        assert clock.now == 112.0

    run(body())


def test_a_holder_that_slept_too_long_gives_up_though_etcd_would_renew() -> None:
    async def body() -> None:
        clock = MockClock()
        lease = await Lease.open(MemoryStore(clock), 10, clock=clock, on_deadline=lambda _: None)
        clock.now = lease.deadline - lease.margin
        with pytest.raises(LeaseLostError, match="did not renew"):
            await lease.keep()

    run(body())


@pytest.mark.slow
def test_a_lease_is_kept_beyond_its_time(etcd: Member) -> None:
    async def body() -> None:
        async with opened(etcd.endpoint) as store:
            told: list[float] = []
            lease = await Lease.open(store, 3, clock=SystemClock(), on_deadline=told.append)
            await store.put("/kept/a", b"", lease=lease.id)
            async with background(lease.keep()):
                await asyncio.sleep(3.6)
                assert await store.get("/kept/a") is not None
            assert len(told) >= 3
            assert told == sorted(told)
            assert lease.deadline == told[-1]
            await lease.close()
            assert await store.get("/kept/a") is None

    run(body())


def test_a_lease_that_etcd_ended_is_lost(etcd: Member) -> None:
    async def body() -> None:
        async with opened(etcd.endpoint) as store:
            lease = await Lease.open(store, 60, clock=SystemClock(), on_deadline=lambda _: None)
            await store.revoke(lease.id)
            lease.deadline -= 20.0  # it is time to renew it
            keeping = asyncio.create_task(lease.keep())
            with pytest.raises(LeaseLostError, match="ended the lease"):
                await keeping

    run(body())


@pytest.mark.slow
def test_a_lease_is_given_up_before_a_frozen_etcd_can_end_it(own_etcd: Member) -> None:
    async def body() -> None:
        clock, late = SystemClock(), 0.0

        async def measure() -> None:
            """How late this process wakes up: what the machine takes is not the lease's."""
            nonlocal late
            while True:
                due = clock.boottime() + 0.02
                await asyncio.sleep(0.02)
                late += max(0.0, clock.boottime() - due - 0.02)

        async with opened(own_etcd.endpoint) as store, opened(own_etcd.endpoint, **PATIENT) as other:
            await other.get("/frozen/a")
            lease = await Lease.open(store, 3, clock=clock, on_deadline=lambda _: None)
            await store.put("/frozen/a", b"", lease=lease.id)
            own_etcd.freeze()
            asking = asyncio.create_task(other.get("/frozen/a"))  # the first that etcd sees when it is thawed
            async with background(measure()):
                with pytest.raises(LeaseLostError, match="did not renew"):
                    await lease.keep()
                lost = clock.boottime()
                own_etcd.thaw()
                assert await asking is not None
            assert lease.deadline - (lost - late) > lease.margin / 2

    run(body())


@pytest.mark.slow
def test_a_lease_outlives_a_restart_of_etcd(own_etcd: Member) -> None:
    async def body() -> None:
        async with opened(own_etcd.endpoint) as store:
            clock, told = SystemClock(), list[float]()
            lease = await Lease.open(store, 10, clock=clock, on_deadline=told.append)
            await store.put("/kept/a", b"", lease=lease.id)
            async with background(lease.keep()):
                own_etcd.kill()
                await asyncio.to_thread(own_etcd.start)
                back = clock.boottime()
                while told[-1] < back + lease.ttl:  # noqa: ASYNC110 - until the etcd that is back has renewed it
                    await asyncio.sleep(0.02)
                kv = await store.get("/kept/a")
                assert kv is not None
                assert kv.lease == lease.id

    run(body())
