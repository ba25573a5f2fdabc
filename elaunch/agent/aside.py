"""Work on a file system that may hang: in a thread that nobody waits for at exit, unlike those of an executor."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from elaunch.rendezvous.waiting import within

T = TypeVar("T")


async def aside(work: Callable[[], T], seconds: float | None) -> T:
    """What ``work`` returns or raises. Raises asyncio.TimeoutError after ``seconds`` (None: never); it goes on then."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: Exception | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except Exception as raised:  # noqa: BLE001 - raised where it is awaited
            error = raised
        with contextlib.suppress(RuntimeError):  # the agent has ended meanwhile
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="aside", daemon=True).start()
    return await within(seconds, result)
