"""The ranks of this node: brings them to what the leader's newest command asks for, and tells how far that is."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol

import structlog

from elaunch.agent.spawner import STORE, Exit, RankStart, Spawner
from elaunch.agent.status import StatusBoard
from elaunch.controller.commands import Abort, Command, Start, Wait
from elaunch.controller.job import RankExit, RunPhase
from elaunch.errors import StartError
from elaunch.rendezvous.waiting import beside


class Logs(Protocol):
    """Where a generation's output goes: opened before its ranks start, closed when all of it is printed."""

    async def close(self) -> None: ...


class Preparation(Protocol):
    """What a generation needs on this node before its ranks start, made by the agent from its options."""

    node_id: str

    async def ranks(self, start: Start) -> tuple[list[RankStart], Logs]: ...

    def started(self, start: Start, pids: Mapping[int, int]) -> None: ...

    def describe(self, exit_: Exit, start: Start) -> RankExit: ...


class Group:
    """Runs one generation at a time; an older one, or one that was aborted already, never starts.

    ``listen`` yields a new listening socket for the next generation's store, ``reopen`` another spawner process in the
    place of one that died.
    """

    def __init__(
        self,
        spawner: Spawner,
        reopen: Callable[[], Awaitable[Spawner]],
        board: StatusBoard,
        prepare: Preparation,
        listen: Callable[[], socket.socket],
        grace: float,
    ) -> None:
        self._spawner = spawner
        self._open = reopen
        self._board = board
        self._prepare = prepare
        self._listen = listen
        self._grace = grace
        self._wanted: Command | None = None
        self._news = asyncio.Event()
        self._highest = 0
        self._running: Start | None = None
        self._logs: Logs | None = None
        self._alive: set[int] = set()
        self._pids: Mapping[int, int] = {}
        self._lock = asyncio.Lock()  # held while ranks are started or stopped
        self._listener = listen()
        self.stop_signal: signal.Signals = signal.SIGTERM
        board.update(store_port=self.store_port)
        self._log = structlog.get_logger()

    @property
    def store_port(self) -> int:
        """The port on which this node listens for the next generation's store."""
        return int(self._listener.getsockname()[1])

    def want(self, command: Command) -> None:
        """The leader's newest command; what it replaces is not done any more."""
        self._wanted = command
        self._news.set()

    @property
    def pids(self) -> dict[int, int]:
        """The ranks that run now, by local rank."""
        return {n: pid for n, pid in self._pids.items() if n in self._alive}

    def give_up(self, local_rank: int, reason: str) -> None:
        """A rank that runs can be neither used nor ended: it counts as failed, and no rank starts here any more."""
        start, pid = self._running, self.pids.get(local_rank)
        if start is None or pid is None or self._board.now.leaving:
            return
        self._log.error("rank_stuck", generation=start.generation, local_rank=local_rank, reason=reason)
        end = self._prepare.describe(Exit(local_rank, pid, -signal.SIGKILL, time.time()), start)
        end = replace(end, message=reason)
        self._alive.discard(local_rank)
        self._board.update(phase=RunPhase.FAILED, exits=(*self._board.now.exits, end), start_error=reason)

    async def run(self) -> None:
        """Follow commands and exits until cancelled."""
        exits = asyncio.create_task(self._follow_exits())
        try:
            while True:
                news = asyncio.create_task(self._news.wait())
                await beside([exits], news)
                self._news.clear()
                await self._obey(self._wanted)
        finally:
            exits.cancel()
            await asyncio.gather(exits, return_exceptions=True)

    async def leave(self, *, grace: float | None = None) -> None:
        """Whatever was wanted is not wanted any more: stop every process, and return when all are gone.

        ``grace`` in seconds, the usual one where None; it also shortens that of a stop that goes on already.
        """
        self._wanted = None
        self._news.set()
        await self._stop(grace)
        async with self._lock:  # a start that was on its way may have come through meanwhile
            await self._halt(grace)

    async def _halt(self, grace: float | None = None) -> None:
        self._alive.clear()
        if not self._board.now.phase.at_rest:
            self._board.update(phase=RunPhase.STOPPING)
        await self._clear(grace)

    async def _clear(self, grace: float | None = None) -> None:
        """End every process that is left of the generation, and show the rest of its output."""
        await self._stop(grace)
        if self._logs is not None:
            logs, self._logs = self._logs, None
            await logs.close()
        self._running = None

    async def _stop(self, grace: float | None) -> None:
        await self._spawner.stop(signum=self.stop_signal, grace=self._grace if grace is None else grace)

    async def signal(self, signum: signal.Signals) -> None:
        """Pass a signal on to every rank; nothing else follows from it, not even where there is none to take it."""
        try:
            await self._spawner.signal(signum)
        except StartError as error:
            self._log.warning("signal_not_passed_on", signal=signum.name, reason=str(error))

    async def close(self) -> None:
        """End the spawner process, and let go of the listening socket."""
        self._listener.close()
        await self._spawner.close()

    async def _obey(self, command: Command | None) -> None:
        if isinstance(command, Start) and command.generation > self._highest:
            await self._start(command)
        elif isinstance(command, Abort) and command.generation >= self._highest:
            await self._abort(command)
        elif isinstance(command, Wait):
            self._log.info("waiting", reason=command.reason)

    async def _abort(self, command: Abort) -> None:
        board = self._board
        if self._running is not None:
            self._log.info("aborting", generation=command.generation, reason=command.reason)
        async with self._lock:
            if board.now.generation == command.generation and board.now.phase.at_rest:
                return  # stopped before, or all ranks have ended well meanwhile
            exits = board.now.exits if board.now.generation == command.generation else ()
            await self._halt()
            self._highest = command.generation
            board.update(generation=command.generation, phase=RunPhase.STOPPED, exits=exits)

    async def _start(self, start: Start) -> None:
        async with self._lock:
            await self._halt()
        self._highest = start.generation
        self._board.update(generation=start.generation, phase=RunPhase.STARTING, exits=())
        self._log.info(
            "starting",
            generation=start.generation,
            restart_count=start.restart_count,
            ranks=start.world_size,
            nodes=start.group_world_size,
            reason=start.reason,
        )
        try:
            if not await self._ready(start):
                return
            async with self._lock:
                if self._wanted == start:
                    await self._spawn(start)
        except (StartError, OSError) as error:
            await self._start_failed(start, error)

    async def _start_failed(self, start: Start, error: Exception) -> None:
        if self._spawner.lost.is_set() and self._alive:
            return  # told as the exit of the ranks
        self._log.error("start_failed", generation=start.generation, reason=str(error))
        self._board.update(start_error=str(error))  # before the stop, so that it is told as the reason for it
        async with self._lock:
            await self._halt(grace=0)
            self._board.update(phase=RunPhase.STOPPED)

    async def _ready(self, start: Start) -> bool:
        """Wait for the warm-start process, unless the leader thinks better of it meanwhile."""
        ready = asyncio.create_task(self._spawner.ready())
        try:
            while not ready.done():
                news = asyncio.create_task(self._news.wait())
                await asyncio.wait([ready, news], return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if self._wanted != start:
                    self._news.set()
                    return False
                self._news.clear()
            ready.result()
            return True
        finally:
            ready.cancel()

    async def _spawn(self, start: Start) -> None:
        self._prepare.node_id = self._board.now.node_id
        ranks, self._logs = await self._prepare.ranks(start)
        listener: socket.socket | None = None
        if start.host_store:
            listener, self._listener = self._listener, self._listen()
            self._board.update(store_port=self.store_port)
        while not self._spawner.exits().empty():
            self._spawner.exits().get_nowait()  # of older generations: they came before the stop was confirmed
        self._running = start
        self._alive = {rank.local_rank for rank in ranks} | ({STORE} if start.host_store else set())
        self._pids = await self._spawner.start(ranks, listener, start.world_size)
        self._prepare.started(start, self._pids)
        if self._board.now.phase is RunPhase.STARTING:
            self._board.update(phase=RunPhase.RUNNING)

    async def _follow_exits(self) -> None:
        while True:
            spawner = self._spawner
            news = asyncio.create_task(spawner.exits().get())
            lost = asyncio.create_task(spawner.lost.wait())
            await asyncio.wait([news, lost], return_when=asyncio.FIRST_COMPLETED)
            lost.cancel()
            if news.done():
                await self._exited(news.result())
            else:
                news.cancel()
                if not spawner.was_ready:
                    return  # another would fail for the same reason: the next start tells it
                await self._replace_spawner()

    async def _replace_spawner(self) -> None:
        """The spawner process died, and its ranks with it: tell it as their exit, and have another one."""
        self._log.error("spawner_lost")
        async with self._lock:  # a start waits for the new one
            await self._spawner.close()
            self._spawner = await self._open()
            dead = sorted(self._alive - {STORE})
        for local_rank in dead:
            await self._exited(Exit(local_rank, 0, -signal.SIGKILL, time.time()))

    async def _exited(self, end: Exit) -> None:
        """An exit that we brought about is no news; the last of the others ends the run well if all were good."""
        start = self._running
        if start is None or end.local_rank not in self._alive or self._board.now.leaving:
            return
        self._alive.discard(end.local_rank)
        report = self._prepare.describe(end, start)
        exits = (*self._board.now.exits, report)
        if any(e.exit_code != 0 for e in exits):
            if end.exit_code != 0:
                self._log.warning(
                    "rank_failed",
                    generation=start.generation,
                    rank=report.rank,
                    pid=end.pid,
                    exit_code=end.exit_code,
                    message=report.message,
                )
            self._board.update(phase=RunPhase.FAILED, exits=exits)
        elif self._alive - {STORE}:
            self._board.update(exits=exits)
        else:
            await self._succeeded(start, exits)

    async def _succeeded(self, start: Start, exits: tuple[RankExit, ...]) -> None:
        async with self._lock:
            if self._running is not start:
                return  # stopped meanwhile
            self._alive.clear()
            await self._clear()
            self._board.update(phase=RunPhase.SUCCEEDED, exits=exits)
