"""A browser's part in tests: requests to the page's server, and one stream of it."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.harness import Agent, wait_until

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def url_of(process: Agent) -> str:
    """Where a process serves its page, as it says itself."""
    found = wait_until("a page", lambda: re.search(r"web_listening .*?url=(http[^\s)]+)", process.output()))
    return str(found.group(1))


@dataclass(frozen=True)
class Page:
    """What is asked at ``url``, with this token."""

    url: str
    token: str = ""

    def get(self, path: str) -> Any:
        """The document; a text where it is none. Raises urllib.error.HTTPError."""
        with _DIRECT.open(self._request(path), timeout=60) as response:
            body = response.read().decode()
            return json.loads(body) if "json" in response.headers["Content-Type"] else body

    def post(self, job: str, **command: Any) -> tuple[int, Any]:
        request = self._request(f"/api/jobs/{job}/commands", json.dumps(command).encode())
        request.add_header("X-Elaunch", "1")
        request.add_header("Content-Type", "application/json")
        try:
            with _DIRECT.open(request, timeout=90) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def status(self, path: str) -> int:
        try:
            with _DIRECT.open(self._request(path), timeout=60) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            with error:
                return int(error.code)

    def _request(self, path: str, body: bytes | None = None) -> urllib.request.Request:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return urllib.request.Request(self.url + path, body, headers)


@dataclass
class Stream:
    """A stream that is read in a thread until its end."""

    page: Page
    job: str
    got: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._response = _DIRECT.open(self.page._request(f"/api/stream?job={self.job}"), timeout=60)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        name = ""
        with self._response:
            for raw in self._response:
                line = raw.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    self.got.append((name, json.loads(line.removeprefix("data: "))))
        self.got.append(("closed", None))

    def of(self, name: str) -> list[Any]:
        return [data for kind, data in self.got if kind == name]

    def event(self, code: str, seconds: float = 120.0) -> Any:
        """The first event of this code."""
        return wait_until(code, lambda: next((e for e in self.of("event") if e["code"] == code), None), seconds)

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join(120)
        assert not self._thread.is_alive()
