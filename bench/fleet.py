"""Simulated agents for bench/controller.py: real keys, control streams and heartbeats, and no ranks.

``python -m bench.fleet ENDPOINT JOB TOTAL COUNT SLOTS`` joins COUNT nodes of a job of TOTAL from one process. It prints
a JSON line for everything that all of its nodes have done: ``{"running": GENERATION}``, and ``{"aborting": GENERATION,
"at": [...]}`` with the monotonic time at which each node had the command in hand. On stdin it takes a line for each of
what it is to do: ``fail`` (its first node tells that a rank died), ``hush`` and ``speak`` (its last node's heartbeats),
``end``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator

import structlog

from elaunch.agent.following import Follower
from elaunch.agent.membership import STREAM_SPREAD
from elaunch.agent.status import StatusBoard
from elaunch.clock import SystemClock
from elaunch.controller import client
from elaunch.controller.agreement import policy_values
from elaunch.controller.commands import Abort, Aside, Command, Start
from elaunch.controller.liveness import interval_for
from elaunch.controller.node_status import RunPhase
from elaunch.controller.policy import Policy
from elaunch.progress import GroupProgress, Heartbeat, RankProgress
from elaunch.rendezvous.election import Election
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.joining import join
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import Lease
from elaunch.rendezvous.records import Node, Spec
from elaunch.rendezvous.state import RankExit
from elaunch.rendezvous.waiting import beside, cancelled

RESTARTS = 1000
OPENING = 1.0  # seconds that some streams have to open before the next ones do
_GROUPS = ("default", "tensor", "pipeline")


class Simulated:
    """One node: what it is told it does at once, and its heartbeats tell of ranks that make progress."""

    def __init__(self, fleet: Fleet, node_id: str, slots: int, spread: float) -> None:
        self.node_id = node_id
        self.hushed = asyncio.Event()
        self.heard = asyncio.Event()
        self.has_beaten = asyncio.Event()  # in its generation: before that it is waited for longer
        self._fleet = fleet
        self._slots = slots
        self._step = 0
        self._start: Start | None = None
        self._next = 0.0
        self.board = StatusBoard()
        self.board.update(node_id=node_id, store_port=1)
        self.follower = Follower(fleet.job, self.board, self._beat, SystemClock(), 600, self._take, spread=spread)

    def fail(self) -> None:
        """Tell that a rank of this node was killed."""
        assert self._start is not None
        dead = RankExit(0, self._start.rank0, 1, -9, time.time())
        self.board.update(phase=RunPhase.FAILED, exits=(dead,))

    def _take(self, command: Command | Aside) -> None:
        self.heard.set()
        if isinstance(command, Start) and command.generation > self.board.now.generation:
            self._start = command
            self.has_beaten.clear()
            self._next = time.monotonic() + random.uniform(0.0, interval_for(command.group_world_size))
            self.board.update(generation=command.generation, phase=RunPhase.RUNNING, exits=())
            self._fleet.note("running", command.generation)
        elif isinstance(command, Abort) and self.board.now.phase is not RunPhase.STOPPED:
            self.board.update(generation=command.generation, phase=RunPhase.STOPPED)
            self._fleet.note("aborting", command.generation)

    async def _beat(self) -> Heartbeat:
        """The next heartbeat when it is due."""
        while not await self._due():
            pass
        assert self._start is not None
        self._next = max(self._next + self._interval, time.monotonic())
        self._step += 1
        self.has_beaten.set()
        ranks = tuple(self._rank(self._start, n) for n in range(self._slots))
        return Heartbeat(self.node_id, self.board.now.generation, self._interval, ranks)

    @property
    def _interval(self) -> float:
        return interval_for(self._start.group_world_size if self._start else 1)

    @property
    def _beating(self) -> bool:
        return not self.hushed.is_set() and self.board.now.phase is RunPhase.RUNNING

    async def _due(self) -> bool:
        """Wait until a heartbeat is due; False where the ranks have been stopped by then, as with a real agent's."""
        version = -1
        while not self._beating:
            version, _ = await self.board.newer_than(version)
        await asyncio.sleep(max(0.0, self._next - time.monotonic()))
        return self._beating and time.monotonic() >= self._next

    def _rank(self, start: Start, local_rank: int) -> RankProgress:
        groups = tuple(
            GroupProgress(name, start.world_size, self._step, self._step, "all_reduce float32[1048576]")
            for name in _GROUPS
        )
        return RankProgress(
            rank=start.rank0 + local_rank,
            local_rank=local_rank,
            pid=1000 + local_rank,
            attached=True,
            cpu_seconds=float(self._step),
            step=self._step,
            where="train.py:31 in step",
            own_seconds=0.9 * self._step,
            waited_seconds=0.1 * self._step,
            groups=groups,
        )


