"""One client's stream of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from aiohttp import web

from elaunch import __version__
from elaunch.rendezvous.waiting import cancelled, within
from elaunch.web.feed import INTERVAL, News
from elaunch.web.packing import packed
from elaunch.web.refusals import Refused

MOST_STREAMS = 64  # of one server
TAKE_WITHIN = 20.0  # seconds in which a client must take a message
COMPRESSED_ASIDE = 64 << 10  # bytes of an answer from which on a thread compresses it: the loop leads jobs
RETRY = 2000  # milliseconds after which a browser comes again


class Streams:
    """The streams of a server: how many there are, and that they end with it."""

    def __init__(self) -> None:
        self._open: set[asyncio.Future[None]] = set()
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(self, request: web.Request, news: AsyncGenerator[News, None]) -> web.StreamResponse:
        """Send what comes, until it ends, the client goes, or takes nothing for ``TAKE_WITHIN`` seconds.

        Raises Refused where there are too many, and what ``news`` raises before its first message.
        """
        if len(self._open) >= MOST_STREAMS:
            raise Refused(429, "busy", f"{MOST_STREAMS} pages are open already")
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.add(ended)
        try:
            async with aclosing(news):
                return await self._send(request, news)
        finally:
            self._open.discard(ended)
            ended.set_result(None)

    @property
    def open(self) -> int:
        """How many there are."""
        return len(self._open)

    async def close(self) -> None:
        """End all streams, in time."""
        if not self._closing.done():
            self._closing.set_result(None)
        if self._open:
            await asyncio.wait(self._open, timeout=TAKE_WITHIN)

    async def _send(self, request: web.Request, news: AsyncGenerator[News, None]) -> web.StreamResponse:
        first = await self._next(news)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        response.headers["X-Accel-Buffering"] = "no"
        await response.prepare(request)
        hello = packed({"version": __version__, "interval": INTERVAL})
        try:
            await _take(response, b"retry: %d\n" % RETRY + message(-1, "hello", hello))
            while first is not None:
                await _take(response, message(*first))
                first = await self._next(news)
            if self._closing.done():
                await _take(response, message(-1, "end", packed({"why": "this process serves no pages any more"})))
        except asyncio.TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        except ConnectionResetError:
            pass  # the client has gone
        return response

    async def _next(self, news: AsyncGenerator[News, None]) -> News | None:
        """The next message; None at the end, or when the server ends."""
        coming = asyncio.ensure_future(anext(news, None))
        try:
            waits: set[asyncio.Future[Any]] = {coming, self._closing}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return coming.result() if coming.done() else None
        finally:
            await cancelled(coming)


def message(seq: int, name: str, data: bytes) -> bytes:
    """One event as it goes over the wire; a comment where it has no name."""
    if not name:
        return b": beat\n\n"
    number = b"" if seq < 0 else b"id: %d\n" % seq
    return number + b"event: %s\ndata: %s\n\n" % (name.encode(), data)


async def _take(response: web.StreamResponse, data: bytes) -> None:
    await within(TAKE_WITHIN, response.write(data))
