"""An answer that is the same for many: made and compressed once, away from the loop."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

_COMPRESSED_FROM = 16 << 10  # bytes


@dataclass(frozen=True, slots=True)
class Body:
    """``packed`` is ``plain`` as gzip, empty where it is too small for that."""

    plain: bytes
    packed: bytes

    @classmethod
    def of(cls, plain: bytes) -> Body:
        """To be called in a thread: it takes its time."""
        return cls(plain, zlib.compress(plain, 1, wbits=31) if len(plain) > _COMPRESSED_FROM else b"")

    def response(self, request: web.Request, headers: Mapping[str, str]) -> web.Response:
        """As the client understands it."""
        if not self.packed or "gzip" not in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=self.plain, headers=headers)
        more = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return web.Response(body=self.packed, headers={**headers, **more})
