"""``/metrics``: the jobs that this process leads, for a Prometheus to collect."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import NoReturn

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from elaunch import __version__
from elaunch.clock import Clock
from elaunch.controller.access import Role
from elaunch.controller.leader import Term
from elaunch.controller.operator_server import status_aside
from elaunch.controller.server import ControlServer
from elaunch.metrics.collector import JobsCollector, Process, Scraped
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.web.bodies import Body
from elaunch.web.doors import Doors
from elaunch.web.rank_table import STATES, new_texts, rank_table
from elaunch.web.source import Kept
from elaunch.web.streaming import Streams

FRESH = 1.0  # seconds for which a scrape's figures are used again
LOOK = 1.0  # seconds between two looks at how late this process is
LOOKS = 15  # of which the worst is told: a usual scrape interval


class Exposition:
    """Scrapes out of the leader's memory: neither etcd nor another process is asked."""

    def __init__(self, server: ControlServer, doors: Doors, streams: Streams, clock: Clock) -> None:
        self._server = server
        self._doors = doors
        self._streams = streams
        self._clock = clock
        self._late: deque[float] = deque(maxlen=LOOKS)
        self._scraped = Kept(self._scrape, FRESH / 2, clock)
        self._bodies = Kept(self._body, FRESH / 2, clock)

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/metrics", self.metrics)]

    async def metrics(self, request: web.Request) -> web.Response:
        self._doors.admit(request, Role.VIEWER)
        _, kind = choose_encoder(request.headers.get("Accept", ""))
        key = f"{'ranks' if request.query.get('ranks') == '1' else ''} {kind}"
        body = await self._bodies.get(key)
        return body.response(request, {"Content-Type": kind})

    async def _body(self, key: str) -> Body:
        """What is told to all that ask for the same within ``FRESH``: a flood of scrapes is one."""
        ranks, _, kind = key.partition(" ")
        scraped = await self._scraped.get("")
        refused = self._server.counters.snapshot()
        process = Process(__version__, refused, max(self._late, default=0.0), self._streams.open)
        encode, _ = choose_encoder(kind)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(JobsCollector(scraped, process, ranks=bool(ranks)))
        ProcessCollector(registry=registry)
        return await asyncio.to_thread(lambda: Body.of(encode(registry)))

    async def watch(self) -> NoReturn:
        """See how late this process is, until cancelled."""
        while True:
            due = self._clock.monotonic() + LOOK
            await asyncio.sleep(LOOK)
            self._late.append(max(0.0, self._clock.monotonic() - due))

    async def _scrape(self, _: str) -> list[Scraped]:
        return [await _scraped(name, term) for name, term in self._server.leads()]


async def _scraped(name: str, term: Term) -> Scraped:
    reply = await status_aside(term)
    states = await asyncio.to_thread(_states, reply)
    return Scraped(name, reply, term.figures, term.job.checkpoint, states, term.job.accounts.seconds)


def _states(reply: pb.StatusReply) -> dict[str, int]:
    """How many ranks are in each state."""
    states = Counter(rank_table(reply, new_texts()).columns["state"])
    return {state: states.get(number, 0) for number, state in enumerate(STATES)}
