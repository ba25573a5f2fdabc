"""The rendezvous of many agents without workers on one real etcd, beside torch's c10d rendezvous.

Measured is the time from the first join to the last plan received. The simulated agents of elaunch are its own
membership, leader and control stream, in a few processes; each has a key, a lease and a stream of its own. Those of
torch are a process each, since its rendezvous blocks its thread; with one size they cannot finish, larger ones are
not tried.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import report
from processes import ROOT, NotInTimeError, Processes, free_port, listening, wait_for
from report import Bar, Samples

from elaunch.rendezvous.binary import find_etcd

SECONDS = 120.0
PEER_SECONDS = 60.0
SIMULATORS = 4  # processes that share the simulated agents


@contextmanager
def etcd() -> Iterator[tuple[str, Processes]]:
    """A new etcd of one member: its endpoint, and the processes that it is one of."""
    with tempfile.TemporaryDirectory(prefix="elaunch-bench-", ignore_cleanup_errors=True) as folder:
        run = Processes(Path(folder) / "run")
        port, client = free_port(), free_port()
        peer_url, url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{client}"
        try:
            run.start(
                [
                    *(str(find_etcd().path), "--name", "bench", "--data-dir", str(run.folder / "data")),
                    *("--listen-client-urls", url, "--advertise-client-urls", url),
                    *("--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url),
                    *("--initial-cluster", f"bench={peer_url}"),
                ]
            )
            wait_for("etcd", lambda: listening(client), 30.0)
            yield f"127.0.0.1:{client}", run
        finally:
            run.end()


class Simulator:
    """A process of agents that says when it is ready, joins them when told to, and says how long they took."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, arguments: Sequence[str]) -> Simulator:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=1 << 20,
        )
        return cls(process)

    async def line(self) -> str:
        assert self.process.stdout
        text = (await self.process.stdout.readline()).decode()
        if not text:
            raise NotInTimeError("a process of simulated agents ended early")
        return text

    def tell(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"\n")

    async def end(self, seconds: float) -> None:
        """Wait for its end, and kill it where that does not come."""
        try:
            await asyncio.wait_for(self.process.wait(), seconds)
        except asyncio.TimeoutError:
            self.process.kill()
            await self.process.wait()


async def meet(simulators: Sequence[Simulator], count: int, seconds: float) -> float:
    """Seconds from the first join to the last plan, of all ``count`` agents."""
    try:
        await asyncio.wait_for(asyncio.gather(*(one.line() for one in simulators)), SECONDS)
        for one in simulators:
            one.tell()
        told = await asyncio.wait_for(asyncio.gather(*(one.line() for one in simulators)), seconds)
    except asyncio.TimeoutError:
        raise NotInTimeError(f"{count} agents: not in {seconds:.0f} s") from None
    results = [json.loads(text) for text in told]
    if sorted(rank for result in results for rank in result["ranks"]) != list(range(count)):
        raise NotInTimeError(f"{count} agents: their ranks are not 0 to {count - 1}")
    for one in simulators:
        one.tell()
    return float(max(r["end"] for r in results) - min(r["begin"] for r in results))


async def simulate(n: int, endpoint: str) -> float:
    """``n`` agents of elaunch on the etcd at ``endpoint``."""
    shares = [n // SIMULATORS] * SIMULATORS
    job = f"bench-{uuid.uuid4().hex[:8]}"
    module = ["-m", "bench.simulated", endpoint, job, str(n)]
    simulators = [await Simulator.start([*module, str(share)]) for share in shares]
    try:
        return await meet(simulators, n, SECONDS)
    finally:
        await asyncio.gather(*(one.end(20.0) for one in simulators))


async def c10d(n: int) -> float:
    """``n`` agents of torch."""
    simulator = await Simulator.start([str(ROOT / "bench/c10d_agents.py"), str(n)])
    try:
        return await meet([simulator], n, PEER_SECONDS)
    finally:
        await simulator.end(1.0)


async def measure(sizes: Sequence[int], repetitions: int) -> tuple[Samples, Counter[str]]:
    samples: Samples = {}
    failed: Counter[str] = Counter()
    beaten: set[int] = set()

    def note(name: str, seconds: float) -> None:
        samples.setdefault(name, []).append(seconds)
        print(f"{name:52} {seconds:8.3f}", flush=True)

    for _ in range(repetitions):
        for n in sizes:
            try:
                with etcd() as (endpoint, _run):
                    note(f"elaunch, {n} agents", await simulate(n, endpoint))
            except NotInTimeError as error:
                failed[f"elaunch, {n} agents"] += 1
                print(error, flush=True)
            if beaten and n >= min(beaten):
                continue
            try:
                note(f"c10d, {n} agents", await c10d(n))
            except NotInTimeError as error:
                failed[f"c10d, {n} agents"] += 1
                beaten.add(n)
                print(error, flush=True)
    return samples, failed


def growth(samples: Samples, sizes: Sequence[int]) -> float | None:
    """How much more time an agent takes in the largest job than in the smallest: 1 is linear, less is better."""
    medians = {n: report.median(samples, f"elaunch, {n} agents") for n in sizes}
    low, high = medians[sizes[0]], medians[sizes[-1]]
    return (high / sizes[-1]) / (low / sizes[0]) if low is not None and high is not None else None


def bars(samples: Samples, sizes: Sequence[int]) -> list[Bar]:
    largest = sizes[-1]
    return [
        Bar(f"{largest} agents, seconds", report.median(samples, f"elaunch, {largest} agents"), 2.0),
        Bar(f"time per agent, {largest} agents / {sizes[0]} agents", growth(samples, sizes), 1.0),
    ]


def main() -> int:
    options = report.options(__doc__.splitlines()[0])
    seen = report.machine()
    print("  ".join(f"{name} {value}" for name, value in seen.items()), flush=True)
    sizes, repetitions = ([16, 64], 1) if options.quick else ([16, 64, 256, 1024], 3)
    began = time.monotonic()
    samples, failed = asyncio.run(measure(sizes, repetitions))
    print(f"\n{time.monotonic() - began:.0f} s")
    return report.finish(options.json, seen, samples, failed, bars(samples, sizes))


if __name__ == "__main__":
    sys.exit(main())
