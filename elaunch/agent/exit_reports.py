"""What is told of a rank's exit: in the program's own words, or the watchdog's, or as the kernel did it."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from elaunch.agent import failures
from elaunch.agent.aside import aside
from elaunch.agent.memory import OutOfMemory
from elaunch.agent.spawner import STORE, Exit
from elaunch.agent.streams import LogFolder
from elaunch.agent.watchdog import Watchdog
from elaunch.controller.commands import Start
from elaunch.rendezvous.state import RankExit

TROUBLE_SECONDS = 1.0
UNRESPONSIVE = "its file system does not answer"


class ExitReports:
    """Describes the exits of one generation after the other; ``watchdog`` knows which ranks it has killed, and why."""

    def __init__(self, watchdog: Watchdog | None) -> None:
        self._watchdog = watchdog
        self._memory = OutOfMemory()
        self._trouble, self._unresponsive, self._looked = "", False, -math.inf

    def begin(self) -> None:
        """Ranks are to start: what the kernel has killed so far was none of them."""
        self._memory.forget()

    async def look(self, folder: LogFolder) -> None:
        """See whether there is something wrong with the log folder, for what is told of an exit; within a second.

        Ranks often fail together: a look serves all of them, so that none waits for the others' to be told.
        """
        if time.monotonic() < self._looked + TROUBLE_SECONDS:
            return
        try:
            self._trouble = await aside(folder.trouble, TROUBLE_SECONDS)
            self._unresponsive = False
        except asyncio.TimeoutError:
            self._trouble, self._unresponsive = f"{folder.attempt}: {UNRESPONSIVE}", True
        self._looked = time.monotonic()

    def failing(self, error_files: Mapping[int, Path | None]) -> dict[int, float]:
        """When ranks left word, in seconds since the epoch: those of them that did."""
        files = {} if self._unresponsive else error_files
        found = {n: failures.left_at(file) for n, file in files.items() if file is not None}
        return {n: since for n, since in found.items() if since is not None}

    def describe(self, end: Exit, start: Start, error_file: Path | None) -> RankExit:
        """What is known of an exit; ``error_file`` is where the rank may have left word."""
        if end.local_rank == STORE:
            text = "the host of this generation's store ended"
            return RankExit(STORE, STORE, end.pid, end.exit_code or 1, end.time, message=text)
        rank = start.rank0 + end.local_rank
        if end.exit_code == 0:
            return RankExit(end.local_rank, rank, end.pid, 0, end.time)
        told = failures.failure(
            rank=rank,
            local_rank=end.local_rank,
            host=socket.gethostname(),
            pid=end.pid,
            exit_code=end.exit_code,
            time=end.time,
            error_file=None if self._unresponsive else error_file,
        )
        message = self._watchdog_says(end.pid) or self._memory_says(end) or told.message
        return RankExit(
            end.local_rank,
            rank,
            end.pid,
            end.exit_code,
            told.time,
            told.error_file,
            f"{message} (the log folder {self._trouble})" if self._trouble else message,
            told.traceback,
        )

    def _memory_says(self, end: Exit) -> str:
        if end.exit_code != -signal.SIGKILL or not self._memory.killed():
            return ""
        return f"the kernel killed PID {end.pid} for want of memory (SIGKILL)"

    def _watchdog_says(self, pid: int) -> str:
        return self._watchdog.why(pid) if self._watchdog is not None else ""
