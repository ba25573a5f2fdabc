"""Real agents on this machine for a test: started, watched through what their ranks write down, ended by pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
MARK = "ELAUNCH_TEST_MARK"
Event = dict[str, Any]


def wait_until(what: str, condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    """The first true value of ``condition``; fails with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for: {what}")
        time.sleep(0.01)


def marked(mark: str) -> list[psutil.Process]:
    """Every live process that inherited ``mark`` in its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@dataclass
class Agent:
    """One running ``elaunch``."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self, signum: int = signal.SIGKILL) -> None:
        self.process.send_signal(signum)

    def wait(self, seconds: float = 120.0) -> int:
        """The exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"agent {self.pid} did not end in {seconds:.0f} s:\n{self.output()}") from None

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)

    def child(self, word: str) -> psutil.Process:
        """The first process below it that has ``word`` in its command line; others may end meanwhile."""

        def found() -> psutil.Process | None:
            for process in self.children():
                with suppress(psutil.Error):
                    if word in " ".join(process.cmdline()):
                        return process
            return None

        return wait_until(f"{word} below agent {self.pid}", found)  # type: ignore[no-any-return]


@dataclass
class Job:
    """A job of one test: its agents, its directory, what its ranks wrote down."""

    out: Path
    options: list[str] = field(default_factory=list)
    program: Sequence[str] = (str(PROGRAMS / "steps.py"),)
    env: dict[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    agents: list[Agent] = field(default_factory=list)

    def agent(
        self, *options: str, program: Sequence[str] | None = None, where: Sequence[str] = (), **env: str
    ) -> Agent:
        """Start one more agent; ``where`` is a command that runs it somewhere (``ip netns exec NAME``)."""
        self.out.mkdir(parents=True, exist_ok=True)
        log = self.out / f"agent{len(self.agents)}.log"
        argv = [*where, sys.executable, "-m", "elaunch", *self.options, *options, *(program or self.program)]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        full = {**os.environ, "PYTHONPATH": path, "OUT": str(self.out), MARK: self.mark, **self.env, **env}
        with log.open("wb") as file:
            process = subprocess.Popen(argv, env=full, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.agents.append(Agent(process, log))
        return self.agents[-1]

    def events(self, kind: str | None = None, **values: Any) -> list[Event]:
        """What the ranks wrote down, in the order of time."""
        found: list[Event] = []
        for path in self.out.glob("*-*.jsonl"):
            *whole, _ = path.read_text().split("\n")  # what has no end yet is being written
            found += [json.loads(line) for line in whole if line.endswith("}")]
        wanted = {**({"event": kind} if kind else {}), **values}
        return sorted((e for e in found if wanted.items() <= e.items()), key=lambda e: e["t"])

    def steps_in(self, generation: int, world: int, seconds: float = 120.0) -> list[Event]:
        """Wait until every rank of this generation has done a step in a world of this size."""

        def done() -> list[Event]:
            steps = self.events("step", generation=generation, world=world)
            assert steps or any(a.process.poll() is None for a in self.agents), "every agent has ended"
            return steps if len({e["rank"] for e in steps}) == world else []

        try:
            return wait_until(f"a step of generation {generation} on {world} ranks", done, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.outputs()}") from None

    def fault(
        self, where: str, rank: int, generation: int, how: int | str = signal.SIGKILL, seconds: float = 0.0
    ) -> None:
        """Ask a rank to end, hang or be slow in a certain place."""
        wish = {"where": where, "rank": rank, "generation": generation, "how": how, "seconds": seconds}
        beside = self.out / "fault.new"
        self.out.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(wish))
        beside.replace(self.out / "fault")

    def fault_after_start(self, where: str, rank: int, generation: int, how: int | str = signal.SIGKILL) -> None:
        """As ``fault``, once the generation has begun, and so the fault before is over."""
        wait_until(f"generation {generation}", lambda: self.events("start", generation=generation))
        self.fault(where, rank, generation, how)

    def finish(self) -> None:
        """Let the program end by itself."""
        (self.out / "stop").touch()

    def outputs(self) -> str:
        return "\n".join(f"--- agent {i}\n{a.output()}" for i, a in enumerate(self.agents))

    def living(self) -> list[psutil.Process]:
        """Everything of this job that runs."""
        return marked(self.mark)

    def listening(self) -> dict[psutil.Process, list[tuple[str, int]]]:
        """Where each process listens, but for the ranks: what these open is torch's and the user's."""
        ranks = {e["pid"] for e in self.events("start")}
        found = {}
        for process in self.living():
            if process.pid not in ranks:
                with suppress(psutil.NoSuchProcess):
                    sockets = [c for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
                    found[process] = [(c.laddr.ip.replace("::ffff:", ""), c.laddr.port) for c in sockets]
        return {process: ports for process, ports in found.items() if ports}

    def close(self, *, within: float = 30.0) -> list[str]:
        """End the agents that still run; what outlives them is returned, and ended too."""
        for agent in self.agents:
            if agent.process.poll() is None:
                agent.kill()
                agent.process.wait(10)
        deadline = time.monotonic() + within
        while (left := self.living()) and time.monotonic() < deadline:
            time.sleep(0.05)
        names = []
        for process in left:
            try:
                names.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
                process.kill()
            except psutil.Error:
                continue
        return names


def gone(pid: int) -> bool:
    """Whether a process is gone, or a zombie: it holds nothing any more."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
