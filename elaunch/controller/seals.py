"""An operator's mark on a command that goes through etcd, where others may write as well. Pure.

A command is carried out though its operator has gone and the leader changed, so it stands in etcd and not in a call.
Its seal shows that whoever wrote it has an operator's token: an HMAC of the command and its job, under the token's
digest, which is what servers keep of it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from elaunch.controller.access import Access, Role, Tokens, digest
from elaunch.errors import UsageError


def seal(tokens: Tokens | None, job: str, command: Mapping[str, Any]) -> str:
    """The seal of ``command``, plain values as they stand in JSON; "" without a token file, where none is asked for.

    Raises UsageError where the token file has no operator's token.
    """
    if tokens is None:
        return ""
    token = tokens.of(Role.OPERATOR)
    if token is None:
        raise UsageError(f"the token file has no token of the role {Role.OPERATOR.value}")
    return _mark(digest(token), job, command)


def is_sealed(access: Access, job: str, command: Mapping[str, Any], shown: str) -> bool:
    """Whether an operator of ``access``, a token file's, has sealed this; always where there is no token file."""
    if access.open:
        return True
    marks = [_mark(operator, job, command) for operator in access.operators]
    return any(hmac.compare_digest(mark.encode(), shown.encode(errors="replace")) for mark in marks)


def _mark(key: bytes, job: str, command: Mapping[str, Any]) -> str:
    text = json.dumps([job, command], sort_keys=True, separators=(",", ":"))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
