"""A TCP proxy before an etcd that breaks a connection at the worst moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum


class Cut(Enum):
    """What becomes of the request that is waited for; the client's connection breaks in each case."""

    BEFORE = "etcd never gets it"
    AFTER = "etcd gets it, and the client no answer"
    LATE = "etcd gets it when deliver() is called"


async def _nothing() -> None:
    return


class Proxy:
    """Forwards to ``host:port``. :meth:`arm` it, and the next request that contains a text is cut off."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._needle: bytes | None = None
        self._cut = Cut.BEFORE
        self._applied: Callable[[], Awaitable[None]] = _nothing
        self._held: list[tuple[asyncio.StreamWriter, bytes]] = []
        self.cuts = 0
        self.endpoint = ""

    def arm(self, needle: bytes, cut: Cut, applied: Callable[[], Awaitable[None]] = _nothing) -> None:
        """For AFTER, the connection breaks when ``applied`` returns."""
        self._needle, self._cut, self._applied = needle, cut, applied

    async def deliver(self) -> None:
        for writer, data in self._held:
            writer.write(data)
            await writer.drain()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        upstream_reader, upstream = await asyncio.open_connection(host, int(port))
        answers = asyncio.create_task(self._pump(upstream_reader, writer))
        try:
            while data := await reader.read(1 << 16):
                if self._needle is not None and self._needle in data:
                    self._needle = None
                    answers.cancel()
                    await self._break(upstream, data)
                    return
                upstream.write(data)
        except ConnectionError:
            pass
        finally:
            answers.cancel()
            writer.transport.abort()
            if all(upstream is not held for held, _ in self._held):
                upstream.close()

    async def _break(self, upstream: asyncio.StreamWriter, data: bytes) -> None:
        self.cuts += 1
        if self._cut is Cut.AFTER:
            upstream.write(data)
            await self._applied()
        elif self._cut is Cut.LATE:
            self._held.append((upstream, data))

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
            writer.close()


@asynccontextmanager
async def proxied(target: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(target)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    proxy.endpoint = f"{host}:{port}"
    try:
        yield proxy
    finally:
        server.close()
        for writer, _ in proxy._held:
            writer.close()
