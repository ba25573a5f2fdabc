"""What operators see, as documents for machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from elaunch.controller import facts
from elaunch.controller.status_messages import unpack_run_phase, unpack_start
from elaunch.controller.survey import Overview
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.journal import Happening, Operation

LAST_EVENTS = 8
_ROW = (
    *("job", "phase", "generation", "restart_count", "max_restarts", "min_nodes", "max_nodes"),
    *("nodes", "ranks", "reason", "exit_code"),
)
Live = pb.StatusReply | str
"""What the leader says, or why it does not."""


def job_row(seen: Overview, endpoints: str) -> dict[str, Any]:
    """One job as a document."""
    found = facts.stands(seen) | {"nodes": len(seen.nodes), "etcd": endpoints}
    return {name: found[name] for name in (*_ROW, "etcd")}


def status_document(seen: Overview, live: Live, lines: Sequence[Happening], now: float) -> dict[str, Any]:
    """All of ``elaunch status`` at ``now``, in wall-clock seconds."""
    found = facts.stands(seen) | {"nodes": None}
    return {name: found[name] for name in (*_ROW, "budget_left")} | {
        **_live_part(live),
        "leader": facts.leader(seen),
        "checkpoint": _checkpoint_row(seen, live, now),
        "restored_step": found["restored_step"],
        "suspect_steps": found["suspect_steps"],
        "nodes": [_node_row(seen, node, live) for node in seen.nodes],
        "drained": [dataclasses.asdict(d) for d in seen.state.drained] if seen.state else [],
        "commands": [operation_document(seen.job, operation) for operation in seen.operations],
        "events": [dataclasses.asdict(line) for line in lines[-LAST_EVENTS:]],
        "live": not isinstance(live, str),
        "live_error": facts.unheard(live, seen),
    }


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
    lost = {"lost_seconds": round(told.lost_seconds, 3), "lost_steps": facts.step(told.lost_steps)}
    return row | {"age_seconds": round(told.age_seconds, 3)} | lost


def _rank_row(line: pb.RankLine) -> dict[str, Any]:
    return {
        "rank": line.rank,
        "node_id": line.node_id,
        "pid": line.pid,
        "step": facts.step(line.step),
        "step_seconds": round(line.step_seconds, 3) if line.step >= 0 else None,
        "beat_seconds": facts.age(line.beat_seconds),
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
        **facts.now(live),
        "rank_progress": [_rank_row(line) for line in live.ranks],
        "ports": [_port_row(line) for line in live.ports],
        "refused": dict(live.refused),
    }


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
        row["heard_seconds"] = facts.age(line.heard_seconds)
        row["ranks"] = [line.rank0, line.rank0 + line.slots - 1] if line.rank0 >= 0 else None
        row["note"] = line.note if line.attached else "; ".join(filter(None, ["no stream", line.note]))
    return row


def operation_document(job: str, operation: Operation) -> dict[str, Any]:
    """A command and what became of it."""
    return {"job": job, **dataclasses.asdict(operation), "standing": operation.standing.value}
