"""The job's state machine: an event and a time in, the new state out. Nothing here waits, sends or reads a clock.

What follows from a state is read off it, not emitted: :func:`elaunch.controller.commands.command_for` says what each
node should be doing, ``job.uncommitted`` that a plan is to be written, :func:`next_deadline` when to look again. So a
message that is lost, or a leader that takes over in the middle, changes nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass, replace

from elaunch.controller.job import Failure, Job, NodeStatus, NodeView, Policy, RunPhase
from elaunch.controller.planning import make_plan
from elaunch.errors import JoinTimeoutError, StartError
from elaunch.rendezvous.records import Node, Phase, Plan, Reason, State
from elaunch.rendezvous.seating import order

EXIT_JOIN_TIMEOUT = JoinTimeoutError.exit_code
EXIT_START_FAILED = StartError.exit_code
STOPPED_EARLY = "stopped_early"
RANK_FAILED = "rank_failed"


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
class Tick:
    """Time passed."""


Event = NodeJoined | NodeLost | StatusReceived | PlanCommitted | Tick


def resume(policy: Policy, state: State | None, plan: Plan | None, nodes: Iterable[Node], now: float) -> Job:
    """The job as a newly elected leader finds it in etcd.

    A final state is still to be told while a node lives that had joined by then, spares included. One without is
    history: the job was started again under the same id, and goes on counting generations where the last run stopped.
    """
    views = {node.node_id: NodeView(node) for node in nodes}
    job = Job(policy=policy, nodes=views, since=now)
    if state is None:
        return job
    generation = max(state.generation, plan.generation if plan else 0)
    job = replace(job, generation=generation, plan=plan)
    if state.phase.final:
        alive = any(view.node.joined <= state.horizon for view in views.values())
    else:
        alive = any(m.node_id in views for m in job.members)
    if not alive:
        count = 0 if state.phase.final else state.restart_count
        return replace(job, plan=None, restart_count=count)
    job = replace(
        job,
        phase=state.phase,
        restart_count=state.restart_count,
        reason=state.reason,
        exit_code=state.exit_code,
        verdict=Phase(state.verdict) if state.verdict else None,
        charged=state.charged,
        horizon=state.horizon,
        formed=True,
    )
    if state.phase is Phase.WAITING:
        return job
    lost = [m.host for m in job.members if m.node_id not in views]
    if lost and not state.phase.final:
        return _abort(job, now, Reason("node_lost", f"lost {_names(lost)}"))
    return job


def step(job: Job, event: Event, now: float) -> Job:
    """``job`` after ``event`` at ``now`` (seconds of the leader's monotonic clock)."""
    after = _settle(_happened(job, event, now), now)
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
    return min((t for t in times if t is not None and t > now), default=None)


def waiting_for(job: Job) -> str:
    """What a waiting job waits for, as one sentence."""
    ready = job.ready
    policy = job.policy
    why = f" ({job.reason.text})" if job.formed else ""
    if ready < policy.min_nodes:
        return (
            f"{ready} of at least {policy.min_nodes} nodes are here{why}; "
            f"waiting up to {policy.join_timeout:.0f} s for the others (join_timeout)"
        )
    if job.last_call is not None:
        return f"{ready} of {policy.max_nodes} nodes are here; last call for {policy.last_call_timeout:.0f} s"
    return f"{ready} nodes are here; waiting until they are ready"


# --- events -------------------------------------------------------------------------------------------------------


def _happened(job: Job, event: Event, now: float) -> Job:
    if isinstance(event, NodeJoined):
        seen = job.nodes.get(event.node.node_id)
        job = job.with_node(NodeView(event.node, seen.status if seen else None))
    elif isinstance(event, NodeLost):
        job = _node_lost(job, event.node_id, now)
    elif isinstance(event, StatusReceived):
        job = _status(job, event.status, now)
    elif isinstance(event, PlanCommitted) and job.plan and event.generation == job.plan.generation:
        job = replace(job, uncommitted=False)
    return job


def _node_lost(job: Job, node_id: str, now: float) -> Job:
    view = job.nodes.get(node_id)
    if view is None:
        return job
    job = job.without_node(node_id)
    member = job.plan.member(node_id) if job.plan else None
    if member is None or node_id in job.succeeded:
        return job
    reason = Reason("node_lost", f"node {member.host} ({node_id}) was lost")
    if job.phase is Phase.ABORTING and job.reason.code == RANK_FAILED and not view.at_rest(job.generation):
        # Ranks that fail just before their node's lease ends, or its peers', failed because the node did.
        return replace(job, reason=reason, charged=False, verdict=None, exit_code=0)
    return _abort(job, now, reason) if job.phase in (Phase.STARTING, Phase.RUNNING) else job


def _status(job: Job, status: NodeStatus, now: float) -> Job:
    view = job.nodes.get(status.node_id)
    if view is None:
        return job  # of a node that is fenced, or not yet seen: its stream is refused by the server
    view = replace(view, status=status)
    job = job.with_node(view)
    if job.phase.final:
        return job
    if status.stop_job and job.verdict is None:
        reason = Reason("operator_stop", status.leaving_reason or f"stopped by an operator on {view.node.host}")
        return _end(job, now, Phase.STOPPED, reason, status.leaving_exit_code or 130)
    if status.leaving and not job.nodes.keys() - {status.node_id} and job.phase is Phase.WAITING:
        return _end(job, now, Phase.STOPPED, Reason("stopped", _leaving_reason(view)), status.leaving_exit_code)
    if job.uncommitted or status.generation != job.generation or not (job.plan and job.plan.member(status.node_id)):
        return job
    known = {f.exit.rank for f in job.failures}
    failed = tuple(Failure(view.node.host, e) for e in status.exits if e.exit_code and e.rank not in known)
    job = replace(job, failures=(*job.failures, *failed))
    if status.phase is RunPhase.SUCCEEDED:
        job = replace(job, succeeded=job.succeeded | {status.node_id})
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        return _member_status(job, view.node, status, now)
    if failed and job.reason.code == STOPPED_EARLY and job.verdict is None:
        return _rank_failed(replace(job, phase=Phase.RUNNING), now)
    return job


def _member_status(job: Job, node: Node, status: NodeStatus, now: float) -> Job:
    if job.failures:
        return _rank_failed(job, now)
    if status.start_error:
        return _abort(job, now, Reason("start_failed", f"{node.host}: {status.start_error}"))
    if status.phase in (RunPhase.STOPPED, RunPhase.STOPPING) and not status.leaving:
        return _abort(job, now, Reason(STOPPED_EARLY, f"node {node.host} had stopped its ranks"))
    return job


def _rank_failed(job: Job, now: float) -> Job:
    """The first failure to be heard of decides: within a node they come in order, between nodes clocks may differ."""
    first = job.failures[0]
    text = describe_exit(first)
    if job.restart_count < job.policy.max_restarts:
        return replace(_abort(job, now, Reason(RANK_FAILED, text)), charged=True)
    spent = f"; no restart left of {job.policy.max_restarts}" if job.policy.max_restarts else ""
    code = first.exit.exit_code
    return _end(job, now, Phase.FAILED, Reason(RANK_FAILED, text + spent), code if code > 0 else 128 - code)


def describe_exit(failure: Failure) -> str:
    """How a rank ended, as one sentence."""
    end = failure.exit
    how = f"exited with code {end.exit_code}" if end.exit_code > 0 else f"was killed by {_signal_name(-end.exit_code)}"
    return f"rank {end.rank} (local rank {end.local_rank}, pid {end.pid} on {failure.host}) {how}"


# --- transitions --------------------------------------------------------------------------------------------------


def _abort(job: Job, now: float, reason: Reason) -> Job:
    """Stop the generation. The first reason stays; the job goes on or ends when every member has stopped."""
    if job.phase is Phase.ABORTING or job.phase.final:
        return job
    return replace(job, phase=Phase.ABORTING, reason=reason, since=now, charged=False, grow_at=None)


def _end(job: Job, now: float, verdict: Phase, reason: Reason, exit_code: int) -> Job:
    """End the job as ``verdict``, after an abort where something runs."""
    if job.phase is Phase.WAITING:
        return replace(job, phase=verdict, verdict=verdict, reason=reason, exit_code=exit_code, since=now)
    return replace(
        job,
        phase=Phase.ABORTING,
        verdict=verdict,
        reason=reason,
        exit_code=exit_code,
        since=now,
        grow_at=None,
    )


def _settle(job: Job, now: float) -> Job:
    """Every transition that the present state allows, until none is left."""
    while True:
        after = _advance(job, now)
        if after is job:
            return job
        job = after


def _advance(job: Job, now: float) -> Job:
    if job.phase is Phase.WAITING:
        return _try_plan(job, now)
    if job.phase is Phase.ABORTING:
        return _finish_abort(job, now)
    if job.phase in (Phase.STARTING, Phase.RUNNING) and not job.uncommitted:
        return _follow(job, now)
    return job


def _follow(job: Job, now: float) -> Job:
    """A generation that starts or runs: has it started, ended well, or does the world change?"""
    if _all_succeeded(job):
        return _succeed(job, now)
    leaving = [v for v in _member_views(job) if v.status and v.status.leaving]
    if leaving:
        return _shrink(job, leaving[0], now)
    if job.phase is Phase.STARTING and all(_is_up(job, m.node_id) for m in job.members):
        job = replace(job, phase=Phase.RUNNING, since=now)
    return _grow(job, now)


def _all_succeeded(job: Job) -> bool:
    return bool(job.members) and all(m.node_id in job.succeeded for m in job.members)


def _succeed(job: Job, now: float) -> Job:
    return replace(job, phase=Phase.SUCCEEDED, reason=Reason("succeeded", "every rank ended with 0"), since=now)


def _is_up(job: Job, node_id: str) -> bool:
    if node_id in job.succeeded:
        return True
    view = job.nodes.get(node_id)
    status = view.status if view else None
    return status is not None and status.generation == job.generation and status.phase is RunPhase.RUNNING


def _shrink(job: Job, view: NodeView, now: float) -> Job:
    status = view.status
    assert status is not None
    rest = job.ready + len([v for v in job.nodes.values() if v.status is None])
    if rest >= job.policy.min_nodes:
        return _abort(job, now, Reason("node_left", f"node {view.node.host} was asked to leave"))
    text = _leaving_reason(view)
    if job.policy.max_nodes > 1:
        text += f"; {rest} nodes would be left of at least {job.policy.min_nodes}"
    return _end(job, now, Phase.STOPPED, Reason("stopped", text), status.leaving_exit_code)


def _grow(job: Job, now: float) -> Job:
    """A node that came late is taken in once no more follow, unless the job is full or about to end."""
    members = {m.node_id for m in job.members}
    waiting = [v for v in _eligible(job) if v.node.node_id not in members]
    if not waiting or len(members) >= job.policy.max_nodes or job.succeeded:
        return replace(job, grow_at=None) if job.grow_at is not None else job
    growths = job.growths if job.grown_at is not None and now - job.grown_at < job.policy.calm else 0
    if job.grow_at is None:
        return replace(job, grow_at=now + job.policy.settle * 2**growths, growths=growths)
    if now < job.grow_at or job.phase is not Phase.RUNNING:
        return job
    reason = Reason("node_joined", f"node {_names([v.node.host for v in waiting])} joined")
    return replace(_abort(job, now, reason), growths=job.growths + 1, grown_at=now)


def _finish_abort(job: Job, now: float) -> Job:
    """All that could still run of the generation is gone when each member has said so, or lost its lease."""
    if job.uncommitted or not all(v.at_rest(job.generation) for v in _member_views(job)):
        return job
    if job.verdict is not None:
        return replace(job, phase=job.verdict, since=now)
    if _all_succeeded(job):
        return _succeed(job, now)
    if not job.ready and not _unattached(job):
        return _last_node_gone(job, now)
    return replace(job, phase=Phase.WAITING, since=now, last_call=None)


def _last_node_gone(job: Job, now: float) -> Job:
    """Nobody is left to go on with: the job ends as its last nodes did."""
    for view in job.nodes.values():
        if view.status and view.status.start_error:
            reason = Reason("start_failed", f"{view.node.host}: {view.status.start_error}")
            return replace(job, phase=Phase.FAILED, reason=reason, exit_code=EXIT_START_FAILED, since=now)
        if view.status and view.status.leaving:
            reason = Reason("stopped", _leaving_reason(view))
            code = view.status.leaving_exit_code
            return replace(job, phase=Phase.STOPPED, reason=reason, exit_code=code, since=now)
    return replace(job, phase=Phase.WAITING, since=now, last_call=None)


def _try_plan(job: Job, now: float) -> Job:
    policy = job.policy
    if job.ready < policy.min_nodes:
        if now >= job.since + policy.join_timeout:
            text = (
                f"{job.ready} of at least {policy.min_nodes} nodes came within {policy.join_timeout:.0f} s"
                f" (join_timeout){'; before: ' + job.reason.text if job.formed else ''}"
            )
            return _end(job, now, Phase.FAILED, Reason("join_timeout", text), EXIT_JOIN_TIMEOUT)
        return replace(job, last_call=None) if job.last_call is not None else job
    if not job.formed and job.ready < policy.max_nodes:
        if job.last_call is None:
            return replace(job, last_call=now + policy.last_call_timeout)
        if now < job.last_call:
            return job
    if job.formed and _unattached(job) and job.ready < policy.max_nodes and now < job.since + policy.reattach:
        return job
    chosen = order((v.node for v in _eligible(job)), job.members, policy.max_nodes)
    if any(not job.nodes[node.node_id].at_rest(0) for node in chosen):
        return job
    return _adopt(job, make_plan(job, chosen, job.reason), now)


def _adopt(job: Job, plan: Plan, now: float) -> Job:
    return replace(
        job,
        phase=Phase.STARTING,
        generation=plan.generation,
        restart_count=plan.restart_count,
        plan=plan,
        uncommitted=True,
        charged=False,
        formed=True,
        failures=(),
        succeeded=frozenset(),
        last_call=None,
        grow_at=None,
        since=now,
    )


# --- views --------------------------------------------------------------------------------------------------------


def _eligible(job: Job) -> list[NodeView]:
    return [view for view in job.nodes.values() if view.eligible]


def _unattached(job: Job) -> bool:
    """A node with a live key has no stream yet: after a change of leader, it is still on its way."""
    return any(view.status is None for view in job.nodes.values())


def _member_views(job: Job) -> list[NodeView]:
    return [job.nodes[m.node_id] for m in job.members if m.node_id in job.nodes]


def _leaving_reason(view: NodeView) -> str:
    told = view.status.leaving_reason if view.status else ""
    return told or f"node {view.node.host} was asked to leave"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _names(hosts: Iterable[str]) -> str:
    return ", ".join(hosts)
