"""The moves from one phase to another that several rules make."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.job import Job
from elaunch.rendezvous.records import Phase, Reason


def abort(job: Job, now: float, reason: Reason) -> Job:
    """Stop the generation. The first reason stays; the job goes on or ends when every member has stopped."""
    if job.phase is Phase.ABORTING or job.phase.final:
        return job
    return replace(job, phase=Phase.ABORTING, reason=reason, since=now, charged=False, evidence=False, grow_at=None)


def end(job: Job, now: float, verdict: Phase, reason: Reason, exit_code: int) -> Job:
    """End the job as ``verdict``, after an abort where something runs."""
    if job.phase is Phase.WAITING:
        return replace(job, phase=verdict, verdict=verdict, reason=reason, exit_code=exit_code, since=now)
    return replace(
        job,
        phase=Phase.ABORTING,
        verdict=verdict,
        reason=reason,
        exit_code=exit_code,
        evidence=False,
        since=now,
        grow_at=None,
    )


def succeed(job: Job, now: float) -> Job:
    reason = Reason("succeeded", "every rank ended with 0")
    return replace(job, phase=Phase.SUCCEEDED, reason=reason, exit_code=0, since=now)
