"""One soak: the laboratory, the training, the faults, the watch, and the end."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from elaunch.inject import Planned
from elaunch.lab import Lab, Watched, reaper

from . import counting, leaks, proc
from .broken import BrokenError
from .cluster import JOB, Cluster
from .course import FAILURES, HOSTS, Course, Happened
from .figures import Goodput, Recovery, goodput, recoveries, rises
from .planting import Plant
from .watching import Watcher

_TICK = 0.1  # seconds
_SETTLED = 20  # steps by all hosts after the last fault
_BACK = 60.0  # seconds for that
_END = 60.0  # seconds for all agents to end
_FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class Wish:
    """``seconds`` of the faults ``planned``; ``plant`` breaks an invariant, "" for none."""

    planned: tuple[Planned, ...]
    seconds: float
    plant: str = ""
    keep: bool = False


@dataclass
class Result:
    """``folder`` is where logs and history are kept; ``seconds`` since the first fault could be."""

    folder: Path
    seconds: float = 0.0
    broken: BrokenError | None = None
    happened: list[Happened] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    goodput: Goodput | None = None
    generations: int = 0
    steps: int = 0
    redone: int = 0


def soak(wish: Wish) -> Result:
    """All of it. The folder stays where an invariant was broken, or is to be kept, or where it could not go on.

    Raises NoGroundError, and one of FAILURES where the machine does not let it go on.
    """
    tempfile.gettempdir()  # ours stays where it is, so that laboratories know of each other; what we start has its own
    with _folder() as (folder, keep):
        if wish.keep:
            keep()
        try:
            result = _soak(wish, folder)
        except FAILURES as error:
            if (interrupt := _interrupt_before(error)) is not None:
                raise interrupt from None
            keep()
            print(f"evidence: {folder}")
            raise
        if result.broken is not None:
            keep()
    return result


def _soak(wish: Wish, folder: Path) -> Result:
    for name in ("tmp", "lines", "logs", "evidence", "inductor"):
        (folder / name).mkdir()
    soaking = Soak(wish, Result(folder), Plant(wish.plant, folder), uuid.uuid4().hex)
    variables = {
        proc.MARK: soaking.mark,
        "TMPDIR": str(folder / "tmp"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),  # torch makes it at its import, and leaves it
    }
    try:
        with _environment(variables):
            soaking.run()
    finally:
        soaking.plant.close()
    return soaking.result


def _interrupt_before(error: BaseException) -> SystemExit | None:
    """The interrupt in whose course this came about, which is what whoever waits is to hear of."""
    before = error.__context__
    while before is not None and not isinstance(before, SystemExit):
        before = before.__context__
    return before


@contextmanager
def _folder() -> Iterator[tuple[Path, Callable[[], None]]]:
    """A new one, and what has it stay; else it goes with this process, also where that is killed. Raises OSError."""
    name = f"soak-{uuid.uuid4().hex[:8]}"
    folder = Path(tempfile.gettempdir(), name)
    pipe = subprocess.PIPE
    argv = [sys.executable, "-S", "-E", reaper.__file__, name, str(folder), str(os.getpid())]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, start_new_session=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise OSError(errno.ENOSPC, "there can be no folder", str(folder))
        yield folder, process.kill


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@dataclass
class Soak:
    """``mark`` is in the environment of all that it starts."""

    wish: Wish
    result: Result
    plant: Plant
    mark: str

    def run(self) -> None:
        """The result says what became of it."""
        try:
            with Lab(HOSTS) as lab:
                name, folder = lab.net.name, lab.folder
                cluster = Cluster(lab, self.result.folder)
                count = counting.Counting(cluster, self.mark, self.result.folder / "tmp")
                try:
                    self._in_lab(cluster, count)
                finally:
                    cluster.keep(self.result.folder / "evidence")
                    self._keep_figures(count)
            counting.settled(self.mark)
            leaks.check_left(counting.left(self.mark, name, folder, self.result.folder / "tmp", count.shared))
        except BrokenError as error:
            self.result.broken = error

    def _in_lab(self, cluster: Cluster, count: counting.Counting) -> None:
        cluster.start()
        with cluster.lab.watched(JOB) as job, cluster.lab.watched(JOB) as other:
            course = Course(cluster.lab, job, self.wish.planned, cluster.about, self.result.happened)
            watcher = Watcher(cluster, course, other)
            try:
                self._through(cluster, course, watcher, count)
            finally:
                course.stop()
                self._figures(watcher, course)
                self._keep_history(other)
                watcher.close()

    def _through(self, cluster: Cluster, course: Course, watcher: Watcher, count: counting.Counting) -> None:
        def until(over: Callable[[], bool], seconds: float = _FOREVER) -> None:
            deadline = time.monotonic() + seconds
            while not over():
                now = time.monotonic()
                watcher.tick()
                count.look(now)
                self.plant.look(watcher.generations.newest(now))
                if now > deadline:
                    text = f"{seconds:.0f} s after the last fault {watcher.world} of {HOSTS} hosts are at work"
                    raise BrokenError("progress", f"{text}, at step {watcher.highest}")
                time.sleep(max(0.0, now + _TICK - time.monotonic()))

        until(lambda: watcher.world == HOSTS and watcher.highest > 0)
        course.start()
        until(lambda: time.monotonic() >= course.began + self.wish.seconds and course.done)
        quiet = watcher.highest
        until(lambda: watcher.world == HOSTS and watcher.highest >= quiet + _SETTLED, _BACK)
        leaks.check_flat(count.figures)
        cluster.end(_END)
        watcher.tick()

    def _figures(self, watcher: Watcher, course: Course) -> None:
        now, result = time.monotonic(), self.result
        times = rises(watcher.steps)
        result.seconds = now - course.began if course.began else 0.0
        result.generations = watcher.generations.newest(now)
        result.recoveries = recoveries(times, [(one.at, one.kind) for one in course.happened if not one.refused])
        counted = watcher.curve.counted
        result.steps, result.redone = len(counted), watcher.curve.redone
        if times:
            result.goodput = goodput(times, len(counted), result.recoveries, watcher.first_step, now)

    def _keep_figures(self, count: counting.Counting) -> None:
        """Lines of whose, what, and value by value."""
        rows = [
            f"{whose}\t{what}\t{' '.join(f'{value:g}' for _, value in found)}"
            for (whose, what), found in count.figures.items()
        ]
        (self.result.folder / "evidence" / "figures.tsv").write_text("\n".join(rows) + "\n")

    def _keep_history(self, job: Watched) -> None:
        """The job's events, beside its logs."""
        try:
            lines = [f"{line.time:.3f} g{line.generation} {line.code}: {line.text}" for line in job.events()]
        except FAILURES as error:
            lines = [str(error)]
        (self.result.folder / "evidence" / "events.txt").write_text("\n".join(lines) + "\n")
