"""Whether the log folder can still be written to, while ranks run: a person is told once when it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import structlog

from elaunch.agent.aside import aside
from elaunch.agent.streams import LogFolder
from elaunch.rendezvous.waiting import cancelled

_LOOK_SECONDS = 5.0  # nothing tells when a disk is full
_PATIENCE = 30.0  # seconds for a file system to answer


@asynccontextmanager
async def watching(folder: LogFolder) -> AsyncIterator[None]:
    """Look at it until the context is left."""
    looking = asyncio.create_task(_watch(folder))
    try:
        yield
    finally:
        await cancelled(looking)


async def _watch(folder: LogFolder) -> NoReturn:
    told = ""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            trouble = await aside(folder.trouble, _PATIENCE)
        except asyncio.TimeoutError:
            trouble = f"{folder.attempt}: its file system does not answer"
        if trouble and trouble != told:
            text = "the job goes on; what cannot be written is lost"
            structlog.get_logger().warning("log_folder", reason=trouble, text=text)
        told = trouble
