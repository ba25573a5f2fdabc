"""Where a newly elected leader begins: with the job as it stands in etcd."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from elaunch.controller.answering import adopt_operations, lapse
from elaunch.controller.draining import with_drained
from elaunch.controller.job import Job, NodeView
from elaunch.controller.policy import Policy
from elaunch.controller.restarting import NODE_LOST
from elaunch.controller.roster import names
from elaunch.controller.transitions import abort
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.records import Node, Phase, Reason
from elaunch.rendezvous.state import State


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
        return _anew(replace(job, generation=max(generation, policy.floor)), state)
    job = _as_written(job, state, plan)
    job = adopt_operations(with_drained(job, state.drained), operations, now)
    if state.phase is Phase.WAITING:
        return job
    lost = [m.host for m in job.members if m.node_id not in views]
    if lost and not state.phase.final:
        return abort(job, now, Reason(NODE_LOST, f"lost {names(lost)}"))
    return job


def _anew(job: Job, state: State) -> Job:
    """None of its nodes is left: what is kept of the run before."""
    # Another run may begin with another world; one that only lost its nodes has spent what it has spent.
    if state.phase.final:
        return replace(job, plan=None, restart_count=0, hosts=state.hosts, rewinds=state.rewinds)
    job = replace(job, history=state.history, hosts=state.hosts, rewinds=state.rewinds, learnt=state.learnt)
    if job.members and state.phase is not Phase.WAITING:
        job = replace(job, reason=Reason(NODE_LOST, f"lost {names([m.host for m in job.members])}"))
    return replace(job, plan=None, restart_count=state.restart_count, link_restarts=state.link_restarts)


def _as_written(job: Job, state: State, plan: Plan | None) -> Job:
    """It goes on where the leader before has left it."""
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
        policy = replace(job.policy, min_nodes=state.min_nodes, max_nodes=state.max_nodes)
        job = replace(job, policy=policy, scaled=True)
    return job
