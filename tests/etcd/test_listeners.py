"""An etcd that ends with its job waits for those who wait for an answer, as long as they do and no longer."""

from __future__ import annotations

import asyncio
import uuid

from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.listeners import heard, listening
from tests.etcd.running import opened, run
from tests.etcd.servers import Member


def keys() -> JobKeys:
    return JobKeys(f"heard-{uuid.uuid4().hex[:8]}")


def test_nobody_is_waited_for_where_nobody_listens(etcd: Member) -> None:
    async def body() -> None:
        async with opened(etcd.endpoint) as store:
            mine, others = keys(), keys()
            async with listening(store, others):
                assert await heard(store, mine, 20.0)

    run(body())


def test_all_who_listen_are_waited_for(etcd: Member) -> None:
    async def body() -> None:
        job, leave = keys(), [asyncio.Event(), asyncio.Event()]
        async with opened(etcd.endpoint) as store, opened(etcd.endpoint) as other:

            async def listen(until: asyncio.Event, here: asyncio.Event) -> None:
                async with listening(other, job):
                    here.set()
                    await until.wait()

            here = [asyncio.Event(), asyncio.Event()]
            listeners = [asyncio.create_task(listen(*pair)) for pair in zip(leave, here, strict=True)]
            for event in here:
                await event.wait()
            waiting = asyncio.create_task(heard(store, job, 20.0))
            leave[0].set()
            await listeners[0]
            assert not await heard(store, job, 0.3)
            assert not waiting.done()
            leave[1].set()
            assert await waiting
            await listeners[1]

    run(body())


def test_an_etcd_that_is_gone_keeps_no_command_and_no_end_waiting() -> None:
    async def body() -> None:
        async with opened("127.0.0.1:9", deadline=0.5) as store:
            async with listening(store, keys()):
                pass
            assert not await heard(store, keys(), 20.0)

    run(body())
