"""What a request is answered with where it is not done."""

from __future__ import annotations

from aiohttp import web

from elaunch.errors import (
    AccessRefusedError,
    CommandRefusedError,
    ElaunchError,
    EtcdLostError,
    EtcdRefusedError,
    JobFinishedError,
    NoSuchJobError,
    UnansweredError,
    UsageError,
)


class Refused(Exception):
    """An answer with ``status``: ``code`` for a machine, ``text`` for a person."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text

    def response(self) -> web.Response:
        """The answer as it goes out."""
        headers = {"WWW-Authenticate": 'Bearer realm="elaunch"'} if self.status == 401 else {}
        headers |= {"Retry-After": "5"} if self.status == 429 else {}
        return web.json_response({"error": self.code, "text": self.text}, status=self.status, headers=headers)


_STATUSES: dict[type[ElaunchError], tuple[int, str]] = {
    NoSuchJobError: (404, "no_such_job"),
    JobFinishedError: (410, "finished"),
    AccessRefusedError: (403, "role"),
    CommandRefusedError: (409, "refused"),
    UsageError: (400, "bad_request"),
    EtcdLostError: (502, "etcd_lost"),
    EtcdRefusedError: (502, "etcd_refused"),
    UnansweredError: (504, "unanswered"),
}


def refusal_of(error: ElaunchError) -> Refused:
    """One of our errors as an answer."""
    for kind, (status, code) in _STATUSES.items():
        if isinstance(error, kind):
            return Refused(status, code, str(error))
    return Refused(500, error.code, str(error))
