"""What a failed call to etcd means: may it be sent again, was it refused, or is it unknown. Pure."""

from __future__ import annotations

from enum import Enum

from grpc import StatusCode


class Verdict(Enum):
    """What to do about an error."""

    RETRY = "retry"  # whether it was applied is unknown: again, if it is idempotent
    NOT_APPLIED = "not applied"  # etcd said so: again, whatever it is
    AUTHENTICATE = "authenticate"  # refused before it was applied: fetch a token, then again
    LEASE_GONE = "lease gone"
    REFUSED = "refused"


_STALE_TOKEN = ("invalid auth token", "user name is empty", "auth store is old", "auth revision")
_UNKNOWN_OUTCOME = {
    StatusCode.UNAVAILABLE,
    StatusCode.DEADLINE_EXCEEDED,
    StatusCode.CANCELLED,
    StatusCode.UNKNOWN,
    StatusCode.INTERNAL,
    StatusCode.ABORTED,
}


def judge(code: StatusCode, details: str) -> Verdict:
    """The meaning of a gRPC status from etcd 3.4 to 3.6, whose texts carry what their codes do not."""
    if code is StatusCode.UNAUTHENTICATED or any(text in details for text in _STALE_TOKEN):
        return Verdict.AUTHENTICATE
    if code is StatusCode.NOT_FOUND and "lease not found" in details:
        return Verdict.LEASE_GONE
    if code is StatusCode.RESOURCE_EXHAUSTED and "too many requests" in details:
        return Verdict.NOT_APPLIED
    if "unhealthy cluster" in details:  # UNAVAILABLE, but of a change of members that would be unsafe now
        return Verdict.REFUSED
    if code in _UNKNOWN_OUTCOME:
        return Verdict.RETRY
    return Verdict.REFUSED


def progress_is_ordered(version: str) -> bool:
    """Whether an answer to a progress request proves that every earlier event was delivered.

    Before 3.4.25 and 3.5.8 it could overtake events (etcd issue 15220), and resuming from it would lose them.
    """
    try:
        major, minor, patch = (int(part) for part in version.split("-")[0].split("."))
    except ValueError:
        return False
    fixed = {(3, 4): 25, (3, 5): 8}
    return (major, minor) >= (3, 6) or patch >= fixed.get((major, minor), patch + 1)
