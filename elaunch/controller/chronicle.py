"""A job's history, read and followed from outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress

from elaunch.controller.survey import overview
from elaunch.errors import CompactedError
from elaunch.rendezvous.journal import Happening, decode_happening
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.store import KeyValue, Store

_LOOK = 2.0  # seconds without news after which etcd is asked whether it is there at all


async def happenings(store: Store, job: str) -> list[Happening]:
    """The job's history, oldest first. Raises NoSuchJobError."""
    await overview(store, job)
    return _lines((await store.list(JobKeys(job).events)).items)


async def follow_happenings(store: Store, job: str) -> AsyncGenerator[Happening, None]:
    """The history, and then each line as it is written, until the job is over.

    Raises NoSuchJobError, and EtcdLostError where etcd goes and does not come back.
    """
    keys = JobKeys(job)
    seen = -1
    over = False
    while not over:
        # What comes after this is news, also where it comes while the rest is read: it may be the end of the job.
        begun = (await store.list(keys.state)).revision
        over = (await overview(store, job)).over  # before the lines are read: none that was written by then is missed
        for line in _lines((await store.list(keys.events)).items):
            if line.seq > seen:
                seen = line.seq
                yield line
        if not over:
            await _until_news(store, keys, begun + 1)


async def _until_news(store: Store, keys: JobKeys, revision: int) -> None:
    """Return at the next line of the history, or when the job may have ended. Raises EtcdLostError."""
    looking = asyncio.ensure_future(_news_of_job(store, keys, revision))
    try:
        while not looking.done():
            await asyncio.wait({looking}, timeout=_LOOK)
            await store.get(keys.state)  # a watch waits for an etcd that is gone for ever
        with suppress(CompactedError):
            looking.result()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _news_of_job(store: Store, keys: JobKeys, revision: int) -> None:
    async with aclosing(store.watch(keys.prefix, start_revision=revision)) as batches:
        async for _, changes in batches:
            for change in changes:
                key = change.kv.key
                if key.startswith(keys.events) or key == keys.state or (change.deleted and key.startswith(keys.nodes)):
                    return


def _lines(items: Iterable[KeyValue]) -> list[Happening]:
    found = []
    for kv in items:
        with suppress(ValueError):  # no leader of ours wrote it
            found.append(decode_happening(kv.value))
    return found
