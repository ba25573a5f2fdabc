"""A small server of the page and of documents that tests make, by the page's contract, under the contract's CSP."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tests.browser.documents import Document, Job, job_row
from tests.etcd.servers import free_port

PAGE = Path(__file__).resolve().parents[2] / "elaunch" / "web" / "page"
OPERATOR, VIEWER = "operator-token-of-tests", "viewer-token-of-the-tests"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_BEAT = 0.2  # seconds
_PARTS = {"": "job", "ranks": "ranks", "generations": "generations", "hang": "hang", "ports": "ports"}


class Serving:
    """Serves ``jobs``, which a test may change; it runs in a thread of its own until ``stop``.

    ``open_to_all``: reads need no token; acts always do. ``posted`` are the commands that came, with their jobs,
    ``resumed`` what each stream said that it had. The history is refused ``unable`` times.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.open_to_all = True
        self.acts = True
        self.posted: list[tuple[str, Document]] = []
        self.resumed: list[str | None] = []
        self.unable = 0
        self._streams: set[tuple[str | None, asyncio.Queue[tuple[str, Document] | None]]] = set()
        self._loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = free_port()  # which nobody is given while it does not listen
        self.listen()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def listen(self) -> None:
        """Begin to listen, always on the same port."""
        self._wait(self._listen())

    def hang_up(self) -> None:
        """End all connections and listen no more."""
        self._wait(self._hang_up())

    def stop(self) -> None:
        self.hang_up()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def reset(self, *jobs: Job) -> None:
        """Begin anew with these jobs, for the next test."""
        self.jobs = {job.name: job for job in jobs}
        self.open_to_all, self.acts = True, True
        self.posted.clear()
        self.resumed.clear()
        self.unable = 0

    def push(self, job: str | None, name: str, data: Document) -> None:
        """Send an event to all that follow the job now; None: the list of jobs."""
        self._loop.call_soon_threadsafe(self._push, job, name, data)

    def tell(self, job: str, event: Document) -> None:
        """Let something happen to the job."""
        self.jobs[job].events.append(event)
        self.push(job, "event", event)

    def followed(self) -> list[str | None]:
        """The jobs of the streams that are open; None: the list."""
        return [name for name, _ in tuple(self._streams)]

    def wait_followed(self, names: list[str | None], within: float = 60.0) -> bool:
        """Whether these are the streams that are open, in ``within`` seconds at most."""
        until = time.monotonic() + within
        while self.followed() != names and time.monotonic() < until:
            time.sleep(0.02)
        return self.followed() == names

    def _push(self, job: str | None, name: str, data: Document) -> None:
        for followed, queue in self._streams:
            if followed == job:
                queue.put_nowait((name, data))

    def _wait(self, act: Awaitable[None]) -> None:
        future: Future[None] = asyncio.run_coroutine_threadsafe(_as_coroutine(act), self._loop)
        future.result(60)

    async def _listen(self) -> None:
        app = web.Application(middlewares=[_guarded])
        app.router.add_get("/", _asset)
        app.router.add_get("/assets/{name}", _asset)
        app.router.add_get("/api/whoami", self._whoami)
        app.router.add_get("/api/jobs", self._reading(lambda _: self._list()))
        app.router.add_get("/api/stream", self._stream)
        app.router.add_get("/api/jobs/{job}/topology/{node}", self._reading(self._topology))
        app.router.add_get("/api/jobs/{job}/events", self._reading(self._events))
        app.router.add_post("/api/jobs/{job}/commands", self._command)
        for part in _PARTS:
            path = "/api/jobs/{job}" + (f"/{part}" if part else "")
            app.router.add_get(path, self._reading(lambda request, part=part: self._job(request)[part]))
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()

    async def _hang_up(self) -> None:
        for _, queue in self._streams:
            queue.put_nowait(None)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _role(self, request: web.Request) -> str | None:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return {OPERATOR: "operator", VIEWER: "viewer"}.get(shown)

    async def _whoami(self, request: web.Request) -> web.Response:
        role, shown = self._role(request), "Authorization" in request.headers
        return web.json_response(
            {
                "version": "0.1.0",
                "serves": "controller",
                "role": role,
                "token_needed": not self.open_to_all,
                "token_wrong": shown and role is None,
                "can_read": self.open_to_all or role is not None,
                "can_act": self.acts and role == "operator",
                "act_needs_token": True,
                "actions": ["abort", "restart", "drain", "undrain", "scale"] if self.acts else [],
                "why_not": "",
            }
        )

    def _reading(self, make: Callable[[web.Request], Document]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            self._admit(request)
            return web.json_response(make(request))

        return handler

    def _admit(self, request: web.Request) -> None:
        if not (self.open_to_all or self._role(request)):
            raise _error(web.HTTPUnauthorized, "no_token", "a viewer's or an operator's token is needed")

    def _job(self, request: web.Request) -> Job:
        name = unquote(request.match_info["job"])
        if name not in self.jobs:
            raise _error(web.HTTPNotFound, "no_such_job", f"no job {name!r} in this etcd")
        return self.jobs[name]

    def _list(self) -> Document:
        return {"at": 0, "jobs": [job_row(job) for job in self.jobs.values()]}

    def _events(self, request: web.Request) -> Document:
        if self.unable > 0:
            self.unable -= 1
            raise _error(web.HTTPServiceUnavailable, "etcd", "etcd does not answer")
        job = self._job(request)
        after = int(request.query.get("after", "0"))
        return {"job": job.name, "events": [event for event in job.events if event["seq"] > after]}

    def _topology(self, request: web.Request) -> Document:
        picture = self._job(request).pictures.get(request.match_info["node"])
        if picture is None:
            raise _error(web.HTTPNotFound, "not_found", "no such node")
        return picture

    async def _command(self, request: web.Request) -> web.Response:
        if self._role(request) != "operator":
            raise _error(web.HTTPForbidden, "role", "an operator's token is needed")
        self._job(request)
        asked = await request.json()
        self.posted.append((unquote(request.match_info["job"]), asked))
        done = {"id": "c1", "kind": asked["command"], "standing": "done", "answer": "so it is"}
        return web.json_response({"job": request.match_info["job"], "command": done})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        name = request.query.get("job")
        if name is not None and name not in self.jobs:
            raise _error(web.HTTPNotFound, "no_such_job", f"no job {name!r} in this etcd")
        self.resumed.append(request.headers.get("Last-Event-ID"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        queue: asyncio.Queue[tuple[str, Document] | None] = asyncio.Queue()
        self._streams.add((name, queue))
        try:
            for event, data in self._snapshot(name, request.headers.get("Last-Event-ID")):
                await response.write(self._message(name, event, data))
            while (said := await self._next(name, queue)) is not None:
                await response.write(said)
        except ConnectionResetError:
            pass  # the page has gone
        finally:
            self._streams.discard((name, queue))
        return response

    async def _next(self, name: str | None, queue: asyncio.Queue[tuple[str, Document] | None]) -> bytes | None:
        """What is to be sent next: a beat where nothing happens, by which a page that has gone is noticed."""
        try:
            news = await asyncio.wait_for(queue.get(), _BEAT)
        except asyncio.TimeoutError:
            return b": beat\n\n"
        return None if news is None else self._message(name, *news)

    def _snapshot(self, name: str | None, last: str | None) -> list[tuple[str, Document]]:
        hello: list[tuple[str, Document]] = [("hello", {"version": "0.1.0", "interval": 1.0})]
        if name is None:
            return [*hello, ("jobs", self._list())]
        job = self.jobs[name]
        missed = [("event", event) for event in job.events if last is not None and event["seq"] > int(last)]
        return hello + [(event, job[part]) for part, event in _PARTS.items()] + missed

    def _message(self, name: str | None, event: str, data: Document) -> bytes:
        seq = self.jobs[name].events[-1]["seq"] if name in self.jobs and self.jobs[name].events else 0
        return f"id: {seq}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode()


async def _as_coroutine(act: Awaitable[None]) -> None:
    await act


async def _asset(request: web.Request) -> web.StreamResponse:
    name = request.match_info.get("name", "index.html")
    path = PAGE / name
    if "/" in name or not path.is_file():
        raise _error(web.HTTPNotFound, "not_found", "no such file")
    return web.Response(body=path.read_bytes(), content_type=KINDS[path.suffix], charset="utf-8")


def _error(kind: type[web.HTTPError], code: str, text: str) -> web.HTTPError:
    return kind(text=json.dumps({"error": code, "text": text}), content_type="application/json")


@web.middleware
async def _guarded(request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]) -> web.StreamResponse:
    headers: Mapping[str, str] = {"Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff"}
    try:
        response: web.StreamResponse = await handler(request)
    except web.HTTPException as error:
        error.headers.update(headers)
        raise
    if not response.prepared:
        response.headers.update(headers)
    return response
