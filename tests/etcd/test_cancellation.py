"""Whatever waits for etcd can be cancelled, at any moment."""

from __future__ import annotations

import asyncio

import pytest

from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.waiting import within
from tests.etcd.running import PATIENT, opened, run
from tests.etcd.servers import Member


def test_a_cancellation_that_meets_the_result_is_not_lost() -> None:
    async def body() -> None:
        ready = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(within(60.0, ready))
        await asyncio.sleep(0)
        ready.set_result(None)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(body())


def test_what_takes_too_long_is_cancelled() -> None:
    async def body() -> None:
        cancelled = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                cancelled.set()

        with pytest.raises(asyncio.TimeoutError):
            await within(0.01, work())
        await asyncio.wait_for(cancelled.wait(), 5)

    run(body())


async def watch_for_ever(store: EtcdStore) -> None:
    async for _ in store.watch("/cancel/", start_revision=1):
        pass


async def write_for_ever(store: EtcdStore) -> None:
    while True:
        await store.txn([], [])


async def renew_for_ever(store: EtcdStore) -> None:
    lease = await store.grant(60)
    while True:
        await store.keep_alive(lease, timeout=5.0)


@pytest.mark.slow
@pytest.mark.parametrize("work", [watch_for_ever, write_for_ever, renew_for_ever])
def test_a_store_can_be_cancelled_at_any_moment(etcd: Member, work) -> None:
    async def body() -> None:
        async with opened(etcd.endpoint, **PATIENT) as store:
            await store.check()
            for turns in range(120):
                task = asyncio.create_task(work(store))
                other = asyncio.create_task(store.get("/cancel/a"))
                for _ in range(turns % 30):
                    await asyncio.sleep(0)
                await other
                task.cancel()
                done, _ = await asyncio.wait({task}, timeout=30)
                assert done, f"ran on when it was cancelled after {turns} turns"
                assert task.cancelled()

    run(body())
