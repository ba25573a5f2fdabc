"""The health port (``TORCHELASTIC_HEALTH_CHECK_PORT``): an HTTP answer that only a live agent can give."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import structlog

PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\nalive\n"
_REQUEST_SECONDS = 5.0
_REQUEST_BYTES = 1 << 16


@contextlib.asynccontextmanager
async def health_port(environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Answer every HTTP request at the port that the environment names with 200, from here to the end.

    The answer comes from the loop that also watches the ranks: if that hangs, none comes. A bad port, or one that is
    taken, is a warning.
    """
    server = await _serve(environ.get(PORT))
    try:
        yield
    finally:
        if server is not None:
            server.close()


async def _serve(text: str | None) -> asyncio.AbstractServer | None:
    if text is None:
        return None
    log = structlog.get_logger()
    if not text.strip().isdecimal() or not 0 < int(text) < 65536:
        log.warning("no_health_port", text=f"{PORT}={text}: expected a port, 1 to 65535")
        return None
    try:
        return await asyncio.start_server(_answer, None, int(text), limit=_REQUEST_BYTES)
    except OSError as error:
        log.warning("no_health_port", text=f"{PORT}={text}: {error.strerror or error}")
        return None


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A connection without a request, as a probe by TCP alone makes it, is closed in silence."""
    try:
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _REQUEST_SECONDS)
        writer.write(_ANSWER)
        await asyncio.wait_for(writer.drain(), _REQUEST_SECONDS)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError, OSError):
        pass
    finally:
        writer.close()
