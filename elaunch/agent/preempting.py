"""When a scheduler says that the job is to stop: how long there is, who handles that by himself, how the agent ends."""

from __future__ import annotations

import signal
from pathlib import Path

from elaunch.agent.options import Scheduled
from elaunch.controller.commands import End
from elaunch.controller.preemption import EXIT_WORK_REMAINS, TERMINATED, WARNED

RESERVE = 10.0  # seconds before the end of the job: for ranks that do not end by themselves, and for the agent


def time_left(scheduled: Scheduled, now: float) -> float:
    """Seconds for the ranks to end by themselves; 0 where nothing is known. ``now`` is in seconds since the epoch."""
    return max(0.0, scheduled.ends_at - now - RESERVE) if scheduled.ends_at is not None else 0.0


def stopped_by_scheduler(scheduled: Scheduled, signum: signal.Signals) -> End:
    """How a node ends that a scheduler's signal stopped."""
    warned = signum is scheduled.notice_signal
    how = "said that the job's time is nearly up" if warned else "stopped the job"
    reason = f"{scheduled.scheduler} {how} ({signum.name}): work remains"
    return End("stopped", EXIT_WORK_REMAINS, WARNED if warned else TERMINATED, reason)


def catches(pid: int, signum: signal.Signals) -> bool:
    """Whether a process handles a signal itself, as the kernel has it. False where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    for line in status.splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False
