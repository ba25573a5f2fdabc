"""When a scheduler says that the job is to stop: how long there is, who handles that by himself, how the agent ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from pathlib import Path

from elaunch.agent.options import Scheduled
from elaunch.agent.start import Exit
from elaunch.agent.status import StatusBoard
from elaunch.controller.commands import End
from elaunch.controller.preemption import EXIT_WORK_REMAINS, NODE_REPLACED, TERMINATED, WARNED
from elaunch.rendezvous.waiting import within

HOLD = 1.0  # seconds
RESERVE = 10.0  # seconds before the end of the job: for ranks that do not end by themselves, and for the agent


def time_left(scheduled: Scheduled, now: float) -> float:
    """Seconds for the ranks to end by themselves; 0 where nothing is known. ``now`` is in seconds since the epoch."""
    return max(0.0, scheduled.ends_at - now - RESERVE) if scheduled.ends_at is not None else 0.0


def stopped_by_scheduler(scheduled: Scheduled, signum: signal.Signals) -> End:
    """How a node ends that a scheduler's signal stopped."""
    warned = signum is scheduled.notice_signal
    if scheduled.replaces and not warned:
        reason = f"{scheduled.scheduler} stopped this node ({signum.name}): work remains"
        return End("stopped", EXIT_WORK_REMAINS, NODE_REPLACED, reason)
    how = "said that the job's time is nearly up" if warned else "stopped the job"
    reason = f"{scheduled.scheduler} {how} ({signum.name}): work remains"
    return End("stopped", EXIT_WORK_REMAINS, WARNED if warned else TERMINATED, reason)


async def hold(end: Exit, scheduled: Scheduled | None, board: StatusBoard) -> None:
    """Before it is news that a rank died of a scheduler's signal: the agent has got it too, or will in a moment."""
    if scheduled is None or -end.exit_code not in (signal.SIGTERM, scheduled.notice_signal):
        return
    deadline = time.monotonic() + HOLD
    version, status = await board.newer_than(-1)
    while not status.leaving and (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(asyncio.TimeoutError):
            version, status = await within(left, board.newer_than(version))


def catches(pid: int, signum: signal.Signals) -> bool:
    """Whether a process handles a signal itself, as the kernel has it. False where it is gone."""
    return _told(pid, "SigCgt:", signum)


def ignores(pid: int, signum: signal.Signals) -> bool:
    """Whether a signal does nothing to a process. False where it is gone."""
    return _told(pid, "SigIgn:", signum)


def _told(pid: int, kind: str, signum: signal.Signals) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    for line in status.splitlines():
        if line.startswith(kind):
            return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False
