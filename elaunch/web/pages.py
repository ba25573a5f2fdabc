"""A hang, ports and machines as the page reads them. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.web.source import Facts

MOST_PORTS = 1024
_AT_WORK = ("starting", "running", "aborting")


def hang_document(facts: Facts) -> dict[str, Any]:
    """The hang that is now, or the last one."""
    reply = facts.reply
    if reply is None or not reply.HasField("hang"):
        return {"job": facts.seen.job, "hang": None}
    hang = reply.hang
    starts = {line.rank: line.start for line in reply.ranks if line.HasField("start")}
    blamed = {line.rank for line in hang.culprits}
    stacks = [{"rank": ranks[0], "ranks": spans_of(ranks), "host": group.host, "culprit": bool(blamed & set(ranks)),
               "text": group.text} for group in hang.stacks if (ranks := list(group.ranks))]  # fmt: skip
    stacks.sort(key=lambda stack: (not stack["culprit"], stack["rank"]))
    return {
        "job": facts.seen.job,
        "hang": {
            "now": hang.generation == reply.generation and reply.phase in _AT_WORK,
            "generation": hang.generation,
            "time": hang.time,
            "code": hang.code,
            "text": hang.text,
            "culprits": [_culprit(line, starts.get(line.rank)) for line in hang.culprits],
            "waits": [
                {
                    "group": wait.group,
                    "what": wait.what,
                    "sequence": wait.sequence,
                    "since": round(wait.since, 1),
                    "waiting": _pairs(wait.waiting),
                    "absent": _pairs(wait.absent),
                }
                for wait in hang.waits
            ],
            "evidence": list(hang.evidence),
            "stacks": stacks,
        },
    }


def _culprit(line: pb.RankLine, start: pb.StartRecord | None) -> dict[str, Any]:
    return {
        "rank": line.rank,
        "host": line.host,
        "node_id": line.node_id,
        "device": " ".join(filter(None, (start.logical_device, start.device_id))) if start else "",
        "nic": start.nics if start else "",
        "where": line.where,
        "state": line.state,
        "section": line.section,
        "step": line.step if line.step >= 0 else None,
        "progress_age": round(line.progress_seconds, 1),
    }


def ports_document(facts: Facts) -> dict[str, Any]:
    """All ports that ranks use, those in trouble first."""
    reply = facts.reply
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for level in reply.port_levels if reply else ():
        rows[level.host, level.port] = {
            "host": level.host,
            "node_id": level.node_id,
            "port": level.port,
            "ranks": [min(level.ranks), max(level.ranks)] if level.ranks else None,
            "rate_gbit": level.rate if level.HasField("rate") else None,
            "state": level.state,
            "phys_state": level.phys_state,
            "sent": level.sent if level.HasField("sent") else None,
            "received": level.received if level.HasField("received") else None,
            "errors": dict(level.rose),
            "trouble": [],
            "left_out": not level.ranks,
        }
    for line in reply.ports if reply else ():
        row = rows.setdefault((line.host, line.port), _unheard(line))
        row["trouble"].append({"code": line.code, "text": line.text, "seconds": round(line.seconds, 1)})
        row["left_out"] = line.left_out
    ordered = sorted(rows.values(), key=lambda row: (not row["trouble"], row["host"], row["port"]))
    more = len(ordered) - MOST_PORTS
    document = {"job": facts.seen.job, "at": facts.at, "ports": ordered[:MOST_PORTS]}
    return document | ({"more": more} if more > 0 else {})


def _unheard(line: pb.PortLine) -> dict[str, Any]:
    """A port of which there is no level: its node is gone, or has not told yet."""
    ranks = [min(line.ranks), max(line.ranks)] if line.ranks else None
    named = {"host": line.host, "node_id": line.node_id, "port": line.port, "ranks": ranks}
    unknown = {"rate_gbit": None, "state": "unknown", "phys_state": "", "sent": None, "received": None}
    return named | unknown | {"errors": {}, "trouble": [], "left_out": line.left_out}


def spans_of(ranks: Sequence[int]) -> list[list[int]]:
    """Ranks as [first, last] pairs."""
    found: list[list[int]] = []
    for rank in sorted(ranks):
        if found and found[-1][1] == rank - 1:
            found[-1][1] = rank
        else:
            found.append([rank, rank])
    return found


def _pairs(spans: Sequence[int]) -> list[list[int]]:
    return [[spans[i], spans[i + 1]] for i in range(0, len(spans) - 1, 2)]
