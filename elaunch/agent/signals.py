"""Signals to the agent: some are passed to the ranks, others mean that this node, or the whole job, is to stop."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol

import structlog

from elaunch.agent.options import Scheduled
from elaunch.agent.preempting import catches, stopped_by_scheduler, time_left
from elaunch.agent.status import StatusBoard
from elaunch.controller.commands import End
from elaunch.controller.preemption import EXIT_WORK_REMAINS

PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
UNHEARD = 2.0  # seconds after which a node that no leader hears decides for itself


def stopped_by(signum: signal.Signals) -> End:
    """How a node ends that a signal stopped while no leader could say so."""
    return End("stopped", 128 + signum, "signal", f"stopped by {signum.name}")


class Leaver(Protocol):
    """A membership that can be ended from here."""

    @property
    def attached(self) -> bool: ...

    def resign(self, end: End) -> None: ...


class Ranks(Protocol):
    """The ranks of this node, as signals see them."""

    stop_signal: signal.Signals
    hurry: asyncio.Event

    @property
    def pids(self) -> Mapping[int, int]: ...

    async def signal(self, signum: signal.Signals) -> None: ...


class SignalWatch:
    """Handles the signals of ``--signals-to-handle`` from entering to leaving the context.

    SIGINT asks for the end of the job, every other stop signal for this node's leave. Under a scheduler SIGTERM and its
    warning signal ask for the end of the job too, as they come to all nodes, with another exit code: work remains.
    SIGUSR1 and SIGUSR2 else go to the ranks and nothing else happens. A SIGHUP that was ignored when the agent started
    (nohup) stays ignored. While the node has not joined, or has lost its lease, a stop signal cancels the agent's main
    task.
    """

    def __init__(self, handled: Sequence[signal.Signals], scheduled: Scheduled | None = None) -> None:
        self._scheduled = scheduled
        self._warning = scheduled.notice_signal if scheduled is not None else None
        ignored = {s for s in handled if signal.getsignal(s) is signal.SIG_IGN}
        self._stopping = [s for s in handled if s not in PASSED_ON and s not in ignored]
        self.first: signal.Signals | None = None
        self._leaver: Leaver | None = None
        self._board: StatusBoard | None = None
        self._ranks: Ranks | None = None
        self._patience = 0.0
        self._leaving: asyncio.Task[None] | None = None
        self._passing: set[asyncio.Task[None]] = set()

    def __enter__(self) -> SignalWatch:
        self._loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        for signum in self._stopping:
            self._loop.add_signal_handler(signum, self._stop, signum)
        for signum in PASSED_ON:
            self._loop.add_signal_handler(signum, self._pass_on, signum)
        if self._warning is not None:
            self._loop.add_signal_handler(self._warning, self._warned, self._warning)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum in {*self._stopping, *PASSED_ON, *([self._warning] if self._warning else [])}:
            self._loop.remove_signal_handler(signum)
        self.detach()
        for task in self._passing:
            task.cancel()

    def attach(self, leaver: Leaver, board: StatusBoard, ranks: Ranks, patience: float) -> None:
        """From now on the node has joined: ``patience`` is the grace of its ranks, in seconds."""
        self._leaver, self._board, self._ranks, self._patience = leaver, board, ranks, patience

    def detach(self) -> None:
        """The node is no member any more; nobody waits for its leave."""
        self._leaver = self._board = self._ranks = None
        if self._leaving is not None:
            self._leaving.cancel()

    def _pass_on(self, signum: signal.Signals) -> None:
        if self._ranks is not None:
            task = asyncio.ensure_future(self._ranks.signal(signum))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    def _warned(self, signum: signal.Signals) -> None:
        """The job's time is nearly up, a scheduler says. Ranks that handle the signal themselves get it instead."""
        ranks = self._ranks
        if signum in PASSED_ON and ranks is not None and any(catches(pid, signum) for pid in ranks.pids.values()):
            self._pass_on(signum)
        else:
            self._stop(signum)

    def leave(self, reason: str) -> None:
        """Leave as after a SIGTERM, on an operator's word that came through the leader."""
        if self._board is not None and not self._board.now.leaving:
            self._stop(signal.SIGTERM, reason)

    def _stop(self, signum: signal.Signals, reason: str = "") -> None:
        again = self.first is not None
        self.first = self.first or signum
        if reason:
            structlog.get_logger().info("asked_to_leave", reason=reason)
        else:
            structlog.get_logger().info("signal_received", signal=signum.name)
        if self._leaver is None or self._board is None or self._ranks is None:
            if self._main is not None and not again:
                self._main.cancel()
            return
        if again and self.first is self._warning and signum is not self._warning:
            self._ranks.hurry.set()
        self._ranks.stop_signal = signal.SIGTERM if self.first is self._warning else self.first
        end = stopped_by(self.first) if reason else self.end(self.first)
        whole = self._scheduled is not None and self._scheduled.whole
        self._board.update(
            leaving=True,
            leaving_reason=reason or end.reason,
            leaving_exit_code=end.exit_code,
            leaving_code=end.code if end.exit_code == EXIT_WORK_REMAINS else "",
            stop_job=self.first is signal.SIGINT or (whole and end.exit_code == EXIT_WORK_REMAINS),
        )
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._leave_alone(self._leaver, self.first))

    def end(self, signum: signal.Signals) -> End:
        """How a node ends that this signal stopped while no leader could say so."""
        if self._scheduled is not None and signum in (signal.SIGTERM, self._warning):
            return stopped_by_scheduler(self._scheduled, signum)
        return stopped_by(signum)

    async def _leave_alone(self, leaver: Leaver, signum: signal.Signals) -> None:
        """Leave without a leader's word where none is heard, now or once the grace is over."""
        await asyncio.sleep(UNHEARD)
        if leaver.attached:
            patience = self._patience
            if self._scheduled is not None and signum is self._warning:
                patience = max(patience, time_left(self._scheduled, time.time()) + patience)
            elif self._scheduled is not None:
                patience = max(patience, self._scheduled.leave_seconds)
            await asyncio.sleep(patience + UNHEARD)
        leaver.resign(self.end(signum))
