"""The connections of the page's server: a bounded number, so that strangers leave the leader files for its own work."""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections import deque

from aiohttp import web

from elaunch.clock import Clock

MOST_CONNECTIONS = 256
HANDSHAKE = 5.0  # seconds for TLS
TAKE_WITHIN = 30.0  # seconds in which a client must take something of what it was sent
_LOOK = 5.0  # seconds between two looks at that
_BACKLOG = 128


class Listening:
    """Lets in as many connections as there is room for; a further one is closed at once."""

    def __init__(self, server: web.Server, context: ssl.SSLContext | None, clock: Clock) -> None:
        self._server = server
        self._context = context
        self._clock = clock
        self._most = room()
        self._begun: deque[float] = deque()  # when handshakes began that may not be through
        self._stuck: dict[asyncio.BaseProtocol, tuple[int, float]] = {}
        self._listener: asyncio.AbstractServer | None = None
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self, host: str | None, port: int) -> int:
        """Listen; the port. Raises OSError."""
        handshake = HANDSHAKE if self._context is not None else None
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(
            self._protocol,
            host,
            port,
            ssl=self._context,
            ssl_handshake_timeout=handshake,
            backlog=_BACKLOG,
            reuse_address=True,
        )
        self._listener = listener
        self._sweeping = asyncio.create_task(self._sweep())
        found: int = listener.sockets[0].getsockname()[1]
        return found

    def stop(self) -> None:
        """Listen no more; those that are connected are the server's."""
        if self._listener is not None:
            self._listener.close()
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _protocol(self) -> asyncio.BaseProtocol:
        if self._context is not None:
            now = self._clock.monotonic()
            while self._begun and now - self._begun[0] > HANDSHAKE:
                self._begun.popleft()
            if len(self._server.connections) + len(self._begun) >= self._most:
                raise ConnectionAbortedError("too many connections")  # asyncio lets go of the socket
            self._begun.append(now)
        elif len(self._server.connections) >= self._most:
            return _Full()
        made: asyncio.BaseProtocol = self._server()
        return made

    async def _sweep(self) -> None:
        """Let go of those that take nothing of what they asked for."""
        while True:
            await asyncio.sleep(_LOOK)
            now = self._clock.monotonic()
            stuck: dict[asyncio.BaseProtocol, tuple[int, float]] = {}
            for one in self._server.connections:
                transport = one.transport
                if transport is None or not (size := transport.get_write_buffer_size()):
                    continue
                before = self._stuck.get(one)
                since = before[1] if before is not None and before[0] == size else now
                if now - since > TAKE_WITHIN:
                    transport.abort()
                else:
                    stuck[one] = (size, since)
            self._stuck = stuck


def room() -> int:
    """How many connections there may be: an eighth of the files that this process may open, within bounds."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(MOST_CONNECTIONS, soft // 8))


class _Full(asyncio.Protocol):
    """There is no room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