class Fleet:
    """The nodes of this process, on one lease."""

    def __init__(self, job: str, total: int, count: int, slots: int) -> None:
        self.job = job
        spread = STREAM_SPREAD * total
        self._done: dict[tuple[str, int], list[float]] = defaultdict(list)
        self.nodes = [Simulated(self, f"{os.getpid():07d}-{i:05d}", slots, spread) for i in range(count)]

    def note(self, what: str, generation: int) -> None:
        done = self._done[what, generation]
        done.append(time.monotonic())
        if len(done) == len(self.nodes):
            say({what: generation, "at": done if what == "aborting" else max(done)})


def say(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


async def serve(endpoint: str, job: str, total: int, count: int, slots: int) -> None:
    store = EtcdStore([endpoint], deadline=60.0, call_timeout=20.0)
    lease = await Lease.open(store, 600, clock=SystemClock(), on_deadline=lambda _: None)
    policy = Policy(total, total, RESTARTS)
    spec = Spec(total, total, RESTARTS, {"default": {"nproc": slots, "program": "x"}}, policy=policy_values(policy))
    fleet, keys = Fleet(job, total, count, slots), JobKeys(job)
    election = Election(store, keys, lease.id)
    tasks = [asyncio.create_task(lease.keep())]
    for begin in range(0, count, 64):
        some = fleet.nodes[begin : begin + 64]
        records = [Node(n.node_id, n.node_id, "127.0.0.1", slots, 1, "127.0.0.1:1") for n in some]
        await asyncio.gather(*(join(store, keys, spec, record, lease.id) for record in records))
        tasks += [asyncio.create_task(node.follower.follow(election)) for node in some]
        # A machine that holds all of them has no room for a thousand connections that open at once. In a crowd the
        # first word may be the one to start.
        waits = [asyncio.ensure_future(node.heard.wait()) for node in some]
        await beside(tasks, asyncio.ensure_future(asyncio.wait(waits, timeout=OPENING)))
        await cancelled(*waits)
    await beside(tasks, asyncio.create_task(obey(fleet)))
    await cancelled(*tasks)
    await lease.close()
    await store.close()


async def obey(fleet: Fleet) -> None:
    """Do what stdin says until it says that it is the end."""
    async for word in lines():
        if word == "fail":
            say({"failed": time.monotonic()})
            fleet.nodes[0].fail()
        elif word == "hush":
            await fleet.nodes[-1].has_beaten.wait()
            fleet.nodes[-1].hushed.set()
            say({"hushed": time.time()})
        elif word == "speak":
            fleet.nodes[-1].hushed.clear()
            fleet.nodes[-1].board.update(store_port=random.randrange(1, 60000))
        elif word == "end":
            return


async def lines() -> AsyncIterator[str]:
    """What comes on stdin; unlike in a thread, waiting for it keeps nobody from ending."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line.decode().strip()


if __name__ == "__main__":
    # A process here stands for hundreds of agents: its heap is that large, and collecting it is no agent's cost; and
    # each agent has a connection of its own.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    client.OPTIONS.append(("grpc.use_local_subchannel_pool", 1))
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    _, endpoint_, job_, *sizes = sys.argv
    asyncio.run(serve(endpoint_, job_, *map(int, sizes)))
