"""What is told of the nodes, and what of it ends a generation or the job."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace

from elaunch.controller.job import Job, NodeView
from elaunch.controller.node_status import NodeStatus, RunPhase
from elaunch.controller.restarting import NODE_LOST, RANK_FAILED, foresee
from elaunch.controller.roster import leaving_reason
from elaunch.controller.start_check import START_CHECK, ended_in
from elaunch.controller.transitions import abort, end
from elaunch.controller.unstartable import could_not_start
from elaunch.errors import StartCheckError
from elaunch.rendezvous.records import Node, Phase, Reason
from elaunch.rendezvous.state import Failure
from elaunch.start_record import StartRecord

STOPPED_EARLY = "stopped_early"
EXIT_HANG = 92


def node_lost(job: Job, node_id: str, now: float) -> Job:
    view = job.nodes.get(node_id)
    if view is None:
        return job
    job = job.without_node(node_id)
    member = job.plan.member(node_id) if job.plan else None
    if member is None or node_id in job.succeeded:
        return job
    job = replace(job, blamed=member.host)
    reason = Reason(NODE_LOST, f"node {member.host} ({node_id}) was lost")
    if job.phase is Phase.ABORTING and job.reason.code == RANK_FAILED and not view.at_rest(job.generation):
        # Ranks that fail just before their node's lease ends, or its peers', failed because the node did.
        return replace(job, reason=reason, charged=False, verdict=None, exit_code=0)
    return abort(job, now, reason) if job.phase in (Phase.STARTING, Phase.RUNNING) else job


def status_received(job: Job, status: NodeStatus, now: float) -> Job:
    view = job.nodes.get(status.node_id)
    if view is None:
        return job  # of a node that is fenced, or not yet seen: its stream is refused by the server
    view = replace(view, status=status)
    job = job.with_node(view)
    if job.phase.final:
        return job
    if status.stop_job and job.verdict is None:
        text = status.leaving_reason or f"stopped by an operator on {view.node.host}"
        reason = Reason(status.leaving_code or "operator_stop", text)
        return end(job, now, Phase.STOPPED, reason, status.leaving_exit_code or 130)
    if status.leaving and not job.nodes.keys() - {status.node_id} and job.phase is Phase.WAITING:
        return end(job, now, Phase.STOPPED, Reason("stopped", leaving_reason(view)), status.leaving_exit_code)
    if job.uncommitted or status.generation != job.generation or not (job.plan and job.plan.member(status.node_id)):
        return job
    if fault := next((s.fault for s in status.starts if s.fault and s.generation == job.generation), ""):
        job = start_refused(job, status.generation, fault, now)
    known = {f.exit.rank for f in job.failures}
    failed = tuple(Failure(view.node.host, e) for e in status.exits if e.exit_code and e.rank not in known)
    if failed:
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
        return could_not_start(job, NodeView(node, status), now)
    if status.phase in (RunPhase.STOPPED, RunPhase.STOPPING) and not status.leaving:
        return abort(job, now, Reason(STOPPED_EARLY, f"node {node.host} had stopped its ranks"))
    return job


def _rank_failed(job: Job, now: float) -> Job:
    """The first failure to be heard of decides: within a node they come in order, between nodes clocks may differ."""
    first = job.failures[0]
    code = first.exit.exit_code
    job = replace(job, blamed=first.host)
    text = f"{describe_exit(first)}{_in_its_start(job, first.exit.rank)}"
    return _fault(job, now, Reason(RANK_FAILED, text), code if code > 0 else 128 - code)


def _in_its_start(job: Job, rank: int) -> str:
    starts = {start.rank: start for start in starts_of(job)}
    return ended_in(starts.get(rank), tuple(starts.values()), job.plan.world_size if job.plan else 0)


def starts_of(job: Job) -> Iterator[StartRecord]:
    """What is known of the starts of the present generation's ranks."""
    for view in job.nodes.values():
        for start in view.status.starts if view.status is not None else ():
            if start.generation == job.generation:
                yield start


def start_refused(job: Job, generation: int, text: str, now: float) -> Job:
    """The ranks do not make one job, and would not the next time: it ends, whatever their exits are."""
    running = job.phase in (Phase.STARTING, Phase.RUNNING, Phase.ABORTING)
    if generation != job.generation or job.uncommitted or not running or job.verdict is not None:
        return job
    if job.phase is Phase.ABORTING and job.reason.code != RANK_FAILED:
        return job  # it ends for another reason: the next generation may well be another
    return end(job, now, Phase.FAILED, Reason(START_CHECK, text), StartCheckError.exit_code)


def diagnosed(job: Job, generation: int, reason: Reason, host: str, now: float) -> Job:
    """Ranks that live do not get on: their stacks are worth more than the time that it takes to ask for them.

    ``host`` is the culprit's, "" where there is none.
    """
    if generation != job.generation or job.uncommitted or job.phase not in (Phase.STARTING, Phase.RUNNING):
        return job
    return replace(_fault(replace(job, blamed=host), now, reason, EXIT_HANG), evidence=True)


def _fault(job: Job, now: float, reason: Reason, exit_code: int) -> Job:
    """Start anew if that is worth a try, else end as failed."""
    decision = foresee(job, reason, exit_code, now)
    if decision.restart:
        return replace(abort(job, now, reason), charged=True, exit_code=exit_code)
    return end(job, now, Phase.FAILED, decision.reason, decision.exit_code)


def describe_exit(failure: Failure) -> str:
    """How a rank ended, as one sentence."""
    end = failure.exit
    how = f"exited with code {end.exit_code}" if end.exit_code > 0 else f"was killed by {signal_name(-end.exit_code)}"
    return f"rank {end.rank} (local rank {end.local_rank}, pid {end.pid} on {failure.host}) {how}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
