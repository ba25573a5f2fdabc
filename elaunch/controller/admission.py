"""The one place where a call to a control server is let in, or told why not."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio

from elaunch.controller.access import TOKEN, Access, Role
from elaunch.controller.counters import Counters


async def admit(context: Any, access: Access, needs: Role, counters: Counters | None = None) -> Role:
    """Let a call in, or end it: to be awaited first in every method of a ``grpc.aio`` server.

    ``context`` is the method's ``grpc.aio.ServicerContext``; the caller's token is read from its metadata
    (``elaunch-token``). Returns the caller's role, which may do what ``needs`` is needed for. A missing or wrong
    token ends the call with UNAUTHENTICATED, one of a role that may not do this with PERMISSION_DENIED;
    ``context.abort`` raises, so nothing after this line runs then. Each refusal is counted in ``counters`` by its
    reason ("no token", "wrong token", "role") and logged at a bounded rate.

        async def Restart(self, request, context):
            role = await admit(context, self._access(), Role.OPERATOR, self._counters)
    """
    presented = _presented(context)
    role = access.role_of(presented) if presented else None
    if role is None:
        reason = "wrong token" if presented else "no token"
        if counters is not None:
            counters.refuse(reason, peer=context.peer())
        text = "the token is wrong" if presented else "no token was shown"
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"{text} (see --token-file)")
    elif not role.may(needs):
        if counters is not None:
            counters.refuse("role", peer=context.peer(), role=role.value, needs=needs.value)
        text = f"this token is for the role {role.value}; this takes {needs.value}"
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)
    assert role is not None
    return role


def _presented(context: Any) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == TOKEN and isinstance(value, str):
            return value
    return ""
