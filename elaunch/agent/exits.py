"""How the ranks of this node end: what is news is told on the board, and the last good end ends the run well."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import structlog

from elaunch.agent.options import Scheduled
from elaunch.agent.preempting import hold
from elaunch.agent.ranks import Generation, Ranks
from elaunch.agent.spawner import Exit
from elaunch.agent.status import StatusBoard
from elaunch.agent.telling import Telling
from elaunch.controller.commands import Start
from elaunch.controller.node_status import RunPhase
from elaunch.rendezvous.state import RankExit
from elaunch.rendezvous.waiting import within

_LATE = 2.0  # seconds for a rank that has failed to end
_FRESH = 30.0  # seconds: who has left word earlier has outlived that


class Describe(Protocol):
    """What is known of an exit."""

    def __call__(self, exit_: Exit, start: Start, /) -> RankExit: ...


class Failing(Protocol):
    """When ranks left word of what ends them, in seconds since the epoch: those of them that did, ended or not."""

    def __call__(self, local_ranks: Iterable[int], /) -> Mapping[int, float]: ...


class Exits:
    """Follows the exits of the ranks, and the end of the spawner process, which takes them along."""

    def __init__(
        self,
        ranks: Ranks,
        board: StatusBoard,
        describe: Describe,
        telling: Telling,
        look: Callable[[], Awaitable[None]],
        failing: Failing,
        scheduled: Scheduled | None = None,
    ) -> None:
        """``look`` sees, in a bounded time, to what ``describe`` and ``failing`` need of a failure."""
        self._failing = failing
        self._look = look
        self._scheduled = scheduled
        self._ranks = ranks
        self._board = board
        self._describe = describe
        self._telling = telling
        self._log = structlog.get_logger()

    async def follow(self) -> None:
        """Until cancelled, or until a spawner process died before ranks could be started."""
        while True:
            spawner = self._ranks.spawner
            news = asyncio.create_task(spawner.exits().get())
            lost = asyncio.create_task(spawner.lost.wait())
            try:
                await asyncio.wait([news, lost], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for waiting in (news, lost):
                    waiting.cancel()  # of no effect on one that is done
            if news.done():
                await self._exited(news.result())
            elif not spawner.was_ready:
                return  # another would fail for the same reason: the next start tells it
            else:
                await self._spawner_lost()

    def give_up(self, local_rank: int, reason: str) -> None:
        """A rank that runs can be neither used nor ended: it counts as failed, and no rank starts here any more."""
        generation, pid = self._ranks.generation, self._ranks.pids.get(local_rank)
        if generation is None or pid is None or self._board.now.leaving:
            return
        start = generation.start
        self._log.error("rank_stuck", generation=start.generation, local_rank=local_rank, reason=reason)
        end = self._describe(Exit(local_rank, pid, -signal.SIGKILL, time.time(), start.generation), start)
        end = replace(end, message=reason)
        generation.alive.discard(local_rank)
        self._board.update(phase=RunPhase.FAILED, exits=(*self._board.now.exits, end), start_error=reason)

    async def _spawner_lost(self) -> None:
        """The spawner process died, and its ranks with it: tell it as their exit, and have another one."""
        self._log.error("spawner_lost")
        pids = self._ranks.pids
        number, dead = await self._ranks.replace_spawner()
        for local_rank in sorted(dead, key=lambda n: (dead[n] == -signal.SIGKILL, n)):  # first who ended by itself
            end = Exit(local_rank, pids.get(local_rank, 0), dead[local_rank], time.time(), number)
            await self._exited(end)

    async def _exited(self, end: Exit) -> None:
        """An exit that we brought about is no news; the last of the others ends the run well if all were good."""
        if end.exit_code != 0 and self._news(end) is not None:
            await hold(end, self._scheduled, self._board)
            await self._look()
        for one in await self._in_order(end):
            await self._tell(one)

    async def _in_order(self, end: Exit) -> list[Exit]:
        """An exit, and before it those of ranks that had failed before: the first to fail is the one to blame.

        A rank that raised an error takes its time to end, and a peer whose connection to it breaks may be faster. But
        nobody dies of a signal because a peer has failed, unless torch aborts it.
        """
        generation = self._news(end)
        if generation is None or end.exit_code == 0 or self._board.now.phase is RunPhase.FAILED:
            return [end]
        if end.exit_code < 0 and -end.exit_code != signal.SIGABRT:
            return [end]
        failing = self._failing(generation.alive)
        own = failing.get(end.local_rank, end.time)
        earlier = {n: since for n, since in failing.items() if own - _FRESH < since < own}
        found, missing, deadline = [end], set(earlier), time.monotonic() + _LATE
        while missing and (left := deadline - time.monotonic()) > 0:
            try:
                found.append(await within(left, self._ranks.spawner.exits().get()))
            except asyncio.TimeoutError:
                break
            missing.discard(found[-1].local_rank)
        return sorted(found, key=lambda one: earlier.get(one.local_rank, math.inf))

    async def _tell(self, end: Exit) -> None:
        generation = self._news(end)
        if generation is None:
            return  # of a start that is over, or one that was brought about by a stop
        generation.alive.discard(end.local_rank)
        if not generation.ranks:
            generation.ended.set()
        if self._board.now.leaving or generation.noticed or end.switched_off:
            return  # it was to end, or the lease is over, and that is what is told
        report = self._describe(end, generation.start)
        exits = (*self._board.now.exits, report)
        if any(e.exit_code != 0 for e in exits):
            if end.exit_code != 0:
                self._telling.failed(generation.start.generation, report)
            self._board.update(phase=RunPhase.FAILED, exits=exits)
        elif generation.ranks:
            self._board.update(exits=exits)
        else:
            await self._succeeded(generation, exits)

    def _news(self, end: Exit) -> Generation | None:
        """The generation that runs, if the exit is one of its own."""
        generation = self._ranks.generation
        if generation is None or end.start != generation.start.generation or end.local_rank not in generation.alive:
            return None
        return generation

    async def _succeeded(self, generation: Generation, exits: tuple[RankExit, ...]) -> None:
        async with self._ranks.lock:
            if self._ranks.generation is not generation:
                return  # stopped meanwhile
            generation.alive.clear()
            await self._ranks.clear()
            self._board.update(phase=RunPhase.SUCCEEDED, exits=exits)
