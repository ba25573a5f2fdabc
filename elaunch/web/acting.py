"""An operator's command that came over HTTP: checked, written as the command line writes it, and waited for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from elaunch.controller.access import Role, Tokens
from elaunch.controller.operating import outcome, submit, verdict
from elaunch.rendezvous.journal import LONGEST
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.listeners import listening
from elaunch.rendezvous.waiting import within
from elaunch.web.documents import operation_row
from elaunch.web.refusals import Refused, refusal_of
from elaunch.web.source import Source

COMMANDS = ("abort", "restart", "drain", "undrain", "scale")
BODY_WITHIN = 10.0  # seconds for the whole of a request
WAIT = 10.0  # seconds for a command to be through, after which its standing is told
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "drain": ("node",),
    "undrain": ("node",),
    "scale": ("min_nodes", "max_nodes"),
}
_MAY: Mapping[str, tuple[str, ...]] = {"abort": ("evidence",), "restart": ("from_step",), **_NEEDED}
_KINDS: Mapping[str, type] = {"evidence": bool, "from_step": int, "node": str, "min_nodes": int, "max_nodes": int}


async def act(source: Source, request: web.Request) -> tuple[dict[str, Any], int]:
    """What became of the command, and the answer's status. Raises Refused, ElaunchError."""
    job = request.match_info["job"]
    try:
        body = await within(BODY_WITHIN, request.read())
    except asyncio.TimeoutError:
        raise Refused(408, "bad_request", f"the request did not come within {BODY_WITHIN:.0f} s") from None
    kind, reason, arguments = asked(body)
    await source.seen(job)
    who = f"web@{request.remote or 'unknown'}"
    async with listening(source.store, JobKeys(job)):
        now = source.clock.wall()
        operation = await submit(source.store, job, kind, who, now, reason, _tokens(request), **arguments)
        after = await outcome(source.store, job, operation, WAIT)
    source.forget(job)
    if not after.standing.open and (error := verdict(job, after, WAIT)) is not None:
        raise refusal_of(error)
    return {"job": job, "command": operation_row(after)}, 202 if after.standing.open else 200


def asked(body: bytes) -> tuple[str, str, dict[str, Any]]:
    """Kind, reason and arguments of a request. Raises Refused where it is none."""
    try:
        document = json.loads(body)
        json.dumps(document, ensure_ascii=False).encode()  # half a character would be carried into every message
    except (ValueError, RecursionError):
        raise Refused(400, "bad_request", "expected a JSON object") from None
    if not isinstance(document, dict):
        raise Refused(400, "bad_request", "expected a JSON object")
    kind, reason = document.pop("command", None), document.pop("reason", None)
    if kind not in COMMANDS:
        raise Refused(400, "bad_request", f"command: expected one of {', '.join(COMMANDS)}")
    if not isinstance(reason, str) or not reason.strip() or len(reason) > LONGEST:
        raise Refused(400, "bad_request", f"reason: expected 1 to {LONGEST} characters")
    arguments = {name: value for name, value in document.items() if value is not None}
    for name, value in arguments.items():
        if name not in _MAY.get(kind, ()):
            raise Refused(400, "bad_request", f"{kind} takes no {name[:40]!r}")
        if type(value) is not _KINDS[name] or (isinstance(value, str) and not 0 < len(value) <= LONGEST):
            raise Refused(400, "bad_request", f"{name}: expected {_KINDS[name].__name__}")
    if missing := [name for name in _NEEDED.get(kind, ()) if name not in arguments]:
        raise Refused(400, "bad_request", f"{kind} needs {missing[0]}")
    return kind, reason, _usual(kind) | arguments


def _usual(kind: str) -> dict[str, Any]:
    """What the command line sends where nothing is given."""
    usual: Mapping[str, dict[str, Any]] = {"abort": {"evidence": False}, "restart": {"from_step": -1}}
    return usual.get(kind, {})


def _tokens(request: web.Request) -> Tokens | None:
    """The operator's token as it was shown, to seal the command with."""
    token = request.headers.get("Authorization", "").partition(" ")[2].strip()
    return Tokens(((Role.OPERATOR, token),)) if token else None
