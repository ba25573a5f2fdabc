"""elaunch beside torchrun, alternating in one run: start, recovery of a rank, recovery of an agent.

(a) start to the first all-reduce of all ranks; (b) SIGKILL of a rank to the first all-reduce of the next
generation, beside a bare fork from a warm process; (c) SIGKILL of one agent of two to the same. torchrun
leaves the ranks of a SIGKILLed agent running, and then never recovers: there its ranks are killed in the
same moment. Under elaunch only the agent is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import report
from processes import ROOT, NotInTimeError, Processes, free_port, listening, wait_for
from report import Bar, Samples

SECONDS = 120.0  # torchrun needs up to 50 s to notice a lost agent
RUNNING_SECONDS = 3.0  # from the first all-reduce to the loss: a job in its loop, no longer starting
PROGRAM = str(ROOT / "bench/first_allreduce.py")
LAUNCHERS = {
    "elaunch": [sys.executable, "-m", "elaunch"],
    "torchrun": [sys.executable, "-m", "torch.distributed.run"],
}
First = dict[str, float]


@contextmanager
def fresh() -> Iterator[Processes]:
    with tempfile.TemporaryDirectory(prefix="elaunch-bench-", ignore_cleanup_errors=True) as folder:
        made = Processes(Path(folder) / "run")
        try:
            yield made
        except NotInTimeError:
            print(made.log.read_text(errors="replace")[-3000:] if made.log.exists() else "", file=sys.stderr)
            raise
        finally:
            made.end()


def firsts(run: Processes, world: int, after: float) -> list[First] | None:
    """What the ranks of a complete world of this size wrote later than ``after``."""
    found = [json.loads(path.read_text()) for path in run.out.glob("*.json")]
    found = [first for first in found if first["time"] > after and first["world"] == world]
    return found if len({first["rank"] for first in found}) == world else None


def started(run: Processes, world: int, since: float) -> tuple[float, list[First]]:
    """Seconds from ``since`` until all ranks were through their first all-reduce, and what they wrote."""
    found = wait_for(f"first all-reduce of {world} ranks", lambda: firsts(run, world, since), SECONDS)
    return max(first["time"] for first in found) - since, found


def one_node(launcher: str, world: int) -> tuple[float, float]:
    """(a) and (b)."""
    with fresh() as run:
        began = time.monotonic()
        run.start([*LAUNCHERS[launcher], "--standalone", f"--nproc-per-node={world}", "--max-restarts=3", PROGRAM])
        start, ranks = started(run, world, began)
        time.sleep(RUNNING_SECONDS)
        victim = max(ranks, key=lambda first: first["rank"])
        killed = time.monotonic()
        os.kill(int(victim["pid"]), signal.SIGKILL)
        recovery, _ = started(run, world, killed)
        return start, recovery


def two_nodes(launcher: str, world: int) -> float:
    """(c): the agent that does not serve the rendezvous is killed."""
    with fresh() as run:
        port, began = free_port(), time.monotonic()
        meet = ["--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=bench"]
        shape = [f"--nproc-per-node={world // 2}", "--max-restarts=3", "--rdzv-conf=last_call_timeout=1"]
        command = [*LAUNCHERS[launcher], *meet, *shape, PROGRAM]
        run.start(command)
        wait_for(f"a rendezvous on port {port}", lambda: listening(port), SECONDS)
        second = run.start(command)
        started(run, world, began)
        time.sleep(RUNNING_SECONDS)
        doomed = [psutil.Process(second.pid)]
        if launcher == "torchrun":
            doomed += psutil.Process(second.pid).children(recursive=True)
        killed = time.monotonic()
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return started(run, world // 2, killed)[0]


class Bare:
    """A warm process that forks ranks on demand."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "bench/bare.py")],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdout
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("bench/bare.py did not start")

    def measure(self, world: int) -> float:
        assert self.process.stdin
        assert self.process.stdout
        with fresh() as run:
            self.process.stdin.write(f"{world} {free_port()} {run.out}\n")
            self.process.stdin.flush()
            began = float(self.process.stdout.readline())
            seconds, _ = started(run, world, began)
            (run.out / "stop").touch()
            wait_for("the end of bare ranks", lambda: not psutil.Process(self.process.pid).children(), SECONDS)
            return seconds

    def end(self) -> None:
        with suppress(psutil.NoSuchProcess):
            for rank in psutil.Process(self.process.pid).children():
                rank.kill()
        self.process.kill()
        self.process.wait(10)


