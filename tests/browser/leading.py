"""The leader of a job of many ranks, and the page that it serves: a process of its own.

Its nodes are values, its store is in memory; what tells, decides and serves is what tells, decides and serves a real
job. ``python -m tests.browser.leading NODES`` prints the page's address, and takes ``STEP BEHIND`` on each line of its
standard input, until that ends: all ranks are at this step, but for rank 0, which is behind.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import structlog

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

ROOT = Path(__file__).resolve().parents[2]
JOB = "many"
SLOTS = 8
_SECONDS = 200.0


class Leading:
    """The process, from the first step of all ranks until ``stop``; ``url`` is its page."""

    def __init__(self, nodes: int) -> None:
        argv = [sys.executable, "-m", "tests.browser.leading", str(nodes)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(argv, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload]
        self.url = f"{self._process.stdout.readline().strip()}/"

    def beat(self, step: int, behind: int = 0) -> None:
        """All ranks are at this step, but for rank 0, which is ``behind``."""
        self._process.stdin.write(f"{step} {behind}\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        with self._process:
            self._process.stdin.close()
            self._process.wait(_SECONDS)


async def lead(count: int) -> None:
    """Lead a job of so many nodes, as told."""
    store, clock, keys = MemoryStore(), SystemClock(), JobKeys(JOB)
    names = [f"n{node:04d}" for node in range(count)]
    control = ControlServer(Security())
    record = Leader(names[0], "127.0.0.1:1", "t" * 32)
    leadership = Leadership(keys.leader, await store.put(keys.leader, encode(record)))
    await store.put(keys.spec, encode(Spec(count, count, 3, {"default": {}})))
    for name in names:
        node = Node(name, f"gpu-{name[1:]}", "127.0.0.1", SLOTS, 1, "127.0.0.1:1", topology="abc")
        await store.put(keys.node(name), encode(node))
    term = Term(store, keys, leadership, Policy(count, count, 3), clock, names[0], left=lambda: 1.0)
    control.serve(JOB, term, record.token)
    working = asyncio.create_task(term.run())
    for name in names:
        term.attach(name)
        term.receive(NodeStatus(name, store_port=1))
    await until(lambda: term.job.generation == 1 and not term.job.uncommitted)
    for name in names:
        term.receive(NodeStatus(name, 1, RunPhase.RUNNING, store_port=1))
    await until(lambda: term.job.phase is Phase.RUNNING)
    beat(term, 1, 0)
    pages = WebServer(WebOptions("127.0.0.1", 0), store, control, clock)
    print(await pages.start(), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        beat(term, *map(int, line.split()))
    await pages.stop()
    await control.stop()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


def beat(term: Term, step: int, behind: int) -> None:
    """A heartbeat of each node."""
    for member in term.job.plan.members if term.job.plan is not None else ():
        numbers = range(member.rank0, member.rank0 + SLOTS)
        ranks = tuple(rank(number, step - behind if number == 0 else step) for number in numbers)
        term.hear(Heartbeat(member.node_id, 1, 30.0, ranks))


def rank(number: int, step: int) -> RankProgress:
    local = number % SLOTS
    return RankProgress(number, local, 100 + local, attached=True, step=step, where="train.py:31 in step")


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(lead(int(sys.argv[1])))
