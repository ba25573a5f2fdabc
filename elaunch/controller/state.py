"""The job's state machine: an event and a time in, the new state out. Nothing here waits, sends or reads a clock.

What follows from a state is read off it, not emitted: :func:`elaunch.controller.commands.command_for` says what each
node should be doing, ``job.uncommitted`` that a plan is to be written, :func:`next_deadline` when to look again. So a
message that is lost, or a leader that takes over in the middle, changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.aborting import finish_abort
from elaunch.controller.answering import follow_operations, forget_written
from elaunch.controller.draining import marked
from elaunch.controller.faults import diagnosed, node_lost, start_refused, status_received
from elaunch.controller.forming import try_plan
from elaunch.controller.job import Job, NodeView
from elaunch.controller.job_events import (
    Diagnosed,
    Event,
    LinkFailed,
    NodeJoined,
    NodeLost,
    OperationsWritten,
    OperatorCommand,
    PlanCommitted,
    StartRefused,
    StatusReceived,
)
from elaunch.controller.operations import operate
from elaunch.controller.probing import heard
from elaunch.controller.rerouting import link_failed
from elaunch.controller.running import follow
from elaunch.rendezvous.records import Phase


def step(job: Job, event: Event, now: float) -> Job:
    """``job`` after ``event`` at ``now`` (seconds of the leader's monotonic clock)."""
    after = _settle(_happened(job, event, now), now)
    about = _about(event)
    while after.operations:
        before, after = after, _settle(follow_operations(after, now, about), now)
        if after is before:
            break
    if after.phase.final and not job.phase.final:
        horizon = max((view.node.joined for view in after.nodes.values()), default=0)
        return replace(after, horizon=horizon)
    return after


def next_deadline(job: Job, now: float) -> float | None:
    """When time alone may change the state next (later than ``now``); None while it cannot."""
    times: list[float | None] = []
    if job.phase is Phase.WAITING:
        times = [job.since + job.policy.join_timeout, job.last_call]
        if job.formed:
            times.append(job.since + job.policy.reattach)
    elif job.phase is Phase.RUNNING:
        times = [job.grow_at]
    times += job.answer_by.values()
    times += [probing.until for probing in job.probing]
    return min((t for t in times if t is not None and t > now), default=None)


def _about(event: Event) -> str | None:
    """The only node whose view the event can have changed; None where anything may be new."""
    if isinstance(event, StatusReceived):
        return event.status.node_id
    return event.node_id if isinstance(event, NodeLost) else None


def _happened(job: Job, event: Event, now: float) -> Job:
    if isinstance(event, NodeJoined):
        seen = job.nodes.get(event.node.node_id)
        view = NodeView(event.node, seen.status if seen else None)
        job = job.with_node(marked(view, job.drained))
    elif isinstance(event, NodeLost):
        job = node_lost(job, event.node_id, now)
    elif isinstance(event, StatusReceived):
        job = status_received(job, event.status, now)
    elif isinstance(event, Diagnosed):
        job = diagnosed(job, event.generation, event.reason, event.host, now)
    elif isinstance(event, LinkFailed):
        job = link_failed(job, event.generation, event.text, now)
    elif isinstance(event, StartRefused):
        job = start_refused(job, event.generation, event.text, now)
    elif isinstance(event, PlanCommitted) and job.plan and event.generation == job.plan.generation:
        job = replace(job, uncommitted=False)
    elif isinstance(event, OperatorCommand):
        job = operate(job, event.operation, now, sealed=event.sealed)
    elif isinstance(event, OperationsWritten):
        job = forget_written(job, event.ids)
    return heard(job, about) if job.probing and (about := _about(event)) else job


def _settle(job: Job, now: float) -> Job:
    """Every transition that the present state allows, until none is left."""
    while True:
        after = _advance(job, now)
        if after is job:
            return job
        job = after


def _advance(job: Job, now: float) -> Job:
    if job.phase is Phase.WAITING:
        return try_plan(job, now)
    if job.phase is Phase.ABORTING:
        return finish_abort(job, now)
    if job.phase in (Phase.STARTING, Phase.RUNNING) and not job.uncommitted:
        return follow(job, now)
    return job
