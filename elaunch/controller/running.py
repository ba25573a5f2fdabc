"""A generation that starts or runs: when it is up, when it has ended well, when the world is to change."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.job import Job, NodeView
from elaunch.controller.node_status import RunPhase
from elaunch.controller.preemption import LEFT, NODE_REPLACED
from elaunch.controller.roster import all_members, all_succeeded, eligible, fewest, leaving_reason, member_views, names
from elaunch.controller.transitions import abort, end, succeed
from elaunch.rendezvous.records import Phase, Reason


def follow(job: Job, now: float) -> Job:
    """A generation that starts or runs: has it started, ended well, or does the world change?"""
    if all_succeeded(job):
        return succeed(job, now)
    leaving = [view for view in member_views(job) if view.leaving] if job.leaving else []
    if leaving:
        return _shrink(job, leaving[0], now)
    if job.phase is Phase.STARTING:
        job, up = all_members(job, lambda node_id: _is_up(job, node_id))
        job = replace(job, phase=Phase.RUNNING, since=now, ran_since=now) if up else job
    return _grow(job, now)


def _is_up(job: Job, node_id: str) -> bool:
    if node_id in job.succeeded:
        return True
    view = job.nodes.get(node_id)
    status = view.status if view else None
    return status is not None and status.generation == job.generation and status.phase is RunPhase.RUNNING


def _shrink(job: Job, view: NodeView, now: float) -> Job:
    status = view.status
    assert status is not None
    rest = job.ready + len([v for v in job.nodes.values() if v.status is None and not v.barred])
    if rest >= fewest(job) or (rest and status.leaving_code == NODE_REPLACED):
        return abort(job, now, Reason(LEFT, f"node {view.node.host} was asked to leave"))
    text = leaving_reason(view)
    if rest:
        text += f"; {rest} nodes would be left of at least {fewest(job)}"
    return end(job, now, Phase.STOPPED, Reason("stopped", text), status.leaving_exit_code)


def _not_in(job: Job) -> list[NodeView]:
    members = {m.node_id for m in job.members}
    return [view for view in eligible(job) if view.node.node_id not in members]


def _grow(job: Job, now: float) -> Job:
    """A node that came late is taken in once no more follow, unless the job is full or about to end."""
    count = len(job.members)
    full = count >= job.policy.max_nodes or len(job.nodes) <= count  # the members are here, or some have succeeded
    if full or job.succeeded or not (waiting := _not_in(job)):
        return replace(job, grow_at=None) if job.grow_at is not None else job
    growths = job.growths if job.grown_at is not None and now - job.grown_at < job.policy.calm else 0
    if job.grow_at is None:
        return replace(job, grow_at=now + job.policy.settle * 2**growths, growths=growths)
    if now < job.grow_at or job.phase is not Phase.RUNNING:
        return job
    reason = Reason("node_joined", f"node {names([v.node.host for v in waiting])} joined")
    return replace(abort(job, now, reason), growths=job.growths + 1, grown_at=now)
