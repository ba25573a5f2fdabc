"""The jobs of a qualification, started as a user would: by ``elaunch``, or by ``elaunch ssh`` on other hosts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from elaunch.qualify.lines import Line, Told
from elaunch.rendezvous.addresses import free_port

T = TypeVar("T")
PRELOAD = "--preload=elaunch.qualify.programs.preloaded"
_LOOK = 0.05  # seconds between two looks at what has been printed
_SAID = {"ELAUNCH_LOG_FORMAT": "json", "ELAUNCH_LOG_LEVEL": "info"}  # the records of starts are read in it
_OF_SCHEDULERS = ("SLURM_", "PET_", "ELAUNCH_POD_", "JOBSET_", "JOB_COMPLETION_INDEX", "KUBERNETES_")
_QUIETLY = {"PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore", **_SAID}
_END = 20.0  # seconds from SIGTERM to SIGKILL
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Has the kernel end it (SIGTERM) with whoever started it, and becomes elaunch. A program of its own, as code between
# fork and exec is unsafe in a process with threads.
_TIED = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 15)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(1)\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'elaunch', *sys.argv[2:]])\n"
)


class EndedError(RuntimeError):
    """The job has ended before what was waited for."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where the jobs run: so many ranks here, or on ``hosts`` (as for ``elaunch ssh --hosts``) so many each.

    ``names`` are those of the hosts; ``ssh`` are further options of ``elaunch ssh``.
    """

    ranks: int
    hosts: str = ""
    names: tuple[str, ...] = ()
    ssh: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        return len(self.names) or 1

    @property
    def world(self) -> int:
        return self.ranks * self.nodes


@dataclass
class RunningJob:
    """One ``elaunch``: its process, and the file with all that it and its ranks print."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    endpoint: str
    began: float
    more: list[subprocess.Popen[bytes]] = field(default_factory=list)
    told: Told = field(default_factory=Told)

    def lines(self) -> list[Line]:
        """What its ranks have told so far."""
        return self.told.all_of(self.log)

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def until(self, what: str, condition: Callable[[list[Line]], T], seconds: float) -> T:
        """What ``condition`` makes of the lines, once that is true. Raises TimeoutError, EndedError."""
        deadline = time.monotonic() + seconds
        while True:
            over = self.process.poll() is not None
            if value := condition(self.lines()):
                return value
            if over:
                raise EndedError(f"the job ended with {self.process.returncode} before {what}: {self.last()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds:.0f} s for {what}")
            time.sleep(_LOOK)

    def wait(self, seconds: float) -> int:
        """Its exit code. Raises TimeoutError."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"it did not end within {seconds:.0f} s") from None

    def last(self) -> str:
        """The last line that says something of an error, for a sentence."""
        texts = [line for line in self.output().splitlines() if "rror" in line and "elaunch-qualify:" not in line]
        return texts[-1][:300] if texts else "see its log"

    def end(self) -> None:
        """Have all of it end, and wait until it has."""
        processes = [self.process, *self.more]
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _END
        for process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def free_of_schedulers(environ: Mapping[str, str]) -> dict[str, str]:
    """Without what would make the jobs part of a Slurm step or of a Kubernetes job that the qualification is run in."""
    return {name: value for name, value in environ.items() if not name.startswith(_OF_SCHEDULERS)}


def _there(env: Mapping[str, str]) -> list[str]:
    """The environment as options of ``elaunch ssh``."""
    return [f"--ssh-env={name}={value}" for name, value in {**_QUIETLY, **env}.items()]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Have SIGINT and SIGTERM wait for the end of it: a start that is broken off leaves a job that nobody knows of."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda which, _: came.append(which)) for number in _INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for arrived in came:
            signal.raise_signal(arrived)


class Runner:
    """Starts jobs, whose output goes into ``folder``; whatever still runs at ``close`` is ended. ``tag`` is its own."""

    def __init__(self, where: Where, folder: Path, tag: str) -> None:
        self.where, self.folder, self.tag = where, folder, tag
        self.jobs: list[RunningJob] = []
        self._kept = f"--log-dir={folder / 'evidence'}"  # beside the report, and not in the temporary folder for good

    def start(self, name: str, *words: str, nodes: str = "", **env: str) -> RunningJob:
        """A job: ``words`` are further options, then ``-m``, a module, and its arguments."""
        where = self.where
        job = f"qualify-{name}-{self.tag}"
        host = where.names[0] if where.hosts else "127.0.0.1"
        endpoint = f"{host}:{free_port('127.0.0.1')}"
        options = [f"--rdzv-id={job}", f"--nproc-per-node={where.ranks}", "--rdzv-backend=c10d"]
        options += [] if where.hosts else [self._kept]
        options += [f"--rdzv-endpoint={endpoint}", *([f"--nnodes={nodes}"] if nodes else []), *words]
        front = ["ssh", f"--hosts={where.hosts}", *where.ssh, *_there(env)] if where.hosts else []
        log = self.folder / f"{name}.log"
        with uninterrupted():
            process = self._spawn([*front, *options], log, env)
            made = RunningJob(job, process, log, endpoint, time.time())
            self.jobs.append(made)
        return made

    def join(self, job: RunningJob, *words: str, nodes: str, **env: str) -> subprocess.Popen[bytes]:
        """One more agent of a job, on this machine."""
        options = [f"--rdzv-id={job.name}", f"--nproc-per-node={self.where.ranks}", "--rdzv-backend=c10d", self._kept]
        options += [f"--rdzv-endpoint={job.endpoint}", f"--nnodes={nodes}", *words]
        with uninterrupted():
            job.more.append(self._spawn(options, job.log, env))
        return job.more[-1]

    def _spawn(self, words: list[str], log: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
        place = str(Path(__file__).parents[2])
        path = os.pathsep.join([place, *filter(None, [os.environ.get("PYTHONPATH")])])
        full = {**free_of_schedulers(os.environ), "PYTHONPATH": path, **_QUIETLY, **env}
        with log.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", _TIED, str(os.getpid()), *words],
                env=full, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip

    def close(self) -> None:
        for job in self.jobs:
            job.end()
