"""The job's state machine: an event and a time in, the new state out. Nothing here waits, sends or reads a clock.

What follows from a state is read off it, not emitted: :func:`elaunch.controller.commands.command_for` says what each
node should be doing, ``job.uncommitted`` that a plan is to be written, :func:`next_deadline` when to look again. So a
message that is lost, or a leader that takes over in the middle, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from elaunch.controller.aborting import finish_abort
from elaunch.controller.answering import adopt_operations, follow_operations, forget_written, lapse
from elaunch.controller.draining import marked, with_drained
from elaunch.controller.faults import diagnosed, node_lost, start_refused, status_received
from elaunch.controller.forming import try_plan
from elaunch.controller.job import Job, NodeStatus, NodeView, Policy
from elaunch.controller.operations import operate
from elaunch.controller.probing import heard
from elaunch.controller.rerouting import link_failed
from elaunch.controller.roster import names
from elaunch.controller.running import follow
from elaunch.controller.transitions import abort
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.records import Node, Phase, Plan, Reason, State


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node's key appeared or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node's key is gone: its lease ended or was given back, so nothing of it runs any more."""

    node_id: str


@dataclass(frozen=True, slots=True)
class StatusReceived:
    """An agent told what it runs."""

    status: NodeStatus


@dataclass(frozen=True, slots=True)
class PlanCommitted:
    """The plan of ``generation`` stands in etcd."""

    generation: int


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The ranks of ``generation`` do not get on, and never will: ``reason`` names the culprit, ``host`` is its own."""

    generation: int
    reason: Reason
    host: str = ""


@dataclass(frozen=True, slots=True)
class LinkFailed:
    """A port that ranks of ``generation`` use is broken, as ``text`` says."""

    generation: int
    text: str


@dataclass(frozen=True, slots=True)
class StartRefused:
    """The ranks of ``generation`` do not make one job: ``text`` says which, and what differs."""

    generation: int
    text: str


@dataclass(frozen=True, slots=True)
class OperatorCommand:
    """An operator's command stands in etcd; ``sealed`` by one, where the job asks for that."""

    operation: Operation
    sealed: bool = True


@dataclass(frozen=True, slots=True)
class OperationsWritten:
    """The present standing of these operations stands in etcd."""

    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


Event = (
    NodeJoined
    | NodeLost
    | StatusReceived
    | PlanCommitted
    | Diagnosed
    | LinkFailed
    | StartRefused
    | OperatorCommand
    | OperationsWritten
    | Tick
)


def resume(
    policy: Policy,
    state: State | None,
    plan: Plan | None,
    nodes: Iterable[Node],
    now: float,
    operations: tuple[Operation, ...] = (),
    wall_offset: float = 0.0,
) -> Job:
    """The job as a newly elected leader finds it in etcd.

    A final state is still to be told while a node lives that had joined by then, spares included. One without is
    history: the job was started again under the same id, and goes on counting generations where the last run stopped,
    above the floor of a scheduler's start.
    ``operations`` are those that the former leader had accepted; ``wall_offset`` is what the wall clock is ahead of
    ``now``.
    """
    views = {node.node_id: NodeView(node) for node in nodes}
    job = Job(policy=policy, nodes=views, since=now, wall_offset=wall_offset, least=policy.min_nodes)
    job = lapse(job, operations)
    if state is None:
        return replace(job, generation=policy.floor)
    generation = max(state.generation, plan.generation if plan else 0)
    job = replace(job, generation=generation, plan=plan, links=state.links)
    if state.phase.final:
        alive = any(view.node.joined <= state.horizon for view in views.values())
    else:
        alive = any(m.node_id in views for m in job.members)
    if not alive:
        job = replace(job, generation=max(generation, policy.floor))
        # Another run may begin with another world; one that only lost its nodes has spent what it has spent.
        if state.phase.final:
            return replace(job, plan=None, restart_count=0, hosts=state.hosts, rewinds=state.rewinds)
        job = replace(job, history=state.history, hosts=state.hosts, rewinds=state.rewinds, learnt=state.learnt)
        return replace(job, plan=None, restart_count=state.restart_count, link_restarts=state.link_restarts)
    job = replace(
        job,
        phase=state.phase,
        restart_count=state.restart_count,
        reason=state.reason,
        exit_code=state.exit_code,
        verdict=Phase(state.verdict) if state.verdict else None,
        charged=state.charged,
        evidence=state.evidence,
        world=state.world,
        history=state.history,
        hosts=state.hosts,
        horizon=state.horizon,
        failures=(state.root,) if state.root else (),
        formed=True,
        from_step=state.from_step,
        learnt=state.learnt,
        restored=state.restored,
        rewinds=state.rewinds,
        unreachable=plan.unreachable if plan else (),
        link_restarts=state.link_restarts,
    )
    if state.max_nodes:
        policy = replace(policy, min_nodes=state.min_nodes, max_nodes=state.max_nodes)
        job = replace(job, policy=policy, scaled=True)
    job = adopt_operations(with_drained(job, state.drained), operations, now)
    if state.phase is Phase.WAITING:
        return job
    lost = [m.host for m in job.members if m.node_id not in views]
    if lost and not state.phase.final:
        return abort(job, now, Reason("node_lost", f"lost {names(lost)}"))
    return job


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
