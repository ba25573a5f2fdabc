"""The spawner process as a child of the agent: from its start until nothing of it, or of what it started, is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from elaunch.agent import trees
from elaunch.errors import StartError

KILL_BOUND_SECONDS = 10.0
_ROOM = " " * 1024  # a forked rank's command line is written over the spawner process's


class SpawnerProcess:
    """``spare`` gives the pids of the agent's other children, which are no strays of the ranks."""

    _running: ClassVar[set[int]] = set()  # of this agent: one may be opened while another is cleaned up after

    def __init__(self, process: subprocess.Popen[bytes], spare: Callable[[], Collection[int]]) -> None:
        self._process = process
        self._spare = spare
        self._cleaning: asyncio.Task[None] | None = None
        self._running.add(process.pid)

    @classmethod
    def open(
        cls,
        start: str,
        preload: Sequence[str],
        env: Mapping[str, str],
        sock: int,
        page: int,
        spare: Callable[[], Collection[int]],
    ) -> SpawnerProcess:
        """Start it, with the descriptors of its socket and of the deadline page. Raises StartError."""
        program = Path(__file__).with_name("spawner_process.py")
        argv: list[Any] = [sys.executable, "-u", program, str(sock), str(page), start, *preload, _ROOM]
        try:
            process = subprocess.Popen(argv, env=dict(env), pass_fds=(sock, page), start_new_session=True)
        except OSError as error:
            raise StartError(f"cannot start the spawner process: {error}") from error
        return cls(process, spare)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stopped(self) -> bool:
        """Whether a signal or a debugger holds it."""
        now = trees.process(self.pid)
        return now is not None and now.stopped

    def wake(self) -> None:
        """Have it go on where a signal has stopped it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def gone(self) -> None:
        """Wait until the process and all that it left are gone; whoever asks shares one cleaning.

        Raises StartError where something outlives SIGKILL.
        """
        if self._cleaning is None:
            self._cleaning = asyncio.get_running_loop().create_task(self._clean_up())
        await asyncio.shield(self._cleaning)

    async def _clean_up(self) -> None:
        """Wait for the process's end, then kill what it left: ranks die with it, their strays come to us."""
        try:
            await asyncio.to_thread(self._process.wait, KILL_BOUND_SECONDS)
        except subprocess.TimeoutExpired:
            raise StartError(f"the spawner process {self.pid} outlives SIGKILL") from None
        self._running.discard(self.pid)
        left = await asyncio.to_thread(trees.kill_all, self._strays, KILL_BOUND_SECONDS)
        if left:
            raise StartError(still_there([p.pid for p in left]))

    def _strays(self) -> list[trees.Process]:
        return trees.below(os.getpid(), spare={*self._spare(), *self._running})


def still_there(pids: Sequence[int]) -> str:
    """What is said of processes that SIGKILL does not end."""
    return f"processes {', '.join(map(str, pids))} are still there {KILL_BOUND_SECONDS:.0f} s after SIGKILL"
