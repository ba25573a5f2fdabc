"""A generation that is being stopped: when nothing of it is left, and what comes then."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.job import Job
from elaunch.controller.mistrust import charged, screened
from elaunch.controller.restarting import reckon
from elaunch.controller.rewinding import unmet
from elaunch.controller.roster import all_members, all_succeeded, leaving_reason, unattached
from elaunch.controller.transitions import succeed
from elaunch.controller.unstartable import NO_ROUTE, exit_code, too_few, unstartable, why
from elaunch.rendezvous.records import Phase, Reason


def finish_abort(job: Job, now: float) -> Job:
    """All that could still run of the generation is gone when each member has said so, or lost its lease."""
    if job.uncommitted:
        return job
    job, over = all_members(job, lambda node_id: _at_rest(job, node_id))
    if not over:
        return job
    if job.verdict is not None:
        return replace(job, phase=job.verdict, since=now)
    if all_succeeded(job):
        return succeed(job, now)
    job = screened(charged(reckon(unmet(job), now), now), now)
    if job.verdict is not None:
        return replace(job, phase=job.verdict, since=now)
    if not job.ready and not unattached(job):
        return _last_node_gone(job, now)
    if job.reason.code == NO_ROUTE and too_few(job) and (view := unstartable(job)) is not None:
        return replace(job, phase=Phase.FAILED, exit_code=exit_code(view), since=now)
    return replace(job, phase=Phase.WAITING, exit_code=0, since=now, last_call=None)


def _at_rest(job: Job, node_id: str) -> bool:
    """A member that has lost its lease is not there any more."""
    view = job.nodes.get(node_id)
    return view is None or view.at_rest(job.generation)


def _last_node_gone(job: Job, now: float) -> Job:
    """Nobody is left to go on with: the job ends as its last nodes did."""
    if (view := unstartable(job)) is not None:
        return replace(job, phase=Phase.FAILED, reason=why(view), exit_code=exit_code(view), since=now)
    for view in job.nodes.values():
        if view.status and view.status.leaving:
            reason = Reason("stopped", leaving_reason(view))
            code = view.status.leaving_exit_code
            return replace(job, phase=Phase.STOPPED, reason=reason, exit_code=code, since=now)
    return replace(job, phase=Phase.WAITING, exit_code=0, since=now, last_call=None)
