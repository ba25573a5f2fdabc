"""One dedicated controller that leads a job of 1,000 and of 4,000 nodes of 8 ranks, over real streams.

The agents are simulated (bench/fleet.py), a few processes of them; controller and etcd are the real ones, in processes
of their own. Measured is the controller's share of one core and its memory while the job runs; the time from a node's
word that a rank died until every node has the command to abort in hand, the 99th percentile over nodes and
repetitions; the time from a silent node's last heartbeat to the verdict, beyond the silence that it waits for; and the
writes that etcd sees while the job runs, with 8 ranks on a node and with 1.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import report
from processes import ROOT, NotInTimeError
from report import Bar, Samples

from elaunch.controller.liveness import LEAST_SILENCE, MISSED, interval_for
from elaunch.rendezvous.etcd import EtcdStore
from rendezvous import etcd

FLEETS = 4  # processes that share the simulated agents
PATIENCE = 180.0  # seconds for anything
SLOTS = 8


@dataclass
class Fleet:
    """One process of simulated agents."""

    process: asyncio.subprocess.Process
    said: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, word: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{word}\n".encode())

    async def hear(self, what: str) -> dict[str, Any]:
        """The next line that tells ``what``."""
        assert self.process.stdout
        while line := await self.process.stdout.readline():
            told: dict[str, Any] = json.loads(line)
            if what in told:
                return told
        raise NotInTimeError("a process of simulated agents ended early")


@dataclass
class World:
    """A job that runs: its controller, its agents, its etcd."""

    nodes: int
    controller: psutil.Process
    log: Path
    fleets: list[Fleet]
    store: EtcdStore

    async def heard(self, what: str) -> list[dict[str, Any]]:
        try:
            return await asyncio.wait_for(asyncio.gather(*(fleet.hear(what) for fleet in self.fleets)), PATIENCE)
        except asyncio.TimeoutError:
            raise NotInTimeError(f"{self.nodes} nodes: not all {what} in {PATIENCE:.0f} s") from None

    def cpu(self) -> float:
        times = self.controller.cpu_times()
        return times.user + times.system


@asynccontextmanager
async def world(nodes: int, slots: int, *options: str) -> AsyncIterator[World]:
    """A job of ``nodes`` that has just begun to run; ``options`` are the controller's."""
    with etcd() as (endpoint, run):
        log = run.folder / "controller.log"
        process = start_controller(endpoint, log, *options)
        store = EtcdStore([endpoint])
        fleets: list[Fleet] = []
        try:
            job = f"bench-{uuid.uuid4().hex[:8]}"
            for i in range(FLEETS):
                count = nodes // FLEETS + (i < nodes % FLEETS)
                fleets.append(await start_fleet(run.log, [endpoint, job, str(nodes), str(count), str(slots)]))
            made = World(nodes, psutil.Process(process.pid), log, fleets, store)
            await made.heard("running")
            yield made
        finally:
            for fleet in fleets:
                if fleet.process.returncode is None:
                    fleet.process.kill()
                await fleet.process.wait()
            process.kill()
            process.wait()
            await store.close()


def start_controller(endpoint: str, log: Path, *options: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "ELAUNCH_LOG_FORMAT": "json", "PYTHONPATH": str(ROOT)}
    # Four thousand agents at once on the machine that it runs on itself: it may be kept from its lease for a while.
    argv = [sys.executable, "-m", "elaunch", "controller", f"--etcd={endpoint}", "--lease-ttl=60", *options]
    with log.open("wb") as file:
        return subprocess.Popen(argv, env=env, stdout=file, stderr=file)


async def start_fleet(log: Path, arguments: Sequence[str]) -> Fleet:
    with log.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.fleet", *arguments),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=file,
            limit=1 << 24,
        )
    return Fleet(process)


async def steady(made: World, seconds: float) -> tuple[float, float]:
    """The controller's share of one core, and the writes that etcd saw in each second."""
    await asyncio.sleep(interval_for(made.nodes) + 1.0)  # the heartbeats of all have begun
    before, cpu, began = (await made.store.list("/none")).revision, made.cpu(), time.monotonic()
    await asyncio.sleep(seconds)
    elapsed = time.monotonic() - began
    return (made.cpu() - cpu) / elapsed, ((await made.store.list("/none")).revision - before) / elapsed


