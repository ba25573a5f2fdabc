"""Ranks of real torch with pages that a test reads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from elaunch.agent.progress import Pages
from elaunch.agent.start import RankStart
from elaunch.progress import RankProgress
from tests.e2e.spawning import PROGRAMS, ROOT, SECONDS, Bench, environment, python
from tests.etcd.servers import free_port


def installed(folder: Path) -> dict[str, str]:
    """An environment in which elaunch counts as installed, so that every ``import torch`` loads it."""
    info = folder / "elaunch-0.1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: elaunch\nVersion: 0.1.0\n")
    info.joinpath("entry_points.txt").write_text("[torch.backends]\nelaunch = elaunch.worker.autoload:autoload\n")
    return environment(PYTHONPATH=os.pathsep.join([str(ROOT), str(folder)]))


class Watched:
    """Two ranks of a program in tests/programs, and their pages."""

    def __init__(self, bench: Bench, program: str, folder: Path, world: int = 2) -> None:
        self.folder = folder
        self.program = PROGRAMS / program
        self.pages = Pages()
        self.pages.open(0, world)
        folder.mkdir(exist_ok=True)
        port = str(free_port())
        starts = [self._start(bench, rank, world, port) for rank in range(world)]
        self.pids = bench.do(bench.spawner.start(starts, None, world))
        self.pages.started(self.pids)

    def _start(self, bench: Bench, rank: int, world: int, port: str) -> RankStart:
        env = {
            **bench.env,
            **self.pages.env(rank),
            "OUT": str(self.folder),
            "RANK": str(rank),
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "ELAUNCH_GENERATION": "1",
        }
        out, err = self.folder / f"{rank}.out", self.folder / f"{rank}.err"
        return RankStart(rank, rank, python("script", self.program), env, out, err)

    def line(self, mark: str) -> str:
        """``watched.py:31``, where the program has this mark."""
        lines = self.program.read_text().splitlines()
        return f"{self.program.name}:{next(n for n, line in enumerate(lines, 1) if line.endswith(f'# {mark}'))}"

    def until(self, what: str, right: Callable[[tuple[RankProgress, ...]], object]) -> tuple[RankProgress, ...]:
        """Read until it is right; the ranks then."""
        end = time.monotonic() + SECONDS
        while True:
            ranks = self.pages.read(time.monotonic())
            if len(ranks) == len(self.pids) and right(ranks):
                return ranks
            said = "\n".join(self.folder.joinpath(f"{n}.err").read_text()[-2000:] for n in self.pids)
            assert time.monotonic() < end, f"waited for {what}: {ranks}\n{said}"
            time.sleep(0.02)

    def go(self, name: str) -> None:
        (self.folder / name).touch()

    def close(self) -> None:
        self.pages.close()
