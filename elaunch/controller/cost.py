"""What a failure now would cost a job: the work that is in no checkpoint. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.controller.job import Job
from elaunch.rendezvous.records import Phase
from elaunch.rendezvous.state import UNTOLD


@dataclass(frozen=True, slots=True)
class Cost:
    """``seconds`` of work, and ``steps``, -1 where the program tells none."""

    seconds: float
    steps: int


def cost(job: Job, step: int, now: float) -> Cost:
    """What is done again if the ranks fail at ``now``, the furthest of them at ``step`` (-1 for untold).

    A checkpoint holds what was there when its save began, not when it was recorded.
    """
    if job.phase is not Phase.RUNNING or job.ran_since is None:
        return Cost(0.0, 0 if step >= 0 else -1)
    seconds, last = now - job.ran_since, job.checkpoint
    if last is not None and last.generation == job.generation:
        seconds = min(seconds, now + job.wall_offset - last.time + last.seconds)
        begin = last.step
    elif job.restored == UNTOLD:
        begin = last.step if last is not None else 0
    else:
        begin = max(job.restored, 0)
    return Cost(max(0.0, seconds), step - begin if step >= begin else -1)