async def abort(made: World) -> list[float]:
    """For each node the seconds from the word of a rank's death to the command in its hands."""
    made.fleets[0].tell("fail")
    failed = (await made.fleets[0].hear("failed"))["failed"]
    aborting = await made.heard("aborting")
    await made.heard("running")
    return [at - failed for told in aborting for at in told["at"]]


async def silence(made: World) -> float:
    """Seconds from the last heartbeat of a node to the verdict that it is silent."""
    made.fleets[-1].tell("hush")
    hushed = (await made.fleets[-1].hear("hushed"))["hushed"]
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for line in made.log.read_text().splitlines():
            if '"node_silent"' in line and (at := _time_of(line)) > hushed:
                made.fleets[-1].tell("speak")
                return at - hushed
        await asyncio.sleep(0.05)
    raise NotInTimeError("no verdict on a silent node")


def _time_of(line: str) -> float:
    return datetime.fromisoformat(json.loads(line)["timestamp"].replace("Z", "+00:00")).timestamp()


async def measure(sizes: Sequence[int], seconds: float, repetitions: int) -> tuple[Samples, Counter[str]]:
    samples: Samples = {}
    failed: Counter[str] = Counter()

    def note(name: str, value: float) -> None:
        samples.setdefault(name, []).append(value)
        print(f"{name:52} {value:8.3f}", flush=True)

    for nodes in sizes:
        try:
            async with world(nodes, SLOTS) as made:
                share, writes = await steady(made, seconds)
                note(f"{nodes} nodes, share of one core", share)
                note(f"{nodes} nodes, writes to etcd a second", writes)
                note(f"{nodes} nodes, MiB", made.controller.memory_info().rss / 2**20)
                together: list[float] = []
                for _ in range(repetitions):
                    times = sorted(await abort(made))
                    together += times
                    note(f"{nodes} nodes, abort, median node", times[len(times) // 2])
                note(f"{nodes} nodes, abort, 99 % of nodes", sorted(together)[int(len(together) * 0.99)])
                expected = max(LEAST_SILENCE, MISSED * interval_for(nodes))
                note(f"{nodes} nodes, silence, beyond the {expected:.0f} s", await silence(made) - expected)
        except NotInTimeError as error:
            failed[f"{nodes} nodes"] += 1
            print(error, flush=True)
    try:
        async with world(sizes[0], 1) as made:
            note(f"{sizes[0]} nodes of 1 rank, writes to etcd a second", (await steady(made, seconds))[1])
    except NotInTimeError as error:
        failed[f"{sizes[0]} nodes of 1 rank"] += 1
        print(error, flush=True)
    return samples, failed


def bars(samples: Samples, sizes: Sequence[int]) -> list[Bar]:
    small, large = sizes[0], sizes[-1]
    one = report.median(samples, f"{small} nodes of 1 rank, writes to etcd a second")
    eight = report.median(samples, f"{small} nodes, writes to etcd a second")
    more = None if one is None or eight is None else eight - one
    aborted = report.median(samples, f"{small} nodes, abort, 99 % of nodes")
    late = [report.median(samples, name) for name in samples if f"{small} nodes, silence" in name]
    return [
        Bar(f"{large} nodes, share of one core", report.median(samples, f"{large} nodes, share of one core"), 1.0),
        Bar(f"{small} nodes, abort, 99 % of nodes, seconds", aborted, 0.5),
        Bar(f"{small} nodes, more writes a second with 8 ranks", more, 0.5),
        Bar(f"{small} nodes, verdict on silence, seconds late", late[0] if late else None, 2.0),
    ]


def main() -> int:
    parser = report.parser(__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", metavar="N", help="other sizes (1000 4000)")
    options = parser.parse_args()
    seen = report.machine()
    print("  ".join(f"{name} {value}" for name, value in seen.items()), flush=True)
    sizes, seconds, repetitions = ([100, 200], 5.0, 3) if options.quick else ([1000, 4000], 20.0, 10)
    sizes = options.nodes or sizes
    began = time.monotonic()
    samples, failed = asyncio.run(measure(sizes, seconds, repetitions))
    print(f"\n{time.monotonic() - began:.0f} s")
    return report.finish(options.json, seen, samples, failed, bars(samples, sizes))


if __name__ == "__main__":
    sys.exit(main())
