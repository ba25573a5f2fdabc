"""The HTTP server of a process that may lead: it listens on the loop of the leader, and is bounded in all it does."""

from __future__ import annotations

import asyncio
import ssl
from typing import NoReturn

import structlog
from aiohttp import web

from elaunch.clock import Clock
from elaunch.controller.server import ControlServer
from elaunch.errors import StartError, UsageError
from elaunch.rendezvous import addresses
from elaunch.rendezvous.store import Store
from elaunch.rendezvous.tls import Tls
from elaunch.rendezvous.waiting import cancelled
from elaunch.web.api import Api
from elaunch.web.doors import MOST_BODY, Doors, add_headers, guarding, is_address
from elaunch.web.exposition import Exposition
from elaunch.web.files import Files
from elaunch.web.listening import Listening
from elaunch.web.mistakes import server_log
from elaunch.web.options import WebOptions
from elaunch.web.source import Source
from elaunch.web.streaming import Streams

_LINGER = 1.0  # seconds that requests get when the server ends
_IDLE = 30.0  # seconds for which a connection may be without a request


class WebServer:
    """Serves the pages of all jobs of ``store``, or of the one job ``only``, from ``start`` to ``stop``."""

    def __init__(
        self,
        options: WebOptions,
        store: Store,
        control: ControlServer,
        clock: Clock,
        only: str = "",
    ) -> None:
        """``control`` knows which jobs this process leads, and how it is closed."""
        security = control.security
        self._options = options
        self._tls = security.tls
        self._source = Source(store, control.led, security, clock, only)
        self._doors = Doors(security.access, options.actions, frozenset(options.names), control.counters)
        streams = Streams()
        self._api = Api(self._source, self._doors, streams)
        self._exposition = Exposition(control, self._doors, streams, clock)
        self._watching: asyncio.Task[NoReturn] | None = None
        self._clock = clock
        self._runner: web.AppRunner | None = None
        self._listening: Listening | None = None

    async def start(self, address: str = "") -> str:
        """Listen; the URL, with ``address`` for the host where it listens on all. Raises StartError, UsageError."""
        application = web.Application(middlewares=[guarding(self._doors)], client_max_size=MOST_BODY)
        application.on_response_prepare.append(add_headers)
        application.add_routes([*self._api.routes(), *self._exposition.routes(), *Files().routes()])
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=server_log(),
            handle_signals=False,
            shutdown_timeout=_LINGER,
            keepalive_timeout=_IDLE,
        )
        await self._runner.setup()
        assert self._runner.server is not None
        host, context = self._options.host, _context(self._tls)
        self._listening = Listening(self._runner.server, context, self._clock)
        try:
            port = await self._listening.start(host or None, self._options.port)
        except OSError as error:
            await self.stop()
            where = addresses.join(host or "*", self._options.port)
            raise StartError(f"--web: cannot listen on {where}: {error.strerror or error}") from None
        self._watching = asyncio.create_task(self._exposition.watch())
        self._warn(host)
        shown = host if host and host not in ("0.0.0.0", "::") else address or "localhost"
        return f"{'https' if context else 'http'}://{addresses.join(shown, port)}"

    async def stop(self) -> None:
        """End all streams and close."""
        if self._listening is not None:
            self._listening.stop()
        await self._api.close()
        await cancelled(self._watching)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _warn(self, host: str) -> None:
        log = structlog.get_logger()
        if self._doors.access.open and not _loopback(host):
            log.warning("web_open", text="whoever reaches this port can look at jobs: give --token-file to close it")
        elif not self._doors.access.open and self._tls is None and not _loopback(host):
            log.warning("web_in_the_clear", text="tokens cross the network unencrypted: give --tls-cert and --tls-key")


def _loopback(host: str) -> bool:
    return host == "localhost" or (is_address(host) and host.startswith(("127.", "::1")))


def _context(tls: Tls | None) -> ssl.SSLContext | None:
    """The job's certificate for browsers; they show none themselves, their tokens tell who they are."""
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.cert, tls.key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--web: {tls.cert}: {error}") from None
    return context
