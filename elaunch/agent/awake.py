"""The spawner process must run: while it is stopped (SIGSTOP), no exit is heard and no dead-man's switch acts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

LOOK_SECONDS = 1.0


class Stoppable(Protocol):
    """A process that a signal can stop."""

    @property
    def pid(self) -> int: ...

    @property
    def stopped(self) -> bool: ...

    def wake(self) -> None: ...


async def keep_awake(process: Callable[[], Stoppable], look: float = LOOK_SECONDS) -> None:
    """Wake the process when it is found stopped at two looks in a row, ``look`` seconds apart; until cancelled.

    Where a debugger holds it nothing helps; that is said too, once.
    """
    held = told = 0
    while True:
        await asyncio.sleep(look)
        now = process()
        if not now.stopped:
            held = told = 0
            continue
        if held == now.pid:
            if told != now.pid:
                structlog.get_logger().warning("spawner_stopped", text="it is woken", pid=now.pid)
            told = now.pid
            now.wake()
        held = now.pid
