"""What operators see, as text for people; the words are those of the documents."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from elaunch.cli.documents import LAST_EVENTS, Live, job_row, status_document
from elaunch.cli.rank_table import rank_rows
from elaunch.cli.table import plain, table
from elaunch.controller.findings import users
from elaunch.controller.roster import count
from elaunch.controller.survey import GONE, Overview
from elaunch.rendezvous.journal import Happening, Operation
from elaunch.rendezvous.records import Phase

_WIDEST = 100  # characters of one cell of a table
_STILL = 10.0  # seconds without progress after which a rank has a line of its own
_RANKS_SHOWN = 8  # lines of ranks that others wait for, and as many of other ranks
_PORTS_SHOWN = 16
_HELD = {"T": "stopped (SIGSTOP)", "t": "held by a debugger", "D": "stuck in the kernel"}


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
    return plain("\n".join(lines))


def status(seen: Overview, live: Live, lines: Sequence[Happening], now: float, *, ranks: bool = False) -> str:
    """``elaunch status`` for a person, at ``now`` in wall-clock seconds; with a row for each rank if ``ranks``."""
    document = status_document(seen, live, lines, now)
    parts = [_headline(seen, document)]
    if document["leader"] and document["leader"]["host"] is None:
        parts.append(f"led by {document['leader']['node_id']} at {document['leader']['address']}")
    if document["leader"] and document["leader"]["web"]:
        parts.append(f"page at {document['leader']['web']}")
    if document["live_error"]:
        parts.append(f"the leader does not answer ({document['live_error']}): as etcd has it")
    parts += _checkpoint(document)
    if seen.nodes:
        parts.append(_node_table(document))
    if ranks and document.get("rank_progress"):
        parts.append(rank_table(document["rank_progress"]))
    parts += standing(document)
    parts += _ports(document)
    for drain in document["drained"]:
        parts.append(f"host {drain['host']} is out: {drain['why']}")
    for operation in seen.operations:
        if operation.standing.open:
            parts.append(
                f"open: {operation.kind} {operation.because}: {operation.answer or 'not seen by a leader yet'}"
            )
    if lines:
        parts.append("\n".join(["last events:", *(f"  {event(line)}" for line in lines[-LAST_EVENTS:])]))
    return plain("\n".join(parts))


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


def _checkpoint(document: dict[str, Any]) -> list[str]:
    """The last one, what a failure now would cost, and which are suspect."""
    last, lines = document["checkpoint"], []
    if last:
        line = f"checkpoint: step {last['step']} of generation {last['generation']}, {span(last['age_seconds'])} ago"
        if last["lost_seconds"] is not None and document["phase"] == Phase.RUNNING.value:
            steps = "" if last["lost_steps"] is None else f"{count(last['lost_steps'], 'step')}, "
            line += f"; a failure now would cost {steps}{span(last['lost_seconds'])}"
        lines.append(f"{line} ({last['path']})")
    if document["suspect_steps"]:
        lines.append(f"suspect checkpoints, avoided: step {', '.join(map(str, document['suspect_steps']))}")
    return lines


def span(seconds: float) -> str:
    """A time as people read it: ``42 s``, ``5 min``, ``3.2 h``, ``2.5 d``."""
    for unit, size, digits in (("d", 86400, 1), ("h", 3600, 1), ("min", 60, 0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


def _node_table(document: dict[str, Any]) -> str:
    rows = [("NODE", "HOST", "RANKS", "PHASE", "STEP", "HEARD", "")]
    steps: dict[str, list[int]] = {}
    for rank in document.get("rank_progress", ()):
        if rank["step"] is not None:
            steps.setdefault(rank["node_id"], []).append(rank["step"])
    leads = document["leader"]["node_id"] if document["leader"] else ""
    for row in document["nodes"]:
        ranks = "-" if row["ranks"] is None else _span(*row["ranks"])
        heard = _heard(row)
        notes = [*(["leads"] if row["node_id"] == leads else []), *filter(None, [row["note"]])]
        known = steps.get(row["node_id"])
        step = _span(min(known), max(known)) if known else "-"
        rows.append((row["node_id"], row["host"], ranks, row["phase"] or "-", step, heard, "; ".join(notes)))
    return _table(rows)


def rank_table(ranks: Sequence[dict[str, Any]]) -> str:
    """The rows of ``elaunch status --ranks``."""
    return _table(rank_rows(ranks))


def standing(document: dict[str, Any]) -> list[str]:
    """A line for each rank that does not get on, those that others wait for first, and so many of each kind at most."""
    hosts = {node["node_id"]: node["host"] for node in document["nodes"]}
    still = [rank for rank in document.get("rank_progress", ()) if _stands(rank)]
    missed = sorted((rank for rank in still if rank["awaited_by"]), key=lambda rank: -rank["awaited_by"])
    rest = sorted((rank for rank in still if not rank["awaited_by"]), key=lambda rank: -rank["progress_seconds"])
    shown = [*missed[:_RANKS_SHOWN], *rest[:_RANKS_SHOWN]]
    lines = [f"  {_standing(rank, hosts.get(rank['node_id'], rank['node_id']))}" for rank in shown]
    if more := len(still) - len(shown):
        lines.append(f"  ... and {more} more")
    return [f"no progress for {_STILL:.0f} s and longer:", *lines] if lines else []


def _ports(document: dict[str, Any]) -> list[str]:
    """A line for each port in trouble, the worst first."""
    ports = document.get("ports", ())
    lines = [
        f"  {port['port']} of {port['host']} ({users(port['ranks'])}): {port['text']}, since {span(port['seconds'])}"
        for port in ports[:_PORTS_SHOWN]
    ]
    if more := len(ports) - len(lines):
        lines.append(f"  ... and {more} more")
    return ["ports:", *lines] if lines else []


def _stands(rank: dict[str, Any]) -> bool:
    owes = rank["awaited_by"] or rank["waits_in"] or rank["step"] is not None or rank["state"] in _HELD
    return bool(owes) and rank["progress_seconds"] >= _STILL


def _standing(rank: dict[str, Any], host: str) -> str:
    seconds = rank["progress_seconds"]
    if rank["awaited_by"]:
        waiting = count(rank["awaited_by"], "rank")
        what = f"{waiting} {'waits' if rank['awaited_by'] == 1 else 'wait'} for it; no progress since {seconds:.0f} s"
    elif rank["waits_in"]:
        what = f"waits in {rank['waits_in']} since {seconds:.0f} s"
    else:
        what = f"no progress since {seconds:.0f} s"
    if rank["state"] in _HELD:
        what += f", {_HELD[rank['state']]}"
    elif (rank["beat_seconds"] or 0.0) >= _STILL:
        what += f", holds the interpreter lock for {rank['beat_seconds']:.0f} s"
    step = f", step {rank['step']}" if rank["step"] is not None else ""
    section = f", in section {rank['section']!r}" if rank["section"] else ""
    return f"rank {rank['rank']} ({host}{step}): {what}{section}{', at ' + rank['where'] if rank['where'] else ''}"


def _heard(row: dict[str, Any]) -> str:
    """Only nodes with ranks send heartbeats: of the others a status, when it changes, is all that there is to hear."""
    if row["heard_seconds"] is None:
        return "-"
    return f"{row['heard_seconds']:.1f} s ago" if row["ranks"] is not None else "no ranks"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def event(line: Happening, *, as_json: bool = False) -> str:
    """One line of history."""
    if as_json:
        return json.dumps(dataclasses.asdict(line))
    time = datetime.fromtimestamp(line.time).isoformat(sep=" ", timespec="seconds")
    return plain(f"{time}  {line.code}: {line.text}")


def operation(job: str, done: Operation) -> str:
    """What became of a command, and what nodes answered where that is what was asked for."""
    lines = [f"{job}: {done.kind}: {done.answer}"]
    if done.kind == "stacks":
        lines += [f"--- node {node_id}\n{text}" for node_id, text in done.answers.items()]
    return plain("\n".join(lines))


def _table(rows: Iterable[Sequence[str]]) -> str:
    return table([_short(cell) for cell in row] for row in rows)


def _short(cell: str) -> str:
    """No cell is so long that it pushes all others off the screen; documents have the whole of it."""
    return cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 3]}..."
