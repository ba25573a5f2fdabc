"""The page of a process that may lead, from when it is wanted until it is not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

import structlog

from elaunch.clock import Clock
from elaunch.controller.server import ControlServer
from elaunch.errors import StartError, UsageError
from elaunch.rendezvous.store import Store
from elaunch.web.options import WebOptions

if TYPE_CHECKING:
    from elaunch.web.server import WebServer

AGAIN = 5.0  # seconds until a port that is taken is tried again


async def serve(
    options: WebOptions, store: Store, server: ControlServer, clock: Clock, only: str = "", address: str = ""
) -> NoReturn:
    """Serve until cancelled. A port that is taken is told of, and tried again: no job is to end for its page.

    ``only``: of this job alone. ``address`` is that of this host, for people to be told.
    """
    make = await asyncio.to_thread(_imported)
    log = structlog.get_logger().bind(**({"job": only} if only else {}))
    told = ""
    while True:
        pages = make(options, store, server, clock, only)
        try:
            url = await pages.start(address)
            log.info("web_listening", url=url)
            await asyncio.get_running_loop().create_future()
        except (StartError, UsageError) as error:
            if str(error) != told:
                log.warning("web_not_served", reason=str(error))
                told = str(error)
        finally:
            await asyncio.shield(pages.stop())
        await asyncio.sleep(AGAIN)


def _imported() -> type[WebServer]:
    """In a thread of its own: aiohttp has much to import, and the loop leads jobs meanwhile."""
    from elaunch.web.server import WebServer

    return WebServer
