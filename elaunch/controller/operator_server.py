"""What a leader tells operators of its job out of its memory, beside the control streams on the same server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import grpc

from elaunch.controller.access import Role
from elaunch.controller.cost import Cost, cost
from elaunch.controller.forming import waiting_for
from elaunch.controller.job import Job, NodeView
from elaunch.controller.leader import Term
from elaunch.controller.links import REST
from elaunch.controller.operator_pages import pack_hang, port_levels
from elaunch.controller.rerouting import REPORT
from elaunch.controller.restarting import restart_policy
from elaunch.controller.restarts import remaining
from elaunch.controller.sightings import RankView
from elaunch.controller.status_messages import pack_run_phase, pack_start
from elaunch.controller.text import sendable
from elaunch.controller.waits import awaited
from elaunch.metrics.goodput import USEFUL, goodput
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.records import Phase

MOST_PORTS = 256
MOST_RANKS = 8192  # of one answer, for the sake of its size
MOST_STARTS = 2048  # ranks of which the record of the start is told
SERVICE = "elaunch.v1.Operator"
STATUS = f"/{SERVICE}/Status"

Admit = Callable[[Any, Role], Awaitable[Term]]


def operator_handler(admit: Admit) -> Any:
    """The service's handler; ``admit`` gives the term that a call belongs to, or ends the call.

    A request, which is empty, is not parsed: gRPC would do that before ``admit`` knows who sent it.
    """

    async def status(_: bytes, context: Any) -> pb.StatusReply:
        return await status_aside(await admit(context, Role.VIEWER))

    method = grpc.unary_unary_rpc_method_handler(
        status,
        response_serializer=pb.StatusReply.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(SERVICE, {"Status": method})


def status_of(term: Term) -> pb.StatusReply:
    """The term's job now."""
    return _with_ranks(_head(term, term.ranks), term.job, term.ranks, term.stragglers)


async def status_aside(term: Term) -> pb.StatusReply:
    """The same; what grows with the ranks is done in a thread, so that the loop that leads the job goes on."""
    views = term.ranks
    return await asyncio.to_thread(_with_ranks, _head(term, views), term.job, views, dict(term.stragglers))


def _with_ranks(
    reply: pb.StatusReply, job: Job, views: Sequence[RankView], slow: Mapping[int, float]
) -> pb.StatusReply:
    """With what is known of each rank. Of values that never change, so that any thread may do it."""
    missed = awaited(views)
    first = sorted(views, key=lambda view: view.rank not in missed) if len(views) > MOST_RANKS else views
    reply.ranks.extend(_ranks(job, first[:MOST_RANKS], missed, slow))
    reply.exits.extend(_exits(job))
    return reply


def _head(term: Term, views: Sequence[RankView]) -> pb.StatusReply:
    job, now = term.job, term.now
    lost = cost(job, max((view.progress.step for view in views), default=-1), now)
    return pb.StatusReply(
        leader_epoch=term.epoch,
        phase=job.phase.value,
        generation=job.generation,
        restart_count=job.restart_count,
        max_restarts=job.policy.max_restarts,
        min_nodes=job.policy.min_nodes,
        max_nodes=job.policy.max_nodes,
        code=job.reason.code,
        reason=sendable(job.reason.text),
        waiting_for=sendable(waiting_for(job)) if job.phase is Phase.WAITING else "",
        phase_seconds=max(0.0, now - job.since),
        nodes=[_line(term, job, view) for view in job.nodes.values()],
        refused=term.counters.snapshot(),
        budget_left=max(0, remaining(restart_policy(job), job.history, now + job.wall_offset)),
        checkpoint=_checkpoint(job, lost, now),
        ports=_ports(term, job, now),
        world_size=job.plan.world_size if job.plan else 0,
        usual_step_seconds=job.learnt.step,
        restored_step=job.restored,
        accounts=_accounts(job, now + job.wall_offset),
        hang=pack_hang(term.hang),
        port_levels=port_levels(term.links),
        lost_seconds=lost.seconds,
        lost_steps=lost.steps,
    )