def measure(sizes: list[int], repetitions: int, parts: str) -> tuple[Samples, Counter[str]]:
    samples: Samples = {}
    failed: Counter[str] = Counter()

    def note(name: str, seconds: float) -> None:
        samples.setdefault(name, []).append(seconds)
        print(f"{name:52} {seconds:8.3f}", flush=True)

    bare = Bare()
    try:
        for repetition in range(repetitions):
            for world in sizes:
                order = list(LAUNCHERS) if repetition % 2 == 0 else list(reversed(LAUNCHERS))
                for launcher in order if {"a", "b"} & set(parts) else ():
                    with counting(f"(a, b) {launcher}, {world} ranks", failed):
                        start, recovery = one_node(launcher, world)
                        note(f"(a) start, {launcher}, {world} ranks", start)
                        note(f"(b) rank lost, {launcher}, {world} ranks", recovery)
                    note(f"(b) bare fork, {world} ranks", bare.measure(world))
                for launcher in order if "c" in parts else ():
                    with counting(f"(c) {launcher}, {world} ranks", failed):
                        note(f"(c) agent lost, {launcher}, {world} ranks", two_nodes(launcher, world))
    finally:
        bare.end()
    return samples, failed


@contextmanager
def counting(name: str, failed: Counter[str]) -> Iterator[None]:
    """An attempt that does not come to its end in time is counted, and the run goes on."""
    try:
        yield
    except NotInTimeError as error:
        failed[name] += 1
        print(f"{name}: {error}", flush=True)


def bars(samples: Samples, failed: Counter[str], sizes: list[int], parts: str) -> list[Bar]:
    found = []
    for n in sizes:
        lost, bare = f"(b) rank lost, elaunch, {n} ranks", f"(b) bare fork, {n} ranks"
        start, agent = f"(a) start, elaunch, {n} ranks", f"(c) agent lost, elaunch, {n} ranks"
        if n == 4:
            found.append(Bar(f"(a) start / torchrun's, {n} ranks", peer(samples, start), 0.5))
        found.append(Bar(f"(b) rank lost / torchrun's, {n} ranks", peer(samples, lost), 0.10))
        found.append(Bar(f"(b) rank lost / bare fork, {n} ranks", report.ratio(samples, lost, bare), 2.0))
        found.append(Bar(f"(c) agent lost / torchrun's, {n} ranks", peer(samples, agent), 0.08))
    ours = sum(count for name, count in failed.items() if "elaunch" in name)
    found = [bar for bar in found if bar.name[1] in parts]
    return [*found, Bar("recoveries that elaunch did not finish", float(ours), 0.0)]


def peer(samples: Samples, name: str) -> float | None:
    return report.ratio(samples, name, name.replace("elaunch", "torchrun"))


def main() -> int:
    parser = report.parser(__doc__.splitlines()[0])
    parser.add_argument("--only", default="a,b,c", metavar="PARTS", help="of a, b and c, with commas between")
    options = parser.parse_args()
    seen = report.machine()
    print("  ".join(f"{name} {value}" for name, value in seen.items()), flush=True)
    sizes, repetitions = ([4], 2) if options.quick else ([2, 4, 8], 5)
    samples, failed = measure(sizes, repetitions, options.only)
    return report.finish(options.json, seen, samples, failed, bars(samples, failed, sizes, options.only))


if __name__ == "__main__":
    sys.exit(main())
