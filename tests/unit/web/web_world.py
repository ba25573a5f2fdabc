"""A leader of a job in this process, with its page, and a client of it; the store is in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from elaunch.clock import SystemClock
from elaunch.controller.access import Security
from elaunch.controller.leader import Term
from elaunch.controller.node_status import NodeStatus, RunPhase
from elaunch.controller.policy import Policy
from elaunch.controller.server import ControlServer
from elaunch.progress import Heartbeat, RankProgress
from elaunch.rendezvous.election import Leadership
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Leader, Node, Phase, Spec, encode
from elaunch.web.options import WebOptions
from elaunch.web.server import WebServer
from tests.etcd.memory_store import MemoryStore

JOB = "llm/7b é"
PATH = "/api/jobs/llm%2F7b%20%C3%A9"
KEYS = JobKeys(JOB)
SLOTS = 4


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test, 100)  # a command that nobody carries out is waited for ten seconds

    asyncio.run(bounded())


@dataclass
class World:
    """One node that tells what a test wants, its leader, and the page."""

    store: MemoryStore
    term: Term
    url: str
    session: aiohttp.ClientSession
    server: ControlServer
    working: asyncio.Task[None]
    pages: WebServer
    readers: list[asyncio.Task[None]] = field(default_factory=list)

    async def get(self, path: str, token: str = "", **headers: str) -> tuple[int, Any]:
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.session.get(self.url + path, headers={**shown, **headers}) as response:
            text = await response.text()
            return response.status, json.loads(text) if "json" in response.content_type else text

    async def post(self, document: Any, token: str = "", **headers: str) -> tuple[int, Any]:
        shown = {"X-Elaunch": "1", "Content-Type": "application/json"}
        shown |= {"Authorization": f"Bearer {token}"} if token else {}
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        sent = {name: value for name, value in {**shown, **headers}.items() if value}
        async with self.session.post(f"{self.url}{PATH}/commands", data=body, headers=sent) as response:
            return response.status, await response.json()

    def beat(self, step: int, **more: Any) -> None:
        """A heartbeat of all ranks at this step."""
        ranks = tuple(
            RankProgress(rank, rank, 100 + rank, attached=True, step=step, where="train.py:31 in step", **more)
            for rank in range(SLOTS)
        )
        self.term.hear(Heartbeat("n0", self.term.job.generation, 1.0, ranks))

    async def until(self, condition: Callable[[], Any], seconds: float = 10.0) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, "it did not come to that"
            await asyncio.sleep(0.005)

    async def up(self, generation: int = 1) -> None:
        """The generation runs."""
        await self.until(lambda: self.term.job.generation == generation and not self.term.job.uncommitted)
        self.term.receive(NodeStatus("n0", generation, RunPhase.RUNNING, store_port=1))
        await self.until(lambda: self.term.job.phase is Phase.RUNNING)

    async def obey(self) -> None:
        """As an agent does: stop what is to be stopped, start what is to be started."""
        highest = 0
        while True:
            job = self.term.job
            if job.phase is Phase.ABORTING:
                highest = job.generation
                self.term.receive(NodeStatus("n0", highest, RunPhase.STOPPED, store_port=1))
            elif job.phase is Phase.STARTING and not job.uncommitted and job.generation > highest:
                self.term.receive(NodeStatus("n0", job.generation, RunPhase.RUNNING, store_port=1))
            await asyncio.sleep(0.01)


@asynccontextmanager
async def world(security: Security | None = None, **options: Any) -> AsyncIterator[World]:
    """A job of one node of four ranks that is about to start."""
    store, clock = MemoryStore(), SystemClock()
    control = ControlServer(security or Security())
    record = Leader("n0", "127.0.0.1:1", "t" * 32)
    epoch = await store.put(KEYS.leader, encode(record))
    node = Node("n0", "gpu-00", "127.0.0.1", SLOTS, 1, "127.0.0.1:1", topology="abc")
    await store.put(KEYS.spec, encode(Spec(1, 1, 3, {"default": {}})))
    await store.put(KEYS.node("n0"), encode(node))
    term = Term(store, KEYS, Leadership(KEYS.leader, epoch), Policy(1, 1, 3), clock, "n0", left=lambda: 1.0)
    control.serve(JOB, term, record.token)
    pages = WebServer(WebOptions("127.0.0.1", 0, **options), store, control, clock)
    working = asyncio.create_task(term.run())
    term.attach("n0")
    term.receive(NodeStatus("n0", store_port=1))
    try:
        async with aiohttp.ClientSession(auto_decompress=True) as session:
            url = await pages.start()
            one = World(store, term, url, session, control, working, pages)
            yield one
            await pages.stop()
            await asyncio.gather(*one.readers, return_exceptions=True)
    finally:
        await pages.stop()
        await control.stop()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
