"""Who is let in over HTTP, and to what: every request passes here.

A browser is steered by other pages as well. So nothing is ambient: there is no cookie, a token comes in a header that
another page cannot set, what acts needs a header of ours on top, and a host name that is not this server's, as in DNS
rebinding, is refused.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Middleware

from elaunch.controller.access import Access, Role
from elaunch.controller.counters import Counters
from elaunch.web.refusals import Refused

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
OWN_HEADER = "X-Elaunch"
MOST_BODY = 16 << 10  # bytes of a request
_READS = ("GET", "HEAD")
_CONTENT = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
        " connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class Pass:
    """What a request may: ``role`` is that of the token that it showed, ``wrong`` says that it showed another one."""

    role: Role | None
    wrong: bool = False


@dataclass(frozen=True, slots=True)
class Doors:
    """``access`` are the tokens that are taken; where there are none, reading is open to whoever can reach the port.

    ``actions``: acting is too. ``names`` are host names of this server beside its own and all addresses.
    """

    access: Access = field(default_factory=Access)
    actions: bool = False
    names: frozenset[str] = frozenset()
    counters: Counters = field(default_factory=Counters)

    def shown(self, request: web.Request) -> Pass:
        """What the request's token is good for."""
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if not token.strip():
            return Pass(None)
        role = self.access.role_of(token.strip()) if kind.lower() == "bearer" else None
        return Pass(role, wrong=role is None and not self.access.open)

    def may(self, found: Pass, needs: Role) -> bool:
        """Whether this pass will do."""
        if self.access.open:
            return needs is Role.VIEWER or self.actions
        return found.role is not None and found.role.may(needs)

    @property
    def can_act(self) -> bool:
        """Whether anybody may act here."""
        return self.actions if self.access.open else bool(self.access.operators)

    def why_not(self, found: Pass, needs: Role) -> str:
        """A sentence on what is missing; "" where nothing is."""
        if self.may(found, needs):
            return ""
        if self.access.open:
            return "acting over the web needs a token file with an operator's token (see --token-file)"
        if not self.can_act and needs is Role.OPERATOR:
            return "the token file of this server has no operator's token"
        if found.wrong:
            return "the token is wrong"
        if found.role is None:
            return "no token was shown (see --token-file)"
        return f"this token is for the role {found.role.value}; this takes {needs.value}"

    def admit(self, request: web.Request, needs: Role) -> None:
        """Raises Refused."""
        found = self.shown(request)
        text = self.why_not(found, needs)
        if not text:
            return
        if self.access.open or (needs is Role.OPERATOR and not self.can_act):
            raise self._refused(request, Refused(403, "actions_off", text))
        if found.role is None:
            raise self._refused(request, Refused(401, "wrong_token" if found.wrong else "no_token", text))
        raise self._refused(request, Refused(403, "role", text))

    def check_host(self, request: web.Request) -> None:
        """Raises Refused where the request is for another host's name: an address cannot be made to point elsewhere."""
        host = bare_host(request.host)
        if not (is_address(host) or host in self.names or host in own_names()):
            text = f"this is not {host[:100]!r}; name it with --web-names if it is to go by that name"
            raise self._refused(request, Refused(403, "host", text))

    def check_act(self, request: web.Request) -> None:
        """Raises Refused where another page may have made the browser send this."""
        if request.headers.get(OWN_HEADER) != "1":
            raise self._refused(request, Refused(403, "origin", f"the header {OWN_HEADER}: 1 is missing"))
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != request.host:
            raise self._refused(request, Refused(403, "origin", "this comes from a page of another origin"))
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise self._refused(request, Refused(403, "origin", "this comes from a page of another site"))
        if request.content_type != "application/json":
            raise Refused(415, "bad_request", "expected application/json")

    def _refused(self, request: web.Request, why: Refused) -> Refused:
        self.counters.refuse(f"web: {why.code}", peer=request.remote or "", path=request.path)
        return why


def guarding(doors: Doors) -> Middleware:
    """The middleware that every request passes; refusals become documents."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            doors.check_host(request)
            if request.method == "POST":
                doors.check_act(request)
            elif request.method not in _READS:
                raise Refused(405, "method", f"{request.method} is not known here")
            return await handler(request)
        except Refused as refused:
            return refused.response()
        except web.HTTPRequestEntityTooLarge:
            return Refused(413, "too_large", f"a request has {MOST_BODY} bytes at most").response()
        except web.HTTPException as error:
            return Refused(error.status, "not_found" if error.status == 404 else "bad_request", error.reason).response()

    return guard


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """What every answer says of how it may be used.

    Nothing of Strict-Transport-Security: it would hold for all ports of the host, and for other people's servers there.
    """
    for name, value in _CONTENT.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")


def bare_host(host: str) -> str:
    """``gpu-01`` of ``gpu-01:8080``, an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()


def is_address(host: str) -> bool:
    """Whether it is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def own_names() -> Iterable[str]:
    """What this machine calls itself."""
    name = socket.gethostname().lower()
    return ("localhost", name, name.partition(".")[0])
