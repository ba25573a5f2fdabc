"""A spawner for tests that are not asynchronous themselves: one loop, one spawner process, many starts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from elaunch.agent import trees
from elaunch.agent.program import Kind, Program
from elaunch.agent.spawner import Exit, Spawner
from elaunch.agent.start import RankStart
from elaunch.deadline_page import DeadlinePage

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "programs"
SECONDS = 120.0


def environment(**more: str) -> dict[str, str]:
    """The tests' own, with one thread per rank and elaunch importable."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV", "ELAUNCH"))}
    return {**env, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **more}


def python(kind: Kind, target: str | Path, *args: str) -> Program:
    return Program(kind, str(target), args, sys.executable)


@dataclass(frozen=True)
class Result:
    """How a rank ended and what it printed."""

    exit_code: int
    out: str
    err: str


def other_children() -> tuple[int, ...]:
    """What this test process has started already, an etcd for all tests say: no stray of a spawner's ranks."""
    return tuple(p.pid for p in trees.snapshot().values() if p.parent == os.getpid())


class Bench:
    """One spawner process and the loop that talks to it."""

    def __init__(
        self,
        start: Literal["warm", "exec"],
        preload: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.env = dict(env or environment())
        self.notes: list[str] = []
        self.page = DeadlinePage.create()
        self._loop = asyncio.new_event_loop()
        others = other_children()
        self.spawner: Spawner = self.do(
            Spawner.open(
                start=start,
                preload=preload,
                env=self.env,
                deadline=self.page,
                note=self.notes.append,
                spare=lambda: others,
            )
        )

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, SECONDS))

    def start(
        self, programs: Sequence[Program], folder: Path, listener: socket.socket | None = None, **env: str
    ) -> dict[int, int]:
        """Start one rank for each program, with its output in ``folder``."""
        folder.mkdir(exist_ok=True)
        starts = [
            RankStart(n, n, program, {**self.env, **env, "RANK": str(n)}, folder / f"{n}.out", folder / f"{n}.err")
            for n, program in enumerate(programs)
        ]
        return self.do(self.spawner.start(starts, listener, len(starts), number=7))

    def standbys(self) -> set[int]:
        """The pids of the children that wait to be needed."""
        found = set()
        for p in trees.below(self.spawner.pid):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # a rank that has just ended
                if b"elaunch-standby" in Path(f"/proc/{p.pid}/cmdline").read_bytes():
                    found.add(p.pid)
        return found

    def await_standbys(self, count: int) -> set[int]:
        """Wait until there are so many; their pids."""
        end = time.monotonic() + SECONDS
        while len(found := self.standbys()) != count:
            assert time.monotonic() < end, f"{len(found)} standbys, not {count}"
            time.sleep(0.02)
        return found

    def exit(self) -> Exit:
        return self.do(self.spawner.exits().get())

    def run(self, programs: Sequence[Program], folder: Path, **env: str) -> list[Result]:
        """Run the programs to their ends."""
        self.start(programs, folder, **env)
        codes = {}
        try:
            while len(codes) < len(programs):
                end = self.exit()
                codes[end.local_rank] = end.exit_code
        finally:
            self.stop()
        return [
            Result(codes[n], (folder / f"{n}.out").read_text(), (folder / f"{n}.err").read_text())
            for n in range(len(programs))
        ]

    def stop(self, grace: float = 5.0) -> None:
        self.do(self.spawner.stop(signum=signal.SIGTERM, grace=grace))
        while not self.spawner.exits().empty():
            self.spawner.exits().get_nowait()

    def close(self) -> None:
        self.do(self.spawner.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self.page.close()
