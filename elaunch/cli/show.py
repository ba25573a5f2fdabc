"""What operators see: tables for people, documents for machines; the same words in both."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from elaunch.controller.messages import unpack_run_phase
from elaunch.controller.operating import GONE, Overview
from elaunch.controller.roster import count
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.journal import Happening, Operation

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


def jobs(found: Sequence[tuple[Overview, str]], silent: Sequence[str]) -> str:
    """The table of ``elaunch ps``."""
    rows = [("JOB", "PHASE", "GEN", "NODES", "RANKS", "RESTARTS", "REASON")]
    for seen, endpoints in found:
        row = job_row(seen, endpoints)
        nodes = f"{row['nodes']} of {row['min_nodes']}:{row['max_nodes']}" if row["max_nodes"] else str(row["nodes"])
        restarts = f"{row['restart_count']} of {row['max_restarts']}" if row["max_restarts"] is not None else "-"
        reason = row["reason"]["text"] if row["reason"] else ""
        phase = "no agent lives" if row["phase"] == GONE else row["phase"]
        rows.append((row["job"], phase, str(row["generation"]), nodes, str(row["ranks"]), restarts, reason))
    lines = [_table(rows)] if found else ["no jobs"]
    lines += [f"no answer from the etcd at {endpoints}" for endpoints in silent]
    return "\n".join(lines)


def status_document(seen: Overview, live: Live, lines: Sequence[Happening]) -> dict[str, Any]:
    """All of ``elaunch status``."""
    document = job_row(seen, "")
    del document["etcd"]
    return document | {
        "budget_left": _budget_left(document),
        **_live_part(live),
        "leader": _leader_row(seen),
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


def status(seen: Overview, live: Live, lines: Sequence[Happening]) -> str:
    """``elaunch status`` for a person."""
    document = status_document(seen, live, lines)
    parts = [_headline(seen, document)]
    if document["leader"] and document["leader"]["host"] is None:
        parts.append(f"led by {document['leader']['node_id']} at {document['leader']['address']}")
    if document["live_error"]:
        parts.append(f"the leader does not answer ({document['live_error']}): as etcd has it")
    if seen.nodes:
        parts.append(_node_table(document))
    for drain in document["drained"]:
        parts.append(f"host {drain['host']} is out: {drain['why']}")
    for operation in seen.operations:
        if operation.standing.open:
            parts.append(
                f"open: {operation.kind} {operation.because}: {operation.answer or 'not seen by a leader yet'}"
            )
    if lines:
        parts.append("\n".join(["last events:", *(f"  {event(line)}" for line in lines[-LAST_EVENTS:])]))
    return "\n".join(parts)


def _headline(seen: Overview, document: dict[str, Any]) -> str:
    phase = "no agent lives" if document["phase"] == GONE else document["phase"]
    limits = f" of {document['min_nodes']}:{document['max_nodes']}" if document["max_nodes"] else ""
    world = f"{count(document['ranks'], 'rank')}, {count(len(seen.nodes), 'node')}{limits}"
    restarts = ""
    if document["max_restarts"] is not None:
        restarts = f", {count(document['restart_count'], 'restart')}, {document['budget_left']} left"
    lines = [f"job {seen.job}: {phase}, generation {document['generation']}, {world}{restarts}"]
    if document["exit_code"] is not None and seen.over:
        lines[0] += f", exit code {document['exit_code']}"
    why = document.get("waiting_for") or (document["reason"] or {}).get("text")
    if why:
        lines.append(f"  {why}")
    return "\n".join(lines)


def _node_table(document: dict[str, Any]) -> str:
    rows = [("NODE", "HOST", "RANKS", "PHASE", "STEP", "HEARD", "")]
    steps: dict[str, list[int]] = {}
    for rank in document.get("rank_progress", ()):
        if rank["step"] is not None:
            steps.setdefault(rank["node_id"], []).append(rank["step"])
    leads = document["leader"]["node_id"] if document["leader"] else ""
    for row in document["nodes"]:
        ranks = "-" if row["ranks"] is None else _span(*row["ranks"])
        heard = "-" if row["heard_seconds"] is None else f"{row['heard_seconds']:.1f} s ago"
        notes = [*(["leads"] if row["node_id"] == leads else []), *filter(None, [row["note"]])]
        known = steps.get(row["node_id"])
        step = _span(min(known), max(known)) if known else "-"
        rows.append((row["node_id"], row["host"], ranks, row["phase"] or "-", step, heard, "; ".join(notes)))
    return _table(rows)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def event(line: Happening, *, as_json: bool = False) -> str:
    """One line of history."""
    if as_json:
        return json.dumps(dataclasses.asdict(line))
    time = datetime.fromtimestamp(line.time).isoformat(sep=" ", timespec="seconds")
    return f"{time}  {line.code}: {line.text}"


def operation_document(job: str, operation: Operation) -> dict[str, Any]:
    """A command and what became of it."""
    return {"job": job, **dataclasses.asdict(operation), "standing": operation.standing.value}


def operation(job: str, done: Operation) -> str:
    """What became of a command, and what nodes answered where that is what was asked for."""
    lines = [f"{job}: {done.kind}: {done.answer}"]
    if done.kind == "stacks":
        lines += [f"--- node {node_id}\n{text}" for node_id, text in done.answers.items()]
    return "\n".join(lines)


def _table(rows: Iterable[Sequence[str]]) -> str:
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)
