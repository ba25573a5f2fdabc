"""The page itself: a few files that came with the package, served as they are."""

from __future__ import annotations

import hashlib
from pathlib import Path

from aiohttp import web

PAGE = Path(__file__).parent / "page"
_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
}
_COMPRESSED = (".html", ".css", ".js", ".svg", ".json")
_LARGEST = 4 << 20  # bytes


class Files:
    """Read once; nothing of a request ever becomes a path."""

    def __init__(self, folder: Path = PAGE) -> None:
        self._files: dict[str, tuple[bytes, str]] = {}
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.suffix in _KINDS and path.is_file() and path.stat().st_size <= _LARGEST:
                data = path.read_bytes()
                self._files[path.name] = (data, hashlib.sha256(data).hexdigest()[:16])

    def routes(self) -> list[web.RouteDef]:
        """The page under each address that it gives itself, and what it is made of."""
        return [
            web.get("/", self.index),
            web.get("/jobs/{tail:.*}", self.index),
            web.get("/assets/{name}", self.asset),
            web.get("/favicon.ico", self.icon),
        ]

    async def index(self, request: web.Request) -> web.StreamResponse:
        return self._send(request, "index.html")

    async def asset(self, request: web.Request) -> web.StreamResponse:
        return self._send(request, request.match_info["name"])

    async def icon(self, request: web.Request) -> web.StreamResponse:
        return self._send(request, "favicon.svg")

    def _send(self, request: web.Request, name: str) -> web.StreamResponse:
        if name not in self._files:
            raise web.HTTPNotFound(reason="there is no such page")
        data, digest = self._files[name]
        headers = {"ETag": f'"{digest}"', "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        suffix = Path(name).suffix
        charset = "utf-8" if suffix in _COMPRESSED else None
        response = web.Response(body=data, content_type=_KINDS[suffix], charset=charset, headers=headers)
        if suffix in _COMPRESSED:
            response.enable_compression()
        return response
