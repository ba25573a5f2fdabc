"""The Kubernetes API as the node agent speaks it: JSON over HTTP, and watches that survive everything."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp

Object = dict[str, Any]
MERGE = "application/strategic-merge-patch+json"
_REACH = 30.0  # seconds for which a server that cannot be reached is tried again
_BUSY = (429, 503, 504)
_WATCH = 240  # seconds


class ApiError(Exception):
    """The server has refused a request, or could not be reached for long: then ``status`` is 0."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """The API server at ``server``, asked as the holder of a certificate. Made inside a running loop."""

    def __init__(self, server: str, ca: Path, cert: Path, key: Path) -> None:
        context = ssl.create_default_context(cafile=str(ca))
        context.load_cert_chain(cert, key)
        self._server = server
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0))

    async def close(self) -> None:
        await self._session.close()

    async def call(
        self, method: str, path: str, body: Object | None = None, kind: str = "application/json", **query: str
    ) -> Object:
        """One request, repeated for half a minute where the server is away or too busy. Raises ApiError."""
        deadline = time.monotonic() + _REACH
        while True:
            try:
                return await self._ask(method, path, body, kind, query)
            except (aiohttp.ClientError, asyncio.TimeoutError, ApiError) as error:
                if isinstance(error, ApiError) and error.status not in _BUSY:
                    raise
                if time.monotonic() > deadline:
                    raise ApiError(0, f"{method} {path}: {error!r}") from error
            await asyncio.sleep(0.2)

    async def _ask(self, method: str, path: str, body: Object | None, kind: str, query: Mapping[str, str]) -> Object:
        asked = self._session.request(
            method,
            self._server + path,
            params=query,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": kind},
            timeout=aiohttp.ClientTimeout(10),
        )
        async with asked as answer:
            said = await answer.text()
        if answer.status >= 300:
            raise ApiError(answer.status, said)
        return dict(json.loads(said))

    async def follow(self, path: str, seen: Callable[[str, Object], None]) -> None:
        """Tell of all objects at ``path`` as they are, and of each change ("MODIFIED" or "DELETED"), for ever."""
        known: dict[str, Object] = {}
        while True:
            try:
                listed = await self.call("GET", path)
                now = {item["metadata"]["uid"]: item for item in listed["items"]}
                for uid in known.keys() - now.keys():
                    seen("DELETED", known[uid])
                known = now
                for item in listed["items"]:
                    seen("MODIFIED", item)
                await self._watch(path, listed["metadata"]["resourceVersion"], known, seen)
            except (aiohttp.ClientError, asyncio.TimeoutError, ApiError) as error:
                print(f"watch of {path}: {error!r}", file=sys.stderr, flush=True)
                await asyncio.sleep(0.5)

    async def _watch(
        self, path: str, version: str, known: dict[str, Object], seen: Callable[[str, Object], None]
    ) -> None:
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(_WATCH)}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=_WATCH + 30)
        async with self._session.get(self._server + path, params=query, timeout=timeout) as answer:
            pending = b""
            async for chunk in answer.content.iter_any():
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    item, gone = event["object"], event["type"] == "DELETED"
                    uid = item["metadata"]["uid"]
                    if gone:
                        known.pop(uid, None)
                    else:
                        known[uid] = item
                    seen("DELETED" if gone else "MODIFIED", item)