def _accounts(job: Job, wall: float) -> pb.Accounts | None:
    """What the job's time has gone into up to now."""
    accounts = job.accounts
    if not accounts.since:
        return None
    found = goodput(accounts, wall)
    return pb.Accounts(
        total_seconds=found.total,
        seconds={USEFUL: found.useful, **found.lost},
        activity=accounts.activity,
        activity_seconds=max(0.0, wall - accounts.began),
        restarts=accounts.restarts,
    )


def _exits(job: Job) -> list[pb.RankExit]:
    """The ends of the generation's ranks; those that failed first."""
    statuses = (view.status for view in job.nodes.values() if view.status is not None)
    ends = [end for status in statuses if status.generation == job.generation for end in status.exits]
    ends.sort(key=lambda end: end.exit_code == 0)
    return [
        pb.RankExit(local_rank=e.local_rank, rank=e.rank, pid=e.pid, exit_code=e.exit_code, time=e.time)
        for e in ends[:MOST_RANKS]
    ]


def _checkpoint(job: Job, lost: Cost, now: float) -> pb.LastCheckpoint | None:
    last = job.checkpoint
    if last is None:
        return None
    return pb.LastCheckpoint(
        step=last.step,
        generation=last.generation,
        age_seconds=max(0.0, now + job.wall_offset - last.time),
        lost_seconds=lost.seconds,
        lost_steps=lost.steps,
    )


def _ports(term: Term, job: Job, now: float) -> list[pb.PortLine]:
    """Ports in trouble, and those that are well, but not for long enough to be used again."""
    told = [
        pb.PortLine(
            host=sendable(finding.host),
            node_id=finding.node_id,
            port=sendable(finding.port),
            ranks=finding.ranks,
            code=finding.code,
            text=sendable(finding.trouble),
            seconds=max(0.0, now - finding.since),
            left_out=not finding.ranks,
        )
        for finding in term.links.open[:MOST_PORTS]
    ]
    resting = () if job.policy.on_link_fault == REPORT else term.links.resting
    wall = now + job.wall_offset
    rest = [
        pb.PortLine(
            host=sendable(fault.host),
            port=sendable(fault.port),
            code=fault.code,
            text=sendable(f"well again, left out until it was for {REST / 60:.0f} min (before: {fault.text})"),
            seconds=max(0.0, wall - fault.well),
            left_out=True,
        )
        for fault in resting
    ]
    return told + rest


def _line(term: Term, job: Job, view: NodeView) -> pb.NodeLine:
    node, status = view.node, view.status
    member = job.plan.member(node.node_id) if job.plan else None
    return pb.NodeLine(
        node_id=node.node_id,
        host=sendable(node.host),
        slots=node.slots,
        rank0=member.rank0 if member else -1,
        phase=pack_run_phase(status.phase) if status else pb.RUN_PHASE_UNSPECIFIED,
        generation=status.generation if status else 0,
        attached=term.hears(node.node_id),
        heard_seconds=term.silence(node.node_id),
        note=sendable(_note(view)),
    )


def _ranks(
    job: Job, views: Sequence[RankView], missed: Mapping[int, int], slow: Mapping[int, float]
) -> list[pb.RankLine]:
    statuses = (view.status for view in job.nodes.values() if view.status is not None)
    starts = {s.rank: s for status in statuses for s in status.starts if s.generation == job.generation}
    lines = [_rank(view, missed.get(view.rank, 0), slow.get(view.rank, 0.0)) for view in views]
    for line in lines[:MOST_STARTS]:
        if start := starts.get(line.rank):
            line.start.CopyFrom(pack_start(start))
    return lines


def _rank(view: RankView, awaited_by: int, slower: float) -> pb.RankLine:
    told = view.progress
    waits = next((group.collective or "a collective" for group in told.groups if group.waiting), "")
    return pb.RankLine(
        rank=told.rank,
        node_id=view.node_id,
        pid=told.pid,
        step=told.step,
        step_seconds=told.step_age,
        beat_seconds=told.beat_age if told.attached else -1.0,
        state=told.state,
        where=sendable(told.where),
        section=sendable(told.section),
        waits_in=sendable(waits),
        progress_seconds=told.progress_age,
        awaited_by=awaited_by,
        slower=slower,
    )


def _note(view: NodeView) -> str:
    status = view.status
    if status is not None and status.start_error:
        return status.start_error
    if status is not None and status.leaving:
        return f"leaving: {status.leaving_reason}"
    return view.out
