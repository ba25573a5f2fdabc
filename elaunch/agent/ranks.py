"""What runs on this node now: one generation at most, started by a spawner process that is replaced when it dies."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from elaunch.agent import trees
from elaunch.agent.spawner import STORE, Spawner
from elaunch.agent.status import StatusBoard
from elaunch.controller.commands import Start
from elaunch.controller.node_status import RunPhase
from elaunch.errors import StartError


class Logs(Protocol):
    """Where a generation's output goes: opened before its ranks start, closed when all of it is printed."""

    async def close(self) -> None: ...


@dataclass(slots=True)
class Generation:
    """One start of ranks: which local ranks, and the store's host, have not been heard to end; pids by local rank.

    ``noticed``: its programs were told to stop, so that how they end is no news. ``ended``: no rank is left.
    """

    start: Start
    logs: Logs
    alive: set[int] = field(default_factory=set)
    pids: Mapping[int, int] = field(default_factory=dict)
    noticed: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ranks(self) -> set[int]:
        """The local ranks that live."""
        return self.alive - {STORE}


class Ranks:
    """The generation that this node runs, and the means to end it. ``lock`` is held while ranks start or stop.

    ``reopen`` yields another spawner process in the place of one that died; ``grace`` is in seconds. ``hurry`` is set
    when a scheduler that had left more time than that stops the job before it is over. ``spared`` yields the ranks to
    which SIGTERM does nothing.
    """

    def __init__(
        self, spawner: Spawner, reopen: Callable[[], Awaitable[Spawner]], board: StatusBoard, grace: float
    ) -> None:
        self.spawner = spawner
        self.lock = asyncio.Lock()
        self.generation: Generation | None = None
        self.stop_signal: signal.Signals = signal.SIGTERM
        self.hurry = asyncio.Event()
        self.spared: Callable[[], Sequence[int]] = tuple
        self._reopen = reopen
        self._board = board
        self._grace = grace

    @property
    def pids(self) -> dict[int, int]:
        """The ranks that run now, by local rank."""
        now = self.generation
        return {n: pid for n, pid in now.pids.items() if n in now.alive} if now is not None else {}

    async def signal(self, signum: signal.Signals) -> None:
        """Pass a signal on to every rank; nothing else follows from it, not even where there is none to take it."""
        try:
            await self.spawner.signal(signum)
        except StartError as error:
            structlog.get_logger().warning("signal_not_passed_on", signal=signum.name, reason=str(error))

    async def halt(self, grace: float | None = None) -> None:
        """Whatever runs has been ended by us from now on: nothing of it is news."""
        if self.generation is not None:
            self.generation.alive.clear()
        if not self._board.now.phase.at_rest:
            self._board.update(phase=RunPhase.STOPPING)
        await self.clear(grace)

    async def clear(self, grace: float | None = None) -> None:
        """End every process that is left of the generation, and show the rest of its output."""
        await self.stop(grace)
        if self.generation is not None:
            generation, self.generation = self.generation, None
            await generation.logs.close()

    async def stop(self, grace: float | None) -> None:
        """End every process: ``grace`` in seconds, the usual one where None."""
        grace = self._grace if grace is None else grace
        await self.spawner.stop(signum=self.stop_signal, grace=grace, deaf=self.spared())

    async def replace_spawner(self) -> tuple[int, dict[int, int]]:
        """Have another spawner process in the place of one that died; which generation's local ranks it took along.

        With the exit code of each: one that had ended before, unheard, is our child by now.
        """
        async with self.lock:  # a start waits for the new one
            await self.spawner.close()
            codes = {n: trees.exit_code(pid) for n, pid in self.pids.items()}
            self.spawner = await self._reopen()
            now = self.generation
            if now is None:
                return 0, {}
            return now.start.generation, {n: -signal.SIGKILL if (c := codes.get(n)) is None else c for n in now.ranks}
