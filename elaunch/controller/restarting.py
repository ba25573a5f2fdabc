"""What follows on a fault: the rules of :mod:`elaunch.controller.restarts`, read from the state of the job."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.commits import committed_step
from elaunch.controller.hang import ALL_WAITING, COLLECTIVE_MISMATCH
from elaunch.controller.job import Job
from elaunch.controller.restarts import Cause, Decision, Ending, RestartPolicy, decide, noted
from elaunch.controller.signs import FROZEN, HUNG, INTERPRETER_STUCK, SECTION_OVERRUN
from elaunch.controller.start_check import START_TIMEOUT
from elaunch.rendezvous.records import Phase, Reason

RANK_FAILED = "rank_failed"
NODE_LOST = "node_lost"
HANGS = frozenset({FROZEN, HUNG, INTERPRETER_STUCK, SECTION_OVERRUN, COLLECTIVE_MISMATCH, ALL_WAITING, START_TIMEOUT})
CAUSES = {RANK_FAILED: Cause.RANK_FAULT, NODE_LOST: Cause.NODE_FAULT, **dict.fromkeys(HANGS, Cause.HANG)}


def restart_policy(job: Job) -> RestartPolicy:
    """Where nothing tells whether the job gets on, and the budget ends its restarts anyway, no crash loop is seen."""
    policy = job.policy
    told = max(job.step, job.history.step, job.history.checkpoint, committed_step(job)) >= 0
    return RestartPolicy(
        max_restarts=policy.max_restarts,
        window=policy.restart_window or None,
        on_failure=policy.on_failure,
        crash_loop=policy.crash_loop if told or policy.restart_window else 0,
        suspect_after=policy.suspect_after,
    )


def foresee(job: Job, reason: Reason, exit_code: int, now: float) -> Decision:
    """What ``reason`` leads to, as far as it is known how the ranks ended."""
    ending = _ending(job, reason, exit_code, now)
    decision = decide(restart_policy(job), job.history, ending, now + job.wall_offset)
    changed = decision.reason.code != ending.cause.value  # else the reason's own code says more
    return replace(decision, reason=replace(decision.reason, code=decision.reason.code if changed else reason.code))


def _ending(job: Job, reason: Reason, exit_code: int, now: float) -> Ending:
    return Ending(
        cause=CAUSES.get(reason.code, Cause.MEMBERSHIP),
        text=reason.text,
        exits=tuple(failure.exit for failure in job.failures),
        world_size=job.plan.world_size if job.plan else 1,
        seconds=now - job.ran_since if job.ran_since is not None else 0.0,
        step=job.step,
        checkpoint=committed_step(job),
        restored=job.restored,
        exit_code=exit_code,
    )


def reckon(job: Job, now: float) -> Job:
    """``job``, all of whose ranks are gone: if it was after a fault, is it worth another generation?

    Only now is it known how all of them ended.
    """
    if job.reason.code not in CAUSES:
        ending = _ending(job, job.reason, 0, now)
        return replace(job, history=noted(restart_policy(job), job.history, ending, now + job.wall_offset))
    decision = foresee(job, job.reason, job.exit_code, now)
    job = replace(job, history=decision.history)
    if decision.restart:
        return job
    return replace(job, verdict=Phase.FAILED, reason=decision.reason, exit_code=decision.exit_code)
