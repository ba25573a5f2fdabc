"""A job's facts as the documents that the page reads. Values only."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from elaunch.controller import facts as told
from elaunch.controller.levels import level
from elaunch.controller.status_messages import unpack_run_phase
from elaunch.controller.survey import Overview
from elaunch.metrics.goodput import CAUSES, USEFUL, ratio
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.journal import Happening, Operation
from elaunch.web.source import Facts

SHOWN_COMMANDS = 20
_ROW = (
    *("job", "phase", "generation", "restart_count", "max_restarts", "budget_left", "min_nodes", "max_nodes"),
    *("reason", "exit_code", "over"),
)
_SHOWN_OF_ARGUMENTS = 200  # characters


def job_row(facts: Facts) -> dict[str, Any]:
    """One line of the list of jobs."""
    whole = job_document(facts)
    checkpoint, goodput = whole["checkpoint"], whole["goodput"]
    return {name: whole[name] for name in _ROW} | {
        "nodes": len(whole["nodes"]),
        "ranks": whole["world_size"],
        "leader": whole["leader"]["host"] if whole["leader"] else None,
        "here": facts.here,
        "checkpoint_step": checkpoint["step"] if checkpoint else None,
        "checkpoint_age": checkpoint["age_seconds"] if checkpoint else None,
        "goodput": goodput["ratio"] if goodput else None,
    }


def job_document(facts: Facts) -> dict[str, Any]:
    """The head of a job's page."""
    seen, reply = facts.seen, facts.reply
    state, stands = seen.state, told.stands(seen)
    document: dict[str, Any] = {
        "at": facts.at,
        "live": reply is not None,
        "live_error": told.unheard(facts.live, seen),
        "phase_seconds": None,
        "over": seen.over,
        "waiting_for": None,
        "leader": _leader(facts),
        "world_size": stands.pop("ranks"),
        "step": None,
        "step_seconds": None,
        "checkpoint": _checkpoint(facts),
        "cost": None,
        "goodput": None,
        "stragglers": [],
        "nodes": _nodes(seen, reply),
        "drained": [{"host": drain.host, "why": drain.why} for drain in state.drained] if state else [],
        "commands": [operation_row(one) for one in reversed(seen.operations[-SHOWN_COMMANDS:])],
        "refused": {},
        **stands,
    }
    return document | (_live(reply) if reply is not None else {})


def _live(reply: pb.StatusReply) -> dict[str, Any]:
    """What only the leader knows, or knows better."""
    step = max((line.step for line in reply.ranks), default=-1)
    cost = {"seconds": round(reply.lost_seconds, 3), "steps": told.step(reply.lost_steps)}
    return {
        **told.now(reply),
        "max_restarts": reply.max_restarts,
        "min_nodes": reply.min_nodes,
        "max_nodes": reply.max_nodes,
        "world_size": reply.world_size,
        "step": told.step(step),
        "step_seconds": round(reply.usual_step_seconds, 4) or None,
        "cost": cost,
        "goodput": goodput_row(reply),
        "stragglers": [{"rank": r.rank, "ratio": round(r.slower, 2)} for r in reply.ranks if r.slower],
        "refused": dict(reply.refused),
    }


def goodput_row(reply: pb.StatusReply) -> dict[str, Any] | None:
    """How well the job's time was used."""
    if not reply.HasField("accounts"):
        return None
    seconds = reply.accounts.seconds
    useful, total = seconds.get(USEFUL, 0.0), reply.accounts.total_seconds
    part = ratio(useful, total)
    return {
        "ratio": None if part is None else round(part, 4),
        "total_seconds": round(total, 3),
        "useful_seconds": round(useful, 3),
        "lost": {cause: round(seconds.get(cause, 0.0), 3) for cause in CAUSES},
        "activity": reply.accounts.activity,
        "activity_seconds": round(reply.accounts.activity_seconds, 3),
    }


def _leader(facts: Facts) -> dict[str, Any] | None:
    row = told.leader(facts.seen)
    return row and {**row, "host": row["host"] or row["address"].rpartition(":")[0], "here": facts.here}


def _checkpoint(facts: Facts) -> dict[str, Any] | None:
    """The last committed checkpoint."""
    last, reply = facts.seen.checkpoint, facts.reply
    if last is None:
        return None
    age = facts.at - last.time
    if reply is not None and reply.HasField("checkpoint") and reply.checkpoint.step == last.step:
        age = reply.checkpoint.age_seconds
    return {
        "step": last.step,
        "age_seconds": round(max(0.0, age), 3),
        "generation": last.generation,
        "path": last.path,
        "bytes": last.bytes,
        "seconds": round(last.seconds, 3),
        "blocked_seconds": last.blocked,
        "host": last.host,
        "rank": last.rank,
    }


def _nodes(seen: Overview, reply: pb.StatusReply | None) -> list[dict[str, Any]]:
    leader = seen.leader.node_id if seen.leader else ""
    out = {node_id for drain in seen.state.drained for node_id in drain.nodes} if seen.state else set()
    if reply is None:
        return [
            _node(node.node_id, node.host, node.slots, leader, out) | {"rank0": member.rank0 if member else None}
            for node in seen.nodes
            for member in (seen.plan.member(node.node_id) if seen.plan else None,)
        ]
    return [
        _node(line.node_id, line.host, line.slots, leader, out)
        | {
            "rank0": line.rank0 if line.rank0 >= 0 else None,
            "phase": unpack_run_phase(line.phase).value,
            "generation": line.generation,
            "attached": line.attached,
            "heard_seconds": round(line.heard_seconds, 1) if line.heard_seconds >= 0 else None,
            "note": line.note,
            "member": line.rank0 >= 0,
        }
        for line in sorted(reply.nodes, key=lambda line: (line.rank0 < 0, line.rank0, line.host))
    ]


def _node(node_id: str, host: str, slots: int, leader: str, out: set[str]) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "host": host,
        "slots": slots,
        "rank0": None,
        "phase": None,
        "generation": None,
        "attached": None,
        "heard_seconds": None,
        "note": "",
        "member": None,
        "leader": node_id == leader,
        "drained": node_id in out,
    }


def operation_row(operation: Operation) -> dict[str, Any]:
    """A command and what became of it; without the stacks that nodes may have answered with."""
    names = ("id", "kind", "who", "at", "reason", "answer", "exit_code", "generation")
    arguments = {name: str(value)[:_SHOWN_OF_ARGUMENTS] for name, value in operation.arguments.items()}
    row = {name: getattr(operation, name) for name in names}
    return row | {"standing": operation.standing.value, "arguments": arguments}


def event_row(line: Happening) -> dict[str, Any]:
    """One line of history."""
    return dataclasses.asdict(line) | {"level": level(line.code)}


def event_rows(lines: Iterable[Happening]) -> list[dict[str, Any]]:
    return [event_row(line) for line in lines]


def without_ages(document: dict[str, Any]) -> dict[str, Any]:
    """What of a job's document is news when it changes."""
    rest = {k: v for k, v in document.items() if k not in ("at", "phase_seconds", "cost", "goodput", "step")}
    checkpoint = document["checkpoint"]
    nodes: Sequence[dict[str, Any]] = document["nodes"]
    return rest | {
        "checkpoint": checkpoint and {k: v for k, v in checkpoint.items() if k != "age_seconds"},
        "nodes": [{k: v for k, v in node.items() if k != "heard_seconds"} for node in nodes],
    }
