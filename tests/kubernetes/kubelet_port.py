"""The port of a kubelet that `kubectl logs` has the API server ask."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from aiohttp import web

from tests.kubernetes.logs import OVER, newest
from tests.kubernetes.machine import KUBELET_PORT

_FOLLOW = 0.2  # seconds


async def serve(logs: Path, cert: Path, key: Path) -> web.AppRunner:
    """Serve what is below ``logs``, on all addresses of the nodes."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await _answer(request, logs)

    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    await web.TCPSite(runner, "0.0.0.0", KUBELET_PORT, ssl_context=context).start()
    return runner


async def _answer(request: web.Request, logs: Path) -> web.StreamResponse:
    where, asked = request.match_info, request.query
    found = newest(logs, where["namespace"], where["pod"], where["container"], asked.get("previous") == "true")
    if found is None:
        raise web.HTTPBadRequest(text=f"container {where['container']} of pod {where['pod']} has no log")
    response = web.StreamResponse()
    response.content_type = "text/plain"
    await response.prepare(request)
    with found.open("rb") as file:
        lines = file.readlines()
        await response.write(b"".join(lines[-int(asked["tailLines"]) :] if "tailLines" in asked else lines))
        while asked.get("follow") == "true" and not (found.parent.parent / OVER).exists():
            await asyncio.sleep(_FOLLOW)
            await response.write(file.read())
    return response
