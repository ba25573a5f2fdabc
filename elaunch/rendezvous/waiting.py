"""Waiting with a deadline, or beside what must not fail meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float | None, awaitable: Awaitable[T]) -> T:
    """The result of ``awaitable``. Raises asyncio.TimeoutError after ``seconds``, and cancels it then.

    Unlike asyncio.wait_for before Python 3.12 (gh-86296), and unlike awaiting a grpc.aio call, it never
    swallows a cancellation that comes in the same turn of the loop as the result: the cancelled task would
    run on for ever.
    """
    task = asyncio.ensure_future(awaitable)
    task.add_done_callback(_retrieve)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            raise asyncio.TimeoutError
        return task.result()
    finally:
        task.cancel()


async def beside(tasks: Iterable[asyncio.Task[Any]], wanted: asyncio.Future[T]) -> T:
    """The result of ``wanted``, unless one of ``tasks`` fails before: then its error. One may end well before."""
    going = set(tasks)
    while not wanted.done():
        done, _ = await asyncio.wait({*going, wanted}, return_when=asyncio.FIRST_COMPLETED)
        for task in going & done:
            task.result()
        going -= done
    return wanted.result()


async def cancelled(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel ``tasks``, and return when all have ended; how they ended is nobody's concern any more."""
    going = [task for task in tasks if task is not None]
    for task in going:
        task.cancel()
    await asyncio.gather(*going, return_exceptions=True)


def _retrieve(task: asyncio.Future[T]) -> None:
    """Nobody may be left to look at the outcome; that is no mistake."""
    if not task.cancelled():
        task.exception()
