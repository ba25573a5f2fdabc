"""Where a kubelet asks whether the operator's loop turns: while it works, and while it waits for its turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import web

from elaunch.errors import UsageError


@asynccontextmanager
async def answering(url: str | None) -> AsyncIterator[None]:
    """Answer GETs of ``url`` with 200 while the context lasts. Raises UsageError where nobody can listen there."""
    if url is None:
        yield
        return
    host, port, path = _place(url)
    application = web.Application()
    application.router.add_get(path, _alive)
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise UsageError(f"--liveness={url}: {error.strerror or error}") from None
        yield
    finally:
        await runner.cleanup()


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _place(url: str) -> tuple[str, int, str]:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "http" or not parts.hostname or not port:
        raise UsageError(f"--liveness={url}: expected an address such as http://0.0.0.0:8081/healthz")
    return parts.hostname, port, parts.path or "/"
