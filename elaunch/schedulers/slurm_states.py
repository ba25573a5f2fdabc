"""How Slurm says that a job stands, and whether one that ends is to be started again. Values only."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import Enum

MOST_STARTS = 20  # after the first, where nothing else is said
WORK_REMAINS = 85  # what agents end with when a scheduler stopped them: elaunch/controller/preemption.py
_AGAIN = {
    WORK_REMAINS: "work remains",
    69: "its etcd was lost",
    75: "too few of its nodes came",
}
_NEVER = {
    0: "it is done",
    2: "bad input stays bad",
    91: "its world has changed, and it needs the one that it began with",
    93: "a crash loop would go on",
    94: "an operator aborted it",
}


class JobState(Enum):
    """Slurm's states of a job, of 22.05 and later ones. UNKNOWN stands for all others."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    CONFIGURING = "CONFIGURING"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    RECONFIG_FAIL = "RECONFIG_FAIL"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    RESIZING = "RESIZING"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    REVOKED = "REVOKED"
    SIGNALING = "SIGNALING"
    STAGE_OUT = "STAGE_OUT"
    STOPPED = "STOPPED"
    POWER_UP_NODE = "POWER_UP_NODE"
    EXPEDITING = "EXPEDITING"
    UNKNOWN = "UNKNOWN"


_CALLED_OFF = (JobState.CANCELLED, JobState.DEADLINE, JobState.REVOKED)
_WAITS = (JobState.PENDING, JobState.REQUEUED, JobState.REQUEUE_FED, JobState.REQUEUE_HOLD, JobState.SPECIAL_EXIT)


def state_of(text: str) -> JobState:
    """``CANCELLED by 1000``, ``COMPLETED+`` and the like; UNKNOWN for what this release does not know."""
    match = re.match(r"[A-Z_]+", text.strip())
    try:
        return JobState(match[0]) if match else JobState.UNKNOWN
    except ValueError:
        return JobState.UNKNOWN


def state_in(told: str) -> JobState:
    """The state in what ``scontrol show job`` says.

    Of a job that is being ended it says COMPLETING whatever for. It was cancelled, then, if it has not come to its time
    limit and was not preempted; of nodes that failed Slurm starts it again without being asked.
    """
    said = dict(re.findall(r"(\w+)=(\S+)", told))
    state = state_of(said.get("JobState", ""))
    if state is not JobState.COMPLETING:
        return state
    if said.get("PreemptTime", "None") not in ("None", "N/A", "Unknown"):
        return JobState.PREEMPTED
    begin, end = _time(said.get("StartTime", "")), _time(said.get("EndTime", ""))
    limit = _span(said.get("TimeLimit", ""))
    if begin is None or end is None or limit is None or end - begin < limit - timedelta(seconds=1):
        return JobState.CANCELLED
    return JobState.TIMEOUT


def orphaned(told: str, first: str, code: int, restarts: int) -> tuple[list[str], str]:
    """What is to be asked of Slurm for a job whose batch script died with its host ``first``, and why; none: nothing.

    With ``--no-kill`` such a job holds its nodes to its time limit, though nobody hears what its step ended with.
    """
    said = dict(re.findall(r"(\w+)=(\S+)", told))
    if (said.get("BatchFlag"), said.get("BatchHost")) != ("1", first) or state_in(told) is not JobState.RUNNING:
        return [], ""
    wanted, why = requeued(code, JobState.RUNNING, restarts, MOST_STARTS)
    job = said.get("JobId", "")
    return (["scontrol", "requeue", job] if wanted else ["scancel", job]), why


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _span(text: str) -> timedelta | None:
    """``1-02:03:04``; None for UNLIMITED."""
    match = re.fullmatch(r"(?:([0-9]+)-)?([0-9]+):([0-9]+):([0-9]+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(days, seconds, minutes=minutes, hours=hours)


def requeued(code: int, state: JobState, restarts: int, at_most: int) -> tuple[bool, str]:
    """Whether a job whose step ended with ``code`` is to be requeued, and why.

    ``state`` is Slurm's word of the job while its script still runs, ``restarts`` how often it was started again, which
    may happen ``at_most`` times.
    """
    if code not in _AGAIN:
        return False, _NEVER.get(code, "the program failed, and elaunch has tried again as often as it may")
    if state in _CALLED_OFF:
        return False, f"Slurm has it as {state.value}"
    if state in _WAITS:
        return False, f"Slurm has it as {state.value}, to be started again without being asked"
    if restarts >= at_most:
        return False, f"it was started again {restarts} times, and may be {at_most} times"
    return True, _AGAIN[code]
