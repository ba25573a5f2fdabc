"""Faults that this node brings about on an operator's word, if it was started with ``--allow-injection``.

A signal is sent by the agent itself. What lasts is held by a process beside it (``elaunch.inject.holding``), which
undoes it after the duration, and when the agent is gone. What is to happen at a point of the program the rank does to
itself, but for a stop: it waits there to be stopped. Each fault is told to the leader twice, when it begins and when it
is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from elaunch.agent import trees
from elaunch.agent.holder import Holder
from elaunch.agent.inject_pages import UNDONE, Armed, InjectPages, News
from elaunch.agent.ranks import Ranks
from elaunch.agent.status import StatusBoard
from elaunch.controller.commands import Inject
from elaunch.inject.fault import Fault
from elaunch.inject.kinds import UNDO
from elaunch.rendezvous.waiting import within

ALLOWED = "--allow-injection"
BEGAN, ENDED = "injection_began", "injection_ended"
LOOK = 0.02  # seconds between two looks at the pages, while something is armed
_ABOUT = 0.1  # seconds for a rank that has just read what was armed to begin it, and say so
HEARD = 3.0  # seconds for the leader to note what an agent is about to do to itself
_TREE = "ELAUNCH_SYSFS_ROOT"

Tell = Callable[[str, int, str], None]


class Injector:
    """``pages`` is None where nothing may be injected. ``tell`` takes a kind of event, a rank or -1, a sentence."""

    def __init__(
        self,
        ranks: Ranks,
        board: StatusBoard,
        pages: InjectPages | None,
        tell: Tell,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._ranks = ranks
        self._board = board
        self._pages = pages
        self._tell = tell
        self._root = environ.get(_TREE, "")
        self._tasks: set[asyncio.Task[None]] = set()
        self._lasting: dict[asyncio.Future[None], Fault] = {}
        self._holder = Holder(pages.spare if pages is not None else lambda _: None)
        if pages is not None:
            pages.news = self._hear

    def begin(self, request: Inject, pids: Mapping[int, int]) -> tuple[bool, str]:
        """Whether it is on its way, and what is to be said of it; ``pids`` are the ranks that it is for."""
        fault = request.fault
        if self._pages is None:
            return False, f"this node was not started with {ALLOWED}"
        if fault.what is UNDO:
            return self._undo(fault.rank, self._pages)
        if fault.inside:
            if wrong := self._pages.arm(request.id, fault):
                return False, wrong
            self._do(self._watch())
            return True, f"{fault}: armed for rank {fault.rank}"
        if fault.what.target == "rank":
            return self._rank(fault, pids)
        if fault.what.target == "port":
            return self._port(fault)
        if fault.what.target == "node":
            self._do(self._agent(fault))
            return True, f"{fault}: this agent (pid {os.getpid()})"
        return False, f"{fault.kind} is brought about from outside of a job only (elaunch.lab)"

    def _undo(self, rank: int, pages: InjectPages) -> tuple[bool, str]:
        """End what is of a rank, or with -1 of all of this node."""
        undone: dict[str, None] = {}
        stays = ""
        for armed in [one for number, one in pages.armed.items() if rank in (-1, number) and not one.withdrawn]:
            if pages.withdraw(armed):
                self._do(self._withdrawn(armed, pages))
                undone[str(armed.fault)] = None
            else:
                stays = f"{armed.fault} of rank {armed.fault.rank} has begun, and ends with it only"
        for hold, fault in self._lasting.items():
            if rank in (-1, fault.rank):
                hold.cancel()
                undone[str(fault)] = None
        text = f"undone: {', '.join(undone)}" if undone else "there is nothing to undo"
        return bool(undone) and not stays, "; ".join(filter(None, [stays, text if undone or not stays else ""]))

    async def _withdrawn(self, armed: Armed, pages: InjectPages) -> None:
        """A rank that was about to begin it has done so by then."""
        await asyncio.sleep(_ABOUT)
        pages.withdrawn(armed)

    async def close(self) -> None:
        """Undo what still lasts."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(asyncio.TimeoutError):
            await self._holder.close()

    def _do(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _rank(self, fault: Fault, pids: Mapping[int, int]) -> tuple[bool, str]:
        found = [p for pid in pids.values() if (p := self._process(pid)) is not None]
        if not found:
            return False, "no such rank runs here"
        who = f"rank {fault.rank} (pid {found[0].pid})"
        if fault.kind == "kill":
            self._tell(BEGAN, fault.rank, str(fault))
            sent = trees.send(found[0], fault.signal)
            self._tell(ENDED, fault.rank, f"{fault}: {'sent' if sent else 'it had ended'}")
            return sent, f"{fault}: {who}"
        share = fault.share if fault.kind == "slow-cpu" else 0.0
        wish = {"pids": [[p.pid, p.started] for p in found], "share": share, "period": fault.period}
        self._do(self._hold(fault, fault.rank, wish))
        return True, f"{fault}: {who}"

    def _process(self, pid: int) -> trees.Process | None:
        """A pid whose end we have not heard of yet may be another's by now: only the spawner's child is a rank."""
        found = trees.process(pid)
        return found if found and found.parent == self._ranks.spawner.pid and not found.zombie else None

    def _port(self, fault: Fault) -> tuple[bool, str]:
        if not self._root:
            return False, f"ports are changed in a tree that stands for sysfs only, and ${_TREE} is not set"
        files = _files(Path(self._root), fault.port)
        if not files:
            return False, f"no port {fault.port!r} below {self._root}"
        share = 0.5 if fault.kind == "link-flap" else 0.0
        self._do(self._hold(fault, -1, {"files": files, "share": share, "period": fault.period}))
        return True, f"{fault}: port {fault.port}"

    async def _agent(self, fault: Fault) -> None:
        """Told, and noted by the leader, before it is done: afterwards there is nobody to tell it."""
        me = trees.process(os.getpid())
        if me is None:
            return
        self._tell(BEGAN, -1, str(fault))
        with contextlib.suppress(asyncio.TimeoutError):
            await within(HEARD, self._noted())
        if fault.kind == "agent-kill":
            os.kill(os.getpid(), signal.SIGKILL)
        await self._hold(fault, -1, {"pids": [[me.pid, me.started]]}, told=True)

    async def _noted(self) -> None:
        version = -1
        while self._board.now.lines:
            version, _ = await self._board.newer_than(version)

    async def _hold(self, fault: Fault, rank: int, wish: dict[str, Any], told: bool = False) -> None:
        """Have the process beside us do it, and undo it."""
        if not told:
            self._tell(BEGAN, rank, str(fault))
        self._tell(ENDED, rank, f"{fault}: {await self._held(fault, wish)}")

    async def _held(self, fault: Fault, wish: dict[str, Any]) -> str:
        """What is to be said of it at its end."""
        hold = asyncio.ensure_future(self._holder.hold({"seconds": fault.seconds, **wish}))
        self._lasting[hold] = fault
        try:
            await asyncio.wait([hold])
        finally:
            del self._lasting[hold]
            hold.cancel()
        if not hold.cancelled() and (error := hold.exception()) is not None:
            return f"it could not be brought about: {error}"
        return UNDONE

    async def _watch(self) -> None:
        """Hear what ranks do to themselves, until nothing is armed."""
        while self._pages is not None and self._pages.armed:
            self._pages.look()
            await asyncio.sleep(LOOK)

    def _hear(self, news: News) -> None:
        fault = news.armed.fault
        if not news.ended:
            self._tell(BEGAN, fault.rank, str(fault))
            if fault.kind == "stop":
                self._do(self._stop(news.armed))
            return
        what = "over" if news.armed.began else "it did not come to it"
        self._tell(ENDED, fault.rank, f"{fault}: {news.text or what}")

    async def _stop(self, armed: Armed) -> None:
        """The rank is at the point where it is to be stopped, and goes on once that is over."""
        if armed.withdrawn:
            return
        rank = armed.fault.rank
        pid = next((pid for n, pid in self._ranks.pids.items() if self._rank_of(n) == rank), 0)
        if (found := self._process(pid)) is not None:
            await self._held(armed.fault, {"pids": [[found.pid, found.started]]})
        if self._pages is not None:
            self._pages.release(armed)

    def _rank_of(self, local_rank: int) -> int:
        generation = self._ranks.generation
        return generation.start.rank0 + local_rank if generation is not None else -1


def _files(root: Path, port: str) -> Sequence[tuple[str, str, str]]:
    """The files that say that a port is down, what they say then, and what they say now: first why, then that it is."""
    name, _, number = port.partition(":")
    device = root / "sys/class/infiniband" / name / "ports" / (number or "1")
    interface = root / "sys/class/net" / name
    down = {device / "phys_state": "2: Polling\n", device / "state": "1: DOWN\n"}
    down |= {interface / "operstate": "down\n", interface / "carrier": "0\n"}
    found = []
    for path, during in down.items():
        with contextlib.suppress(OSError):
            found.append((str(path), during, path.read_text()))
    return found
