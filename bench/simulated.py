"""Simulated agents: the real membership, leader and control stream, without ranks.

``python -m bench.simulated ENDPOINT JOB TOTAL COUNT`` joins COUNT agents of a job of TOTAL from one process, and prints
one JSON line: the monotonic times of the first join and of the last plan received, and the ranks that were given.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time

import structlog

from elaunch.agent.membership import Membership, Site, new_node_id
from elaunch.agent.status import StatusBoard
from elaunch.clock import SystemClock
from elaunch.controller.commands import Command, Start
from elaunch.controller.node_status import RunPhase
from elaunch.controller.policy import Policy
from elaunch.controller.server import ControlServer
from elaunch.progress import Heartbeat
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Node, Spec

SLOTS = 8
SECONDS = 120.0  # after which a run counts as failed


async def _nothing(_: float | None) -> None:
    return None


async def _no_heartbeat() -> Heartbeat:
    """There are no ranks whose progress could be told."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nothing ends this wait")


class SimulatedAgent:
    """Joins, takes what it is told to start, and says that it runs."""

    def __init__(self, store: EtcdStore, keys: JobKeys, total: int, server: ControlServer, control: str) -> None:
        self.started: asyncio.Future[tuple[float, Start]] = asyncio.get_running_loop().create_future()
        self._board = StatusBoard()
        node = Node(new_node_id(), f"host{os.getpid()}", "127.0.0.1", SLOTS, 1, control)
        self._board.update(node_id=node.node_id, store_port=1)
        site = Site(
            store=store,
            keys=keys,
            spec=Spec(total, total, 0, {"default": {"nproc": SLOTS, "program": "simulated"}}),
            policy=Policy(total, total, 0),
            clock=SystemClock(),
            status=self._board,
            server=server,
            lease_ttl=60,
            close_timeout=5.0,
            on_deadline=lambda deadline: None,
            on_lease=lambda lease: None,
            on_command=self._take,
            stop_ranks=_nothing,
            next_heartbeat=_no_heartbeat,
        )
        self.task = asyncio.create_task(Membership(site, node).run())

    def _take(self, command: Command) -> None:
        if isinstance(command, Start) and not self.started.done():
            self.started.set_result((time.monotonic(), command))
            self._board.update(generation=command.generation, phase=RunPhase.RUNNING)


async def join(endpoint: str, job: str, total: int, count: int) -> dict[str, object]:
    """``count`` agents of a job of ``total`` join from this process; when the first did, when the last had its plan."""
    store = EtcdStore([endpoint], deadline=60.0, call_timeout=20.0)
    server = ControlServer(nodes=total)
    control = f"127.0.0.1:{await server.start('127.0.0.1')}"
    await store.check()
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    begin = time.monotonic()
    agents = [SimulatedAgent(store, JobKeys(job), total, server, control) for _ in range(count)]
    starts = await asyncio.wait_for(asyncio.gather(*(agent.started for agent in agents)), SECONDS)
    end = max(at for at, _ in starts)
    result = {"begin": begin, "end": end, "ranks": sorted(start.group_rank for _, start in starts)}
    print(json.dumps(result), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    for agent in agents:
        agent.task.cancel()
    await asyncio.gather(*(agent.task for agent in agents), return_exceptions=True)
    await server.stop()
    await store.close()
    return result


if __name__ == "__main__":
    # A process here stands for hundreds of agents: its heap is that large, and collecting it is no agent's cost.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(join(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
