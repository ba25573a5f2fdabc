"""All invariants, watched from outside: the ranks' files, the directory of checkpoints, /proc, and etcd."""

from __future__ import annotations

import queue
import threading
import time
from pathlib import Path

from elaunch.lab import Watched

from . import proc
from .broken import BrokenError
from .cluster import PROGRAM, Cluster
from .commits import Commit, Commits, Ledger, Look
from .course import FAILURES, Course
from .directory import Directory
from .generations import Generations
from .lines import Line, Tail
from .reference import Reference
from .samples import Curve

SIZE = 600  # samples of an epoch, as in program.py, which imports torch
_FIRST = 120.0  # seconds until the first step
_STILL = 60.0  # seconds without a new step after the last fault was over
_EVER = 150.0  # the same, whatever happens
_LOOK = 0.3  # seconds between two looks at etcd


class Etcd:
    """What etcd says, look by look, in a thread: it may be what fails."""

    def __init__(self, job: Watched) -> None:
        self._job = job
        self._found: queue.Queue[Look] = queue.Queue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="soak-etcd", daemon=True)
        self._thread.start()

    def more(self) -> list[Look]:
        """What is new. Raises RuntimeError where nobody looks any more."""
        if not self._thread.is_alive():
            raise RuntimeError("the look at etcd broke off")
        found = []
        while not self._found.empty():
            found.append(self._found.get())
        return found

    def close(self) -> None:
        self._stop.set()
        self._thread.join(30.0)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK) and not self._job.closed:
            try:
                seen = self._job.look()
            except FAILURES:
                continue
            last = seen.checkpoint
            record = Commit(Path(last.path).name, last.step, last.generation) if last else Commit("", -1, 0)
            self._found.put(Look(seen.state.generation if seen.state else 0, record))


class Watcher:
    """``tick`` looks at everything, and raises BrokenError. To be closed."""

    def __init__(self, cluster: Cluster, course: Course, job: Watched) -> None:
        self.generations, self.commits, self.ledger = Generations(), Commits(), Ledger()
        self.curve = Curve(SIZE)
        self.steps: list[Line] = []
        self.began = time.monotonic()
        self.last_rise = self.highest = 0.0
        self.first_step = 0.0
        self._cluster, self._course = cluster, course
        self._tail = Tail(cluster.folder / "lines")
        self._directory = Directory(cluster.folder / "checkpoints")
        self._reference = Reference(str(PROGRAM))
        self._etcd = Etcd(job)
        self._ranks: dict[tuple[int, int], int] = {}
        self._scanned = 0.0
        self.worlds: dict[int, int] = {}

    def tick(self) -> None:
        at = time.monotonic()  # what is looked at may hold us up: that is no stillness of the ranks
        scan = self._directory.scan()
        new = self.commits.scan(scan, self.generations.newest(self._scanned))
        self._scanned = scan.at
        self._see_ranks()
        self._hear(self._tail.more())
        for commit in new:
            self.curve.commit(commit)
        for look in self._etcd.more():
            self.ledger.look(look, self.commits)
        self._course.check()
        if not self._cluster.ending:
            self._cluster.tend()
            self._check_progress(at)

    def close(self) -> None:
        self._etcd.close()
        self._reference.close()

    @property
    def world(self) -> int:
        """Of the newest generation that has begun."""
        return self.worlds.get(self.generations.newest(time.monotonic()), 0)

    def _hear(self, lines: list[Line]) -> None:
        highest = max((line.step for line in lines if line.event == "step"), default=0)
        self.curve.wanted.update(self._reference.upto(highest))
        for line in lines:
            if line.event == "start":
                self._ranks[line.pid, line.started] = line.generation
            if line.event == "begin":
                self.worlds[line.generation] = line.world
                self.first_step = self.first_step or line.t
            if line.event == "step":
                self.steps.append(line)
                if line.step > self.highest:
                    self.highest, self.last_rise = line.step, line.t
            self.generations.hear(line)
            self.commits.hear(line)
            self.curve.hear(line)

    def _see_ranks(self) -> None:
        at = time.monotonic()
        alive: dict[int, int] = {}
        for (pid, started), generation in list(self._ranks.items()):
            if proc.lives(pid, started):
                alive[generation] = pid
            else:
                del self._ranks[pid, started]
        self.generations.see(at, alive)

    def _check_progress(self, now: float) -> None:
        if not self.last_rise:
            if now - self.began > _FIRST:
                raise BrokenError("progress", f"no step {_FIRST:.0f} s after the start")
            return
        since = now - self.last_rise
        if since > _EVER:
            raise BrokenError("progress", f"no new step for {since:.0f} s, after step {self.highest}")
        quiet = now - self._course.quiet_since(now)
        if min(since, quiet) > _STILL:
            text = f"no new step for {since:.0f} s, after step {self.highest}; no fault for {quiet:.0f} s"
            raise BrokenError("progress", text)
