"""What operators want of this node's ranks beside what they do: a signal, their stacks. Each request once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

import structlog

from elaunch.agent import trees
from elaunch.agent.evidence import show_stacks
from elaunch.agent.injecting import ALLOWED, Injector
from elaunch.agent.ranks import Ranks
from elaunch.agent.status import StatusBoard
from elaunch.agent.witness import Witness
from elaunch.controller.commands import Inject, Signal, Stacks
from elaunch.controller.node_status import Answer

KEPT = 64  # answers that the node's status holds,
KEPT_ROOM = 512 << 10  # and the characters of all their texts
WITHIN = 5.0  # seconds that ranks get to show their stacks
ROOM = 64 << 10  # characters of one answer
_KNOWN = 1000  # ids that are remembered, so that a new leader who asks again gets the same answer


class Requests:
    """Carries out requests side by side; the answers stand in the node's status.

    ``witnesses`` gives the ranks that run.
    """

    def __init__(
        self,
        ranks: Ranks,
        board: StatusBoard,
        witnesses: Callable[[], Sequence[Witness]],
        injector: Injector | None = None,
    ) -> None:
        self._ranks = ranks
        self._board = board
        self._witnesses = witnesses
        self._injector = injector
        self._known: dict[str, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, request: Signal | Stacks | Inject) -> None:
        """Do it, unless it was done before."""
        if request.id in self._known:
            return
        self._known[request.id] = None
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        task = asyncio.create_task(self._do(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _do(self, request: Signal | Stacks | Inject) -> None:
        pids = self._ranks.pids
        wanted = {n: pid for n, pid in pids.items() if not request.ranks or n in request.ranks}
        here = self._ranks.generation
        if isinstance(request, Inject) and (request.fault.inside or request.fault.what.target != "rank"):
            self._inject(request, {})  # of no process that has to be there already
        elif here is None or here.start.generation != request.generation:
            self._answer(request, False, f"generation {request.generation} does not run here")
        elif not wanted:
            self._answer(request, False, "no such rank runs here")
        elif isinstance(request, Inject):
            self._inject(request, wanted)
        elif isinstance(request, Signal):
            self._signal(request, wanted)
        else:
            await self._stacks(request, wanted)

    def _inject(self, request: Inject, pids: dict[int, int]) -> None:
        if self._injector is None:
            self._answer(request, False, f"this node was not started with {ALLOWED}")
        else:
            self._answer(request, *self._injector.begin(request, pids))

    def _signal(self, request: Signal, pids: dict[int, int]) -> None:
        spawner = self._ranks.spawner.pid
        sent = 0
        for pid in pids.values():
            process = trees.process(pid)
            # A pid whose end we have not heard of yet may be another's by now: only the spawner's child is a rank.
            if process is not None and process.parent == spawner and not process.zombie:
                sent += trees.send(process, request.signum)
        name = _name(request.signum)
        structlog.get_logger().info("signal_passed_on", signal=name, ranks=sent)
        self._answer(request, sent > 0, f"{name} sent to {sent} of {len(pids)} ranks")

    async def _stacks(self, request: Signal | Stacks, pids: dict[int, int]) -> None:
        witnesses = [witness for witness in self._witnesses() if witness.rank.local_rank in pids]
        try:
            told = await show_stacks(witnesses, WITHIN)
        except (ValueError, OSError):  # their pages were let go of, for those of the next generation
            self._answer(request, False, "the ranks ended before they answered")
            return
        self._answer(request, bool(witnesses), told or "no rank tells anything")

    def _answer(self, request: Signal | Stacks | Inject, ok: bool, text: str) -> None:
        text = text if len(text) <= ROOM else text[:ROOM] + "\n[... cut]"
        answers = (*self._board.now.answers, Answer(request.id, ok, text))
        self._board.update(answers=_newest(answers))


def _newest(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """Those that fit into a status: one that is dropped before a leader has seen it counts as never given."""
    kept: list[Answer] = []
    room = KEPT_ROOM
    for answer in reversed(answers[-KEPT:]):
        room -= len(answer.text)
        if room < 0:
            break
        kept.append(answer)
    return tuple(reversed(kept))


def _name(signum: int) -> str:
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"
