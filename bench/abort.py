"""From a rank's death to the decision, on one node: elaunch beside torchrun, alternating in one run.

The decision is the first line that the launcher prints of it: ``job_aborting`` of elaunch's leader, torchrun's closing
of the other ranks. torchrun looks at its ranks every 0.1 s (``--monitor-interval``), elaunch is told by the kernel.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import report
from report import Bar, Samples

ROOT = Path(__file__).resolve().parents[1]
WORLD = 4
SECONDS = 60.0
LAUNCHERS = {"elaunch": "elaunch", "torchrun": "torch.distributed.run"}
DECIDED = {"elaunch": "job_aborting", "torchrun": "closing signal"}
Line = tuple[float, str]


class NotSeenError(Exception):
    """A line did not come."""


class Launcher:
    """One launcher with its ranks, and its lines with the times at which they came."""

    def __init__(self, name: str) -> None:
        self._decided = DECIDED[name]
        options = ["--log-level=debug"] if name == "elaunch" else []
        options += ["--standalone", f"--nproc-per-node={WORLD}", "--max-restarts=1000"]
        command = [sys.executable, "-u", "-m", LAUNCHERS[name], *options, str(ROOT / "bench/stepping.py")]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.Queue[Line] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put((time.monotonic(), line))

    def _next(self, wanted: str) -> Line:
        end = time.monotonic() + SECONDS
        while (left := end - time.monotonic()) > 0:
            try:
                seen = self._lines.get(timeout=left)
            except queue.Empty:
                break
            if wanted in seen[1]:
                return seen
        raise NotSeenError(f"no line with {wanted!r} in {SECONDS:.0f} s")

    def up(self) -> list[int]:
        """The pids of all ranks of the next generation, once they run."""
        return [int(self._next("stepping-rank ")[1].split()[-1]) for _ in range(WORLD)]

    def decision(self, pid: int) -> float:
        """Kill a rank; seconds until the launcher says what follows."""
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return self._next(self._decided)[0] - killed

    def end(self) -> None:
        """SIGKILL all of it."""
        family = [psutil.Process(self._process.pid)]
        family += family[0].children(recursive=True)
        for member in family:
            if member.is_running():
                member.kill()
        self._process.wait(10)


@contextmanager
def launched(name: str) -> Iterator[Launcher]:
    made = Launcher(name)
    try:
        yield made
    finally:
        made.end()


def main() -> int:
    asked = report.options(__doc__ or "")
    rounds, kills = (1, 10) if asked.quick else (3, 20)
    seen = report.machine()
    samples: Samples = {}
    failed: Counter[str] = Counter()
    for _ in range(rounds):
        for name in LAUNCHERS:
            what = f"rank dead to decision, {WORLD} ranks, {name}"
            try:
                with launched(name) as running:
                    for _ in range(kills):
                        pids = running.up()
                        samples.setdefault(what, []).append(running.decision(pids[1]))
            except NotSeenError as error:
                print(error, file=sys.stderr)
                failed[what] += 1
    ours, peer = (f"rank dead to decision, {WORLD} ranks, {name}" for name in LAUNCHERS)
    bars = [Bar("rank dead to decision, median seconds", report.median(samples, ours), 0.050)]
    beside = report.ratio(samples, ours, peer)
    print(f"\nbeside torchrun: {beside:.3f}" if beside is not None else "\nno figure beside torchrun")
    return report.finish(asked.json, seen, samples, failed, bars)


if __name__ == "__main__":
    sys.exit(main())
