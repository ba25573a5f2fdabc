"""The ranks of this node: brings them to what the leader's newest command asks for, and tells how far that is."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

import structlog

from elaunch.agent.awake import keep_awake
from elaunch.agent.evidence import Evidence
from elaunch.agent.exits import Exits
from elaunch.agent.notice import Notice, Notified
from elaunch.agent.options import Scheduled
from elaunch.agent.ranks import Generation, Logs, Ranks
from elaunch.agent.spawner import STORE, Exit, RankStart, Spawner
from elaunch.agent.stack_groups import grouped
from elaunch.agent.status import StatusBoard
from elaunch.agent.telling import Telling
from elaunch.controller.commands import Abort, Command, Start, Wait
from elaunch.controller.node_status import RunPhase
from elaunch.errors import ElaunchError, NoRouteError, StartError
from elaunch.rendezvous.records import Reason
from elaunch.rendezvous.state import RankExit
from elaunch.rendezvous.waiting import beside, within

_TELL_WAIT = 1.0  # seconds that a wait lasts before a person is told of it

EVIDENCE_SHOWN = 2000  # characters of what is told of it; the rest is in the files


class Preparation(Protocol):
    """What a generation needs on this node before its ranks start, made by the agent from its options."""

    node_id: str

    @property
    def pages(self) -> Notified: ...

    def ahead(self) -> None: ...

    async def evidence(self, generation: int, why: Reason) -> Evidence: ...

    async def ranks(self, start: Start) -> tuple[list[RankStart], Logs]: ...

    def started(self, start: Start, pids: Mapping[int, int]) -> None: ...

    async def look(self) -> None: ...

    def describe(self, exit_: Exit, start: Start) -> RankExit: ...

    def failing(self, local_ranks: Iterable[int]) -> dict[int, float]: ...


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
        notice_signal: signal.Signals | None = None,
        max_restarts: int = 0,
        scheduled: Scheduled | None = None,
    ) -> None:
        self.ranks = Ranks(spawner, reopen, board, grace)
        self._notice = Notice(prepare.pages, self.ranks, grace, notice_signal, scheduled)
        self._telling = telling = Telling(max_restarts)
        self.exits = Exits(self.ranks, board, prepare.describe, telling, prepare.look, prepare.failing, scheduled)
        self._board = board
        self._prepare = prepare
        self._listen = listen
        self._wanted: Command | None = None
        self._news = asyncio.Event()
        self._highest = 0
        self._listener = listen()
        board.update(store_port=self.store_port)
        self._log = structlog.get_logger()

    @property
    def store_port(self) -> int:
        """The port on which this node listens for the next generation's store."""
        return int(self._listener.getsockname()[1])

    @property
    def wanted(self) -> Command | None:
        """What the leader has last said that this node is to do."""
        return self._wanted

    def want(self, command: Command) -> None:
        """The leader's newest command; what it replaces is not done any more. One that is repeated changes nothing."""
        if command == self._wanted:
            return
        self._wanted = command
        self._news.set()

    async def run(self) -> None:
        """Follow commands and exits until cancelled."""
        exits = asyncio.create_task(self.exits.follow())
        awake = asyncio.create_task(keep_awake(lambda: self.ranks.spawner))
        try:
            while True:
                news = asyncio.create_task(self._news.wait())
                try:
                    await beside([exits], news)
                finally:
                    news.cancel()
                self._news.clear()
                await self._obey(self._wanted)
        finally:
            exits.cancel()
            awake.cancel()
            await asyncio.gather(exits, awake, return_exceptions=True)

    async def leave(self, *, grace: float | None = None) -> None:
        """Whatever was wanted is not wanted any more: stop every process, and return when all are gone.

        ``grace`` in seconds, the usual one where None; it also shortens that of a stop that goes on already.
        """
        self._wanted = None
        self._news.set()
        await self.ranks.stop(grace)
        async with self.ranks.lock:  # a start that was on its way may have come through meanwhile
            await self.ranks.halt(grace)

    async def close(self) -> None:
        """End the spawner process, and let go of the listening socket."""
        self._listener.close()
        await self.ranks.spawner.close()

    async def _obey(self, command: Command | None) -> None:
        if isinstance(command, Start) and command.generation > self._highest:
            await self._start(command)
        elif isinstance(command, Abort) and command.generation >= self._highest:
            await self._abort(command)
        elif isinstance(command, Wait):
            await self._wait(command)

    async def _wait(self, command: Wait) -> None:
        """Tell what is waited for, if it still is after a moment: most waits of a start are over by then."""
        with contextlib.suppress(asyncio.TimeoutError):
            await within(_TELL_WAIT, self._news.wait())
            return
        self._log.info("waiting", reason=command.reason)

    async def _abort(self, command: Abort) -> None:
        board = self._board
        if self.ranks.generation is not None:
            self._telling.aborting(command, leaving=board.now.leaving)
        grace = await self._before_stop(command)
        self._prepare.ahead()
        async with self.ranks.lock:
            if board.now.generation == command.generation and board.now.phase.at_rest:
                return  # stopped before, or all ranks have ended well meanwhile
            exits = board.now.exits if board.now.generation == command.generation else ()
            await self.ranks.halt(grace)
            self._highest = command.generation
            board.update(generation=command.generation, phase=RunPhase.STOPPED, exits=exits)

    async def _before_stop(self, command: Abort) -> float | None:
        """What is done while the ranks still run; the grace that they have then, None for the usual one."""
        if command.evidence and self.ranks.generation is not None:
            found = await self._prepare.evidence(command.generation, Reason(command.code, command.reason))
            self._log.warning("evidence_saved", folder=found.folder, text=found.text)
            where = f"{found.folder}: " if found.folder else ""
            self._board.update(evidence=f"{where}{found.text}"[:EVIDENCE_SHOWN], stacks=grouped(found.ranks))
        if not command.notice:
            return None
        if not self._notice.heard:
            return self._notice.to_leave(command.code)
        await self._notice.give(command.reason, self._news, command.code)
        return self._notice.rest

    async def _start(self, start: Start) -> None:
        async with self.ranks.lock:
            await self.ranks.halt()
        self._highest = start.generation
        self._board.update(generation=start.generation, phase=RunPhase.STARTING, exits=(), evidence="", stacks=())
        self._telling.starting(start)
        try:
            if not await self._ready(start):
                return
            async with self.ranks.lock:
                if self._wanted == start:
                    await self._spawn(start)
        except (StartError, NoRouteError, OSError) as error:
            await self._start_failed(start, error)

    async def _start_failed(self, start: Start, error: Exception) -> None:
        generation = self.ranks.generation
        if self.ranks.spawner.lost.is_set() and generation is not None and generation.alive:
            return  # told as the exit of the ranks
        self._log.error("start_failed", generation=start.generation, reason=str(error))
        told = error if isinstance(error, ElaunchError) else StartError()
        # Before the stop, so that it is told as the reason for it.
        self._board.update(start_error=str(error), start_code=told.code, start_exit_code=told.exit_code)
        async with self.ranks.lock:
            await self.ranks.halt(grace=0)
            self._board.update(phase=RunPhase.STOPPED)

    async def _ready(self, start: Start) -> bool:
        """Wait for the warm-start process, unless the leader thinks better of it meanwhile."""
        ready = asyncio.create_task(self.ranks.spawner.ready())
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
        ranks, logs = await self._prepare.ranks(start)
        self.ranks.generation = generation = Generation(start, logs)
        listener: socket.socket | None = None
        if start.host_store:
            listener, self._listener = self._listener, self._listen()
            self._board.update(store_port=self.store_port)
        generation.alive = {rank.local_rank for rank in ranks} | ({STORE} if start.host_store else set())
        generation.pids = await self.ranks.spawner.start(ranks, listener, start.world_size, start.generation)
        self._prepare.started(start, generation.pids)
        if self._board.now.phase is RunPhase.STARTING:
            self._telling.running(start)
            self._board.update(phase=RunPhase.RUNNING)
