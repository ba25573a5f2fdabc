"""The pages of this node's ranks: made for each generation, read for heartbeats, written to for a notice.

They have no name in any file system: a rank opens its page through /proc, by the agent's pid and descriptor. So
nothing is left behind, however the agent ends.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from elaunch.agent.preempting import ignores
from elaunch.agent.sight import RankFiles, Sight
from elaunch.agent.witness import Witness
from elaunch.progress import RankProgress
from elaunch.progress_page import FLIGHT, PAGE, STACKS, Notice, Page


class Pages:
    """The pages of one generation at a time. Where none can be made the ranks run without, and only /proc tells."""

    def __init__(self) -> None:
        self.files: dict[int, RankFiles] = {}
        self.sights: dict[int, Sight] = {}
        self.generation = 0
        self.before_close: Callable[[], None] = _nothing

    def open(self, rank0: int, count: int, generation: int = 0, world_size: int = 0) -> None:
        """Pages for ``count`` ranks from ``rank0`` on, in the place of the last ones: their ranks are gone."""
        self.close()
        self.generation = generation
        try:
            for local_rank in range(count):
                files = self.files[local_rank] = RankFiles.make(local_rank)
                page = Page.make(files.page)
                page.rank, page.world_size = rank0 + local_rank, world_size
                page.local_rank, page.local_world_size = local_rank, count
                self.sights[local_rank] = Sight(rank0 + local_rank, local_rank, page, files.page)
        except OSError as error:
            structlog.get_logger().warning("no_progress_pages", reason=str(error))
            self.close()

    def env(self, local_rank: int) -> dict[str, str]:
        """What tells the rank where its page is."""
        files = self.files.get(local_rank)
        if files is None:
            return {}
        where = f"/proc/{os.getpid()}/fd/"
        return {PAGE: f"{where}{files.page}", STACKS: f"{where}{files.stacks}", FLIGHT: f"{where}{files.flight}"}

    def started(self, pids: Mapping[int, int]) -> None:
        """The processes of the ranks, by local rank."""
        for local_rank, sight in self.sights.items():
            sight.pid = pids.get(local_rank, 0)

    def read(self, now: float) -> tuple[RankProgress, ...]:
        """The ranks whose processes are there, at ``now`` in seconds of the monotonic clock."""
        return tuple(found for sight in self.sights.values() if (found := sight.look(now)) is not None)

    @property
    def listened_to(self) -> bool:
        """Whether a program has ever asked if it is to stop: only then it can be told to."""
        return any(sight.page.listens for sight in self.sights.values())

    def witnesses(self, now: float, stderr: Mapping[int, Path | None]) -> list[Witness]:
        """The same ranks, to be asked for evidence; ``stderr`` is the file of each local rank."""
        found = ((n, sight, sight.look(now)) for n, sight in self.sights.items())
        return [Witness(rank, sight, self.files[n], stderr.get(n)) for n, sight, rank in found if rank is not None]

    def spared(self) -> tuple[int, ...]:
        """The ranks that SIGTERM would not end, as they wait for notice: nothing else than SIGKILL does."""
        pids = (sight.pid for sight in self.sights.values() if sight.page.spared)
        return tuple(pid for pid in pids if pid and ignores(pid, signal.SIGTERM))

    def notify(self, deadline_seconds: float, reason: str) -> None:
        """Tell the programs that they are to stop in so many seconds from now, and why."""
        notice = Notice(time.monotonic() + deadline_seconds, reason)
        for sight in self.sights.values():
            sight.page.write_notice(notice)

    def withdraw(self) -> None:
        """The programs need not stop after all."""
        for sight in self.sights.values():
            sight.page.write_notice(None)

    def close(self) -> None:
        """Let go of all pages, after what ``before_close`` still reads of them."""
        self.before_close()
        for sight in self.sights.values():
            sight.page.close()
        for files in self.files.values():
            files.close()
        self.sights, self.files = {}, {}


def _nothing() -> None:
    return
