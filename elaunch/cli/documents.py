"""What operators see, as documents for machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from elaunch.controller.messages import unpack_run_phase, unpack_start
from elaunch.controller.survey import Overview
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.journal import Happening, Operation
from elaunch.rendezvous.records import UNTOLD

LAST_EVENTS = 8
Live = pb.StatusReply | str
"""What the leader says, or why it does not."""


def job_row(seen: Overview, endpoints: str) -> dict[str, Any]:
    """One job as a document."""
    state, spec = seen.state, seen.spec
    low, high = _limits(seen)
    return {
        "job": seen.job,
        "phase": seen.phase,
        "generation": state.generation if state else 0,
        "restart_count": state.restart_count if state else 0,
        "max_restarts": spec.max_restarts if spec else None,
        "min_nodes": low,
        "max_nodes": high,
        "nodes": len(seen.nodes),
        "ranks": seen.plan.world_size if seen.plan and not seen.over else 0,
        "reason": dataclasses.asdict(state.reason) if state else None,
        "exit_code": state.exit_code if state and state.phase.final else None,
        "etcd": endpoints,
    }


def _limits(seen: Overview) -> tuple[int | None, int | None]:
    """The numbers of nodes that the job may have: an operator's, else the spec's."""
    if seen.state and seen.state.max_nodes and not seen.over:
        return seen.state.min_nodes, seen.state.max_nodes
    return (seen.spec.min_nodes, seen.spec.max_nodes) if seen.spec else (None, None)


def status_document(seen: Overview, live: Live, lines: Sequence[Happening], now: float) -> dict[str, Any]:
    """All of ``elaunch status`` at ``now``, in wall-clock seconds."""
    document = job_row(seen, "")
    del document["etcd"]
    return document | {
        "budget_left": _budget_left(document),
        **_live_part(live),
        "leader": _leader_row(seen),
        "checkpoint": _checkpoint_row(seen, live, now),
        "restored_step": seen.state.restored if seen.state and seen.state.restored != UNTOLD else None,
        "suspect_steps": list(seen.state.history.suspects) if seen.state else [],
        "nodes": [_node_row(seen, node, live) for node in seen.nodes],
        "drained": [dataclasses.asdict(d) for d in seen.state.drained] if seen.state else [],
        "commands": [operation_document(seen.job, operation) for operation in seen.operations],
        "events": [dataclasses.asdict(line) for line in lines[-LAST_EVENTS:]],
        "live": not isinstance(live, str),
        "live_error": live if isinstance(live, str) and not seen.over else None,
    }


def _leader_row(seen: Overview) -> dict[str, Any] | None:
    leader = seen.leader
    if leader is None:
        return None
    host = next((node.host for node in seen.nodes if node.node_id == leader.node_id), None)
    return {"node_id": leader.node_id, "host": host, "address": leader.address, "epoch": seen.epoch}


def _checkpoint_row(seen: Overview, live: Live, now: float) -> dict[str, Any] | None:
    """The last committed checkpoint. What a failure would cost only the leader knows."""
    if seen.checkpoint is None:
        return None
    age = max(0.0, now - seen.checkpoint.time)
    row = {
        **dataclasses.asdict(seen.checkpoint),
        "age_seconds": round(age, 3),
        "lost_seconds": None,
        "lost_steps": None,
    }
    if isinstance(live, str) or not live.HasField("checkpoint") or seen.over:
        return row
    told = live.checkpoint
    lost_steps = told.lost_steps if told.lost_steps >= 0 else None
    lost = {"lost_seconds": round(told.lost_seconds, 3), "lost_steps": lost_steps}
    return row | {"age_seconds": round(told.age_seconds, 3)} | lost


def _rank_row(line: pb.RankLine) -> dict[str, Any]:
    return {
        "rank": line.rank,
        "node_id": line.node_id,
        "pid": line.pid,
        "step": line.step if line.step >= 0 else None,
        "step_seconds": round(line.step_seconds, 3) if line.step >= 0 else None,
        "beat_seconds": round(line.beat_seconds, 3) if line.beat_seconds >= 0 else None,
        "state": line.state,
        "where": line.where,
        "section": line.section,
        "waits_in": line.waits_in,
        "progress_seconds": round(line.progress_seconds, 3),
        "awaited_by": line.awaited_by,
        "start": dataclasses.asdict(unpack_start(line.start)) if line.HasField("start") else None,
    }


def _port_row(line: pb.PortLine) -> dict[str, Any]:
    return {
        "port": line.port,
        "host": line.host,
        "node_id": line.node_id,
        "ranks": list(line.ranks),
        "code": line.code,
        "text": line.text,
        "seconds": round(line.seconds, 3),
        "left_out": line.left_out,
    }


def _live_part(live: Live) -> dict[str, Any]:
    if isinstance(live, str):
        return {}
    return {
        "phase": live.phase,
        "generation": live.generation,
        "restart_count": live.restart_count,
        "reason": {"code": live.code, "text": live.reason},
        "waiting_for": live.waiting_for or None,
        "phase_seconds": round(live.phase_seconds, 3),
        "budget_left": live.budget_left,
        "rank_progress": [_rank_row(line) for line in live.ranks],
        "ports": [_port_row(line) for line in live.ports],
        "refused": dict(live.refused),
    }


def _budget_left(document: dict[str, Any]) -> int | None:
    if document["max_restarts"] is None:
        return None
    return max(0, int(document["max_restarts"]) - int(document["restart_count"]))


def _node_row(seen: Overview, node: Any, live: Live) -> dict[str, Any]:
    member = seen.plan.member(node.node_id) if seen.plan else None
    row: dict[str, Any] = {
        "node_id": node.node_id,
        "host": node.host,
        "address": node.address,
        "pid": node.pid,
        "slots": node.slots,
        "ranks": [member.rank0, member.rank0 + member.slots - 1] if member else None,
        "phase": None,
        "heard_seconds": None,
        "note": "",
    }
    line = None if isinstance(live, str) else next((n for n in live.nodes if n.node_id == node.node_id), None)
    if line is not None:
        row["phase"] = unpack_run_phase(line.phase).value
        row["heard_seconds"] = round(line.heard_seconds, 3) if line.heard_seconds >= 0 else None
        row["ranks"] = [line.rank0, line.rank0 + line.slots - 1] if line.rank0 >= 0 else None
        row["note"] = line.note if line.attached else "; ".join(filter(None, ["no stream", line.note]))
    return row


def operation_document(job: str, operation: Operation) -> dict[str, Any]:
    """A command and what became of it."""
    return {"job": job, **dataclasses.asdict(operation), "standing": operation.standing.value}
