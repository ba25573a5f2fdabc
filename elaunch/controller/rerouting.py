"""What a broken link leads to (``--on-link-fault``): nothing, a next generation without it, or that at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from elaunch.controller.job import Job
from elaunch.controller.transitions import abort
from elaunch.links import BROKEN
from elaunch.rendezvous.memory import LinkFault
from elaunch.rendezvous.plan import AvoidedPort
from elaunch.rendezvous.records import Phase, Reason

REPORT = "report"
RESTART = "restart"
LINK_FAULT = "link_fault"
MOST_RESTARTS = 3  # within WINDOW: a port that flaps, or ever new ones, must not keep a job from working
WINDOW = 3600.0  # seconds


def link_failed(job: Job, generation: int, text: str, now: float) -> Job:
    """A port in use is broken: go on without it in a new generation, which is not charged, but bounded."""
    if generation != job.generation or job.uncommitted or job.phase not in (Phase.STARTING, Phase.RUNNING):
        return job
    if job.policy.on_link_fault != RESTART or job.succeeded or not may_restart(job, now):
        return job
    times = (*_recent(job, now), now + job.wall_offset)
    return replace(abort(job, now, Reason(LINK_FAULT, text)), link_restarts=times)


def may_restart(job: Job, now: float) -> bool:
    """Whether a restart for a link is left."""
    return len(_recent(job, now)) < MOST_RESTARTS


def refusal() -> str:
    """Why a job goes on with a broken link though it was to restart."""
    return f"the job goes on: it was restarted {MOST_RESTARTS} times for links within {WINDOW / 60:.0f} min"


def avoided(job: Job, hosts: Iterable[str]) -> tuple[AvoidedPort, ...]:
    """The ports that the next generation leaves out on these hosts.

    Those that it could do without last come first: a node that has no other left uses the last ones all the same.
    """
    if job.policy.on_link_fault == REPORT:
        return ()
    here = set(hosts)
    faults = sorted((fault for fault in job.links if fault.host in here), key=_badness)
    return tuple(AvoidedPort(fault.host, fault.port, _why(fault)) for fault in faults)


def _recent(job: Job, now: float) -> tuple[float, ...]:
    return tuple(time for time in job.link_restarts if now + job.wall_offset - time < WINDOW)


def _badness(fault: LinkFault) -> tuple[bool, float, int]:
    """Ports in trouble before those that are well, and among these the one that has been for longest last."""
    return fault.well > 0, -fault.well, BROKEN.index(fault.code) if fault.code in BROKEN else 0


def _why(fault: LinkFault) -> str:
    return f"until a short while ago it {fault.text}" if fault.well else f"it {fault.text}"
