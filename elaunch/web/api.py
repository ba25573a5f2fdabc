"""What can be asked for over HTTP, one method each. Every read needs a viewer's token, every command an operator's."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from elaunch import __version__
from elaunch.controller.access import Role
from elaunch.errors import ElaunchError
from elaunch.rendezvous.journal import Happening
from elaunch.web.acting import COMMANDS, act
from elaunch.web.bodies import Body
from elaunch.web.documents import event_rows, job_document, job_row
from elaunch.web.doors import Doors
from elaunch.web.feeds import Feeds
from elaunch.web.generations import generations_document
from elaunch.web.packing import packed
from elaunch.web.pages import hang_document, ports_document
from elaunch.web.rank_table import new_texts, rank_table, whole
from elaunch.web.refusals import Refused, refusal_of
from elaunch.web.source import INTERVAL, Facts, Kept, Source
from elaunch.web.streaming import COMPRESSED_ASIDE, Streams

MOST_EVENTS = 1000
USUAL_EVENTS = 200
_COMPRESSED_FROM = 16 << 10  # bytes


class Api:
    """The routes below ``/api/``."""

    def __init__(self, source: Source, doors: Doors, streams: Streams) -> None:
        self._source = source
        self._doors = doors
        self._feeds = Feeds(source)
        self._streams = streams
        self._tables = Kept(self._table, INTERVAL, source.clock)

    def routes(self) -> list[web.RouteDef]:
        """What the application is made of."""
        job = "/api/jobs/{job}"
        return [
            web.get("/api/whoami", self.whoami),
            web.get("/api/jobs", self.jobs),
            web.get(job, self.job),
            web.get(f"{job}/ranks", self.ranks),
            web.get(f"{job}/generations", self.generations),
            web.get(f"{job}/events", self.events),
            web.get(f"{job}/hang", self.hang),
            web.get(f"{job}/ports", self.ports),
            web.get(f"{job}/topology/{{node}}", self.topology),
            web.get("/api/stream", self.stream),
            web.post(f"{job}/commands", self.command),
        ]

    async def close(self) -> None:
        """End what goes on."""
        await self._feeds.close()
        await self._streams.close()

    async def whoami(self, request: web.Request) -> web.Response:
        """What the token that is shown is good for; of everybody."""
        doors, found = self._doors, self._doors.shown(request)
        can_act = doors.may(found, Role.OPERATOR)
        document = {
            "version": __version__,
            "serves": "agent" if self._source.only else "controller",
            "role": found.role.value if found.role is not None else None,
            "token_needed": not doors.access.open,
            "token_wrong": found.wrong,
            "can_read": doors.may(found, Role.VIEWER),
            "can_act": can_act,
            "act_needs_token": not doors.access.open,
            "actions": list(COMMANDS) if doors.can_act else [],
            "why_not": doors.why_not(found, Role.OPERATOR),
        }
        return answer(request, document)

    async def jobs(self, request: web.Request) -> web.Response:
        self._doors.admit(request, Role.VIEWER)
        try:
            return answer(request, await self._jobs())
        except ElaunchError as error:
            raise refusal_of(error) from None

    async def _jobs(self) -> dict[str, Any]:
        """Raises ElaunchError."""
        rows = [job_row(facts) for facts in await self._source.everything()]
        return {"at": self._source.clock.wall(), "jobs": rows}

    async def _facts(self, request: web.Request) -> Facts:
        """The facts of the job that is asked for. Raises Refused."""
        self._doors.admit(request, Role.VIEWER)
        try:
            return await self._source.facts(request.match_info["job"])
        except ElaunchError as error:
            raise refusal_of(error) from None

    async def _history(self, request: web.Request) -> list[Happening]:
        """Its history. Raises Refused."""
        self._doors.admit(request, Role.VIEWER)
        try:
            return await self._source.history(request.match_info["job"])
        except ElaunchError as error:
            raise refusal_of(error) from None

    async def job(self, request: web.Request) -> web.Response:
        return answer(request, job_document(await self._facts(request)))

    async def ranks(self, request: web.Request) -> web.Response:
        facts = await self._facts(request)
        body = await self._tables.get(facts.seen.job)
        return body.response(request, {"Content-Type": "application/json; charset=utf-8"})

    async def _table(self, job: str) -> Body:
        try:
            facts = await self._source.facts(job)
        except ElaunchError as error:
            raise refusal_of(error) from None
        return await asyncio.to_thread(_rank_body, facts)

    async def generations(self, request: web.Request) -> web.Response:
        facts, lines = await self._facts(request), await self._history(request)
        document = generations_document(facts.seen.job, lines, facts.reply, facts.at, facts.seen.plan)
        return answer(request, document)

    async def events(self, request: web.Request) -> web.Response:
        job = request.match_info["job"]
        after, limit = number(request, "after", -1), number(request, "limit", USUAL_EVENTS)
        lines = [line for line in await self._history(request) if line.seq > after]
        limit = min(limit, MOST_EVENTS)
        lines = lines[:limit] if after >= 0 else lines[-limit:]
        return answer(request, {"job": job, "events": event_rows(lines)})

    async def hang(self, request: web.Request) -> web.Response:
        return answer(request, hang_document(await self._facts(request)))

    async def ports(self, request: web.Request) -> web.Response:
        return answer(request, ports_document(await self._facts(request)))

    async def topology(self, request: web.Request) -> web.Response:
        """A node's machine, as the first of its kind has left its picture in etcd."""
        facts, name = await self._facts(request), request.match_info["node"]
        node = next((one for one in facts.seen.nodes if name in (one.node_id, one.host)), None)
        if node is None:
            raise Refused(404, "not_found", f"no node or host {name[:100]} is in the job")
        try:
            picture = await self._source.picture(facts.seen.job, node.topology)
        except ElaunchError as error:
            raise refusal_of(error) from None
        why = "" if picture else "its agent has told nothing of this machine" if not node.topology else "no picture yet"
        document = {"node_id": node.node_id, "host": node.host, "svg": picture, "text": None}
        return answer(request, document | {"digest": node.topology, "why": why})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        self._doors.admit(request, Role.VIEWER)
        job = request.query.get("job", "")
        if not job:
            return await self._streams.serve(request, self._feeds.follow_jobs(self._jobs))
        last = request.headers.get("Last-Event-ID") or request.query.get("last_event_id") or "-1"
        seq = int(last) if last.isdecimal() and len(last) < 16 else -1
        try:
            return await self._streams.serve(request, self._feeds.follow(job, seq))
        except ElaunchError as error:
            raise refusal_of(error) from None

    async def command(self, request: web.Request) -> web.Response:
        self._doors.admit(request, Role.OPERATOR)
        try:
            document, status = await act(self._source, request)
        except ElaunchError as error:
            raise refusal_of(error) from None
        return answer(request, document, status)


def _rank_body(facts: Facts) -> Body:
    return Body.of(packed(whole(rank_table(facts.reply, new_texts()), facts.seen.job, facts.at)))


def answer(request: web.Request, document: Any, status: int = 200) -> web.Response:
    """A document as it goes out."""
    body = packed(document)
    response = web.Response(
        body=body, status=status, content_type="application/json", charset="utf-8", zlib_executor_size=COMPRESSED_ASIDE
    )
    if len(body) > _COMPRESSED_FROM:
        response.enable_compression()
    return response


def number(request: web.Request, name: str, default: int) -> int:
    """A number of the query. Raises Refused where it is none."""
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isdecimal() or len(text) > 15:
        raise Refused(400, "bad_request", f"{name}={text[:40]!r}: expected a number")
    return int(text)
