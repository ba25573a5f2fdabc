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
    looking: asyncio.Future[str] | None = None
    try:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            # One that hangs is waited for, and none is begun beside it.
            looking = looking or asyncio.ensure_future(aside(folder.trouble, None))
            await asyncio.wait({looking}, timeout=_PATIENCE)
            trouble = f"{folder.attempt}: its file system does not answer"
            if looking.done():
                trouble, looking = looking.result(), None
            if trouble and trouble != told:
                text = "the job goes on; what cannot be written is lost"
                structlog.get_logger().warning("log_folder", reason=trouble, text=text)
            told = trouble
    finally:
        await cancelled(looking)
