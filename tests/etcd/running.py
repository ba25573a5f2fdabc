"""Running a test's coroutines, always with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from elaunch.rendezvous.etcd import EtcdStore

T = TypeVar("T")

PATIENT: dict[str, float] = {"call_timeout": 20.0, "deadline": 60.0}
"""For a store of an etcd that lives all the time: a machine that stands still for a moment must not cost an answer."""


def run(coroutine: Coroutine[Any, Any, T], *, seconds: float = 120.0) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(coroutine, seconds)

    return asyncio.run(bounded())


@asynccontextmanager
async def opened(*endpoints: str, **options: Any) -> AsyncIterator[EtcdStore]:
    store = EtcdStore(endpoints, **options)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def background(coroutine: Coroutine[Any, Any, Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Runs beside the block; what it raises before the block ends is raised there."""
    task = asyncio.create_task(coroutine)
    try:
        yield task
    finally:
        finished = task.done()
        task.cancel()
        await asyncio.wait({task})
        if finished:
            task.result()
